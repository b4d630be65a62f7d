package middleware

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// streams is the cell of the document that says how streams arrive.
func (r row) streams() string {
	switch {
	case r.plain == whole:
		return "no: calls are answered with JSON"
	case r.plain == later:
		return "no: clients poll"
	case r.gzip == zipped:
		return "yes; gzip if the client accepts it"
	}
	return "yes"
}

// The table of docs/middleware.md has the rows that are tested.
func TestTheTableOfMiddlewareIsTrue(t *testing.T) {
	want := []string{"| router | middleware | streams | what to know |", "|---|---|---|---|"}
	for _, r := range rows() {
		router := r.router
		switch {
		case r.middleware == "none":
			continue
		case strings.Contains(r.middleware, "http"):
			router = "each"
		}
		line := "| " + router + " | " + r.middleware + " | " + r.streams() + " | " + strings.TrimSpace(r.know+" ") + " |"
		if line = strings.ReplaceAll(line, "|  |", "| |"); !slices.Contains(want, line) {
			want = append(want, line)
		}
	}
	text, err := os.ReadFile("../../docs/middleware.md")
	require.NoError(t, err)
	got := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return !strings.HasPrefix(line, "|") })
	require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
}
