package show

import (
	"fmt"
	"strings"
	"testing"
)

// stream makes what a client received: the numbers of progress notifications in order, 0 for the result, each with an id of its own.
func stream(steps ...int) (got []received) {
	for i, step := range steps {
		got = append(got, received{id: fmt.Sprintf("event-%d", i), step: step, result: step == 0})
	}
	return got
}

func TestCheck(t *testing.T) {
	sameID := stream(1, 2, 3, 0)
	sameID[2].id = sameID[1].id
	noID := stream(1, 2, 3, 0)
	noID[1].id = ""
	for _, tt := range []struct {
		name string
		got  []received
		want string // all faults, joined by "; "
	}{
		{"all is well", stream(1, 2, 3, 0), ""},
		{"a duplicate", stream(1, 2, 2, 3, 0), "progress 2 came twice"},
		{"a gap", stream(1, 3, 0), "progress 2 never came"},
		{"the last is missing", stream(1, 2, 0), "progress 3 never came"},
		{"a wrong order", stream(1, 3, 2, 0), "progress 2 came after progress 3"},
		{"no result", stream(1, 2, 3), "the result never came"},
		{"two results", stream(1, 2, 3, 0, 0), "the result came 2 times"},
		{"an early result", stream(1, 2, 0, 3), "something came after the result"},
		{"an unknown step", stream(1, 2, 3, 4, 0), "progress 4: there are only steps 1 to 3"},
		{"a negative step", stream(-1, 1, 2, 3, 0), "progress -1: there are only steps 1 to 3"},
		{"an event id twice", sameID, "event id event-1 came twice"},
		{"no event id", noID, "a message came without an event id"},
		{
			"nothing at all", nil,
			"progress 1 never came; progress 2 never came; progress 3 never came; the result never came",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := check(tt.got, 3); err != nil {
				got = strings.ReplaceAll(err.Error(), "\n", "; ")
			}
			if got != tt.want {
				t.Errorf("check says %q, want %q", got, tt.want)
			}
		})
	}
}
