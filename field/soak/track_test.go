package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A track finds lost, changed and repeated messages, and ids that are used twice.
func TestTrack(t *testing.T) {
	var tr track
	take := func(pos int, data string) (bool, string) { return tr.message(pos, []byte(data)) }
	_, wrong := take(1, "b")
	require.Contains(t, wrong, "message 1 after 0", "one was left out")
	fresh, wrong := take(0, "a")
	require.True(t, fresh)
	require.Empty(t, wrong)
	fresh, wrong = take(0, "a")
	require.False(t, fresh, "it came again")
	require.Empty(t, wrong)
	_, wrong = take(0, "b")
	require.Contains(t, wrong, "another one")

	require.Empty(t, tr.named("x.0.p", 0, true))
	require.Empty(t, tr.named("x.1", 1, false))
	require.Empty(t, tr.named("x.1", 1, false), "an event keeps its id")
	require.Contains(t, tr.named("x.1", 2, false), "stood for 1")
	require.Contains(t, tr.named("x.0.p", 0, true), "used before")
	require.Empty(t, tr.named("x.0.q", 0, true))
	id, pos, ok := tr.newest()
	require.Equal(t, "x.1", id, "what comes after it is new, and not what comes after the last primer")
	require.Equal(t, 1, pos)
	require.True(t, ok)
	id, _ = tr.cursor(2)
	require.Equal(t, "x.0.p", id)
}

// Events in the wrong order are a fault, and so is a result that says that more were sent than came.
func TestCallSeesWhatIsWrong(t *testing.T) {
	event := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"0.0/0","progress":1}}`
	second := `{"jsonrpc":"2.0","method":"notifications/message","params":{"logger":"call","data":{"call":"0.0/0","n":1}}}`
	result := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"call\":\"0.0/0\",\"sent\":2}"}]}}`
	for name, c := range map[string]struct {
		messages []string
		faults   int
	}{
		"all as it must be":     {[]string{event, second, result}, 0},
		"twice":                 {[]string{event, event, second, result}, 1},
		"one is lost":           {[]string{event, result}, 1},
		"the first is lost":     {[]string{second, result}, 1},
		"another call's":        {[]string{event, second, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"0.0/1","progress":3}}`, result}, 1},
		"two results":           {[]string{event, second, result, result}, 1},
		"after the result":      {[]string{event, second, result, second}, 1},
		"an error without need": {[]string{event, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"data":{"reason":"expired"}}}`}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := bareSession()
			call := newCall(s, 0)
			call.args.Events = 2
			for _, m := range c.messages {
				call.message(nil, []byte(m))
			}
			counts, faults := s.ledger.take()
			require.EqualValues(t, c.faults, counts["faults"], "%s", faults)
		})
	}
}
