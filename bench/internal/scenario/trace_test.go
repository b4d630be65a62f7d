package scenario

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
)

func step(id string, n int) load.Event {
	return load.Event{ID: id, Data: fmt.Appendf(nil,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d,"total":3,"message":"step"}}`, n)}
}

func answer(id string, call int, text string) load.Event {
	return load.Event{ID: id, Data: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%q}]}}`, call, text)}
}

// What a client reads of a call is checked: order, repetition, content.
func TestTrace(t *testing.T) {
	primer, end := load.Event{ID: "p"}, load.Event{Retry: 1}
	for name, test := range map[string]struct {
		events []load.Event
		fault  string // "": no fault
	}{
		"all of it":        {[]load.Event{primer, step("a", 1), step("b", 2), step("c", 3), answer("d", 7, "done")}, ""},
		"over connections": {[]load.Event{primer, step("a", 1), end, primer, step("b", 2), step("c", 3), end, primer, answer("d", 7, "done"), end}, ""},
		"a gap is counted": {[]load.Event{step("a", 1), step("c", 3), answer("d", 7, "done")}, ""},
		"twice":            {[]load.Event{step("a", 1), step("a", 1)}, "after progress 1"},
		"out of order":     {[]load.Event{step("b", 2), step("a", 1)}, "after progress 2"},
		"no number":        {[]load.Event{{Data: []byte(`{"method":"notifications/progress","params":{"progress":"x"}}`)}}, "after progress 0"},
		"answered twice":   {[]load.Event{answer("d", 7, "done"), answer("d", 7, "done")}, "after the answer"},
		"after the answer": {[]load.Event{answer("d", 7, "done"), step("a", 1)}, "after the answer"},
		"another's answer": {[]load.Event{answer("d", 8, "done")}, "not expected"},
		"another answer":   {[]load.Event{answer("d", 7, "released")}, "not expected"},
		"an error":         {[]load.Event{{Data: []byte(`{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"expired"}}`)}}, "not expected"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen trace
			var err error
			for _, e := range test.events {
				if err == nil {
					err = seen.take(e, 7, "done")
				}
			}
			if test.fault != "" {
				require.ErrorContains(t, err, test.fault)
				return
			}
			require.NoError(t, err)
			require.True(t, seen.answer)
			require.Equal(t, test.events[0].ID, seen.first)
			require.Equal(t, len(test.events[0].Data) == 0, seen.primed)
			require.Equal(t, "d", seen.last)
			require.Equal(t, 3, seen.progress)
		})
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{7: "7", 999: "999", 1000: "1,000", 100_000: "100,000", 1_000_000: "1,000,000"} {
		require.Equal(t, want, thousands(n))
	}
}
