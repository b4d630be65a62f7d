package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The rest of the events, then the error, from every cursor that the client may have, and as often as it asks.
func TestARunningCallIsLostWithItsOwner(t *testing.T) {
	for _, events := range []int{0, 1, 3} {
		for _, instant := range []bool{true, false} {
			t.Run(fmt.Sprint(events, " events, instant ", instant), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newWorld(t, options{instant: instant})
					call, _ := w.run(t, events)
					ids := call.IDs()
					require.Len(t, ids, events+1)
					w.lose()
					for range 2 {
						for seq, id := range ids {
							call.PollFrom(id)
							words := []string{"200 sse", fmt.Sprint("primer@", seq)}
							for n := seq + 1; n <= events; n++ {
								words = append(words, fmt.Sprint(n, ":progress"))
							}
							words = append(words, fmt.Sprintf("%d~:error(-32000,2) owner_lost closed", events))
							require.Equal(t, strings.Join(words, " "), kit.Last(call))
						}
					}
				})
			})
		}
	}
}

func TestOwnerLostSaysSo(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, _ := w.run(t, 1)
		w.lose()
		e := call.Err()
		require.Equal(t, -32000, e.Code)
		require.Equal(t, rejoin.ReasonOwnerLost, e.Reason())
		require.Contains(t, e.Message, "may have run")
	})
}

// A client that comes back with the id of the error itself did not get what is behind it: nothing, but perhaps the error was lost with the connection.
func TestACursorOfTheErrorItself(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, _ := w.run(t, 2)
		w.lose()
		for range 3 {
			call.Poll()
			require.Equal(t, "200 sse primer@2 2~:error(-32000,2) owner_lost closed", kit.Last(call))
		}
	})
}

// An engine that has lost the end of a log: the client has a cursor that is past it. It keeps its session, and gets the error.
func TestACursorPastTheEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, _ := w.run(t, 2)
		done, tool := w.run(t, 1)
		tool.Returns("done")
		w.lose()
		for _, beyond := range []string{".3", ".77", ".3.abc"} {
			name, _, _ := strings.Cut(call.IDs()[0], ".")
			call.PollFrom(name + beyond)
			seq, _, _ := strings.Cut(beyond[1:], ".")
			require.Equal(t, "200 sse primer@"+seq+" "+seq+"~:error(-32000,2) owner_lost closed", kit.Last(call))
			name, _, _ = strings.Cut(done.IDs()[0], ".")
			get := w.ask(t, 1, http.MethodGet, w.session(), "", "Last-Event-ID", name+beyond)
			require.Equal(t, "200 sse primer@"+seq+" "+seq+"~:error(-32000,3) expired ended", get.Summary(), "it is unknown what the client has seen")
		}
		call.PollFrom(call.IDs()[0])
		require.Equal(t, "200 sse primer@0 1:progress 2:progress 2~:error(-32000,2) owner_lost closed", kit.Last(call))
	})
}

// The primer had no time to leave, so the client has no id. It cannot come back, and the session goes on.
func TestACallWithoutAnyID(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		call := w.CallTool("x", nil)
		tool := first.next()
		require.Empty(t, call.IDs())
		second := w.lose()
		_ = tool.Progress(1, 0, "") // it does not get out
		elapse(time.Second)
		require.Empty(t, call.IDs())
		call.Cut()
		again := w.CallTool("x", nil)
		second.next().Returns("again")
		require.Equal(t, `"again"`, string(again.Result()))
		streams := kit.Sessions(second.Server)[0].Streams
		require.Len(t, streams, 1, "nothing is kept of what nobody can fetch, and what was answered in JSON")
	})
}

// Clients that do not poll come back with the id of an event, if they got one.
func TestOwnerLostForAClientThatDoesNotPoll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{version: kit.Legacy})
		first := w.processes[0]
		call := w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.NoError(t, tool.Progress(2, 0, ""))
		elapse(time.Second)
		require.Equal(t, "200 sse comment 1:progress 2:progress open", kit.Last(call))
		w.lose()
		for seq, id := range call.IDs() {
			call.PollFrom(id)
			words := []string{"200 sse comment"}
			for n := seq + 2; n <= 2; n++ {
				words = append(words, fmt.Sprint(n, ":progress"))
			}
			require.Equal(t, strings.Join(append(words, "2~:error(-32000,2) owner_lost closed"), " "), kit.Last(call))
		}
	})
}

// A call that was cancelled has no answer, and gets none from the adopter.
func TestACancelledCallIsNotLost(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, _ := w.run(t, 1)
		call.Cancel("enough")
		w.lose()
		call.Poll()
		require.Equal(t, "204 sse answered", kit.Last(call))
	})
}
