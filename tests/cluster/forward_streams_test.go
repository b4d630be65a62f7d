package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// newForwarded is a world whose client sends everything to the process that does not own its session.
func newForwarded(t *testing.T, o options) (w *world, owner, front *process) {
	t.Helper()
	w = newWorld(t, o)
	return w, w.processes[0], w.use(1)
}

// Each event leaves at once, whichever process it comes through, and a stream ends as its owner ends it.
func TestAForwardedStreamOnTheWire(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		call := w.CallTool("x", nil)
		tool := owner.next()
		elapse(time.Second)
		require.Equal(t, "200 sse primer@0 open", kit.Last(call))
		for i := range 3 {
			began := time.Now()
			require.NoError(t, tool.Progress(float64(i+1), 0, ""))
			call.WaitMessages(i + 1)
			require.Zero(t, time.Since(began))
		}
		require.NoError(t, tool.CloseStream(0))
		require.Equal(t, "200 sse primer@0 1:progress 2:progress 3:progress retry closed", kit.Last(call))
		require.NoError(t, tool.Progress(4, 0, ""))
		w.use(0)
		call.Poll()
		require.Equal(t, "200 sse primer@3 4:progress open", kit.Last(call), "through no process")
		w.use(1)
		call.Poll()
		lines := kit.Summaries(call)
		require.Equal(t, "200 sse primer@3 4:progress retry closed", lines[len(lines)-2], "the one through another process takes over")
		tool.Returns("done")
		require.Equal(t, "200 sse primer@4 5:result closed", kit.Last(call))
		require.Equal(t, `"done"`, string(call.Result()))

		listen := w.Listen()
		require.NoError(t, tool.Session().Notify(t.Context(), "notifications/a", nil))
		require.Equal(t, "200 sse primer@0 1:a open", kit.Last(listen))
		w.use(0)
		listen.Poll()
		require.NoError(t, tool.Session().Notify(t.Context(), "notifications/b", nil))
		require.Equal(t, []string{"200 sse primer@0 1:a retry closed", "200 sse primer@1 2:b open"}, kit.Summaries(listen))
		require.EqualValues(t, 3, front.Stats().Forwarded)
		require.EqualValues(t, 3, owner.Stats().Received)
		require.Zero(t, front.Stats().Sessions+front.Stats().Connections+front.Stats().Refused)
	})
}

// CloseAfter counts at the owner, and a client that polls through another process misses nothing.
func TestAForwardedCallIsPolled(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, _ := newForwarded(t, options{policy: rejoin.Policy{CloseAfter: 2 * time.Second}})
		call := w.CallTool("x", nil)
		tool := owner.next()
		began := time.Now()
		for i := range 20 {
			require.NoError(t, tool.Progress(float64(i), 0, ""))
			elapse(700 * time.Millisecond)
			if call.Open() == 0 {
				w.use(1 - int(w.serving.Load()))
				call.Poll()
			}
		}
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(20), kit.Progress(t, call.Messages()))
		require.Less(t, time.Since(began), 30*time.Second)
		require.NotZero(t, owner.Stats().Closed)
	})
}

// A client that leaves a stream that is forwarded leaves it at the owner, at once.
func TestAClientLeavesAForwardedStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		call := w.CallTool("x", nil)
		tool := owner.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		plain := w.CallTool("y", nil) // no head has come yet
		other := owner.next()
		listen := w.Listen()
		elapse(time.Second / 2)
		require.EqualValues(t, 3, owner.Stats().Connections)
		for _, c := range []*rejointest.Call{call, plain, listen} {
			c.Cut()
		}
		synctest.Wait()
		require.Zero(t, owner.Stats().Connections)
		require.NoError(t, tool.Cause())
		require.NoError(t, other.Cause(), "a disconnect never cancels")
		require.NoError(t, tool.Progress(2, 0, ""))
		call.Poll()
		require.Equal(t, "200 sse primer@1 2:progress open", kit.Last(call))
		require.Zero(t, front.Stats().OwnerLost)
	})
}

// Messages of any size pass whole, and nothing of one waits for the next.
func TestLargeMessagesAreForwarded(t *testing.T) {
	for _, size := range []int{0, 400, 430, 511, 512, 513, 4 << 10, 32<<10 - 60, 32 << 10, 32<<10 + 1, 64 << 10, 256 << 10} {
		kit.Bubble(t, func(t *testing.T) {
			w, owner, _ := newForwarded(t, options{
				engine: eventstore.MemoryConfig{SessionBytes: 256 << 20, TotalBytes: 256 << 20}, cluster: func(c *rejoin.Cluster) { c.TailBytes = -1 },
			})
			call := w.CallTool("x", nil)
			tool := owner.next()
			for i := range 3 {
				require.NoError(t, tool.Progress(float64(i), 0, strings.Repeat("x", size+i)))
				call.WaitMessages(i + 1)
			}
			listen := w.Listen()
			some := min(size, 40<<10) // the backlog of a standalone stream is bounded
			require.NoError(t, tool.Session().Notify(t.Context(), "notifications/a", map[string]string{"x": strings.Repeat("y", some)}))
			listen.WaitMessages(1)
			require.Len(t, listen.Messages()[0], some+len(`{"jsonrpc":"2.0","method":"notifications/a","params":{"x":""}}`))
			tool.Returns(strings.Repeat("z", size))
			require.Len(t, call.Result(), size+2)
			require.Equal(t, kit.UpTo(3), kit.Progress(t, call.Messages()))
			quick := w.CallTool("y", nil)
			owner.next().Returns(strings.Repeat("z", size))
			require.Len(t, quick.Result(), size+2)
			require.True(t, quick.JSON())
		})
	}
	kit.Bubble(t, func(t *testing.T) {
		w, owner, _ := newForwarded(t, options{policy: rejoin.Policy{Mode: rejoin.ModeJSON}})
		quick := w.CallTool("y", nil)
		owner.next().Returns(strings.Repeat("z", 12<<20))
		require.Len(t, quick.Result(), 12<<20+2)
	})
}

// A burst arrives whole and in order, and a client that has missed it gets it in one piece.
func TestABurstIsForwarded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, _ := newForwarded(t, options{instant: true})
		call := w.CallTool("x", nil)
		tool := owner.next()
		for i := range 2000 {
			require.NoError(t, tool.Progress(float64(i), 0, strings.Repeat("x", i%700)))
		}
		call.Cut()
		call.PollFrom(call.IDs()[0])
		tool.Returns("done")
		call.Result()
		got := kit.Progress(t, call.Messages())
		require.Equal(t, kit.UpTo(2000), got[len(got)-2000:])
	})
}

// A reader that stops is noticed by both processes, and delays nothing but its own stream.
func TestASlowReaderOfAForwardedStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{config: func(c *rejoin.Config) { c.WriteTimeout = 5 * time.Second }})
		call := w.CallTool("x", nil)
		tool := owner.next()
		require.NoError(t, tool.Progress(0, 0, ""))
		call.WaitMessages(1)
		call.Freeze()
		for i := range 300 {
			require.NoError(t, tool.Progress(float64(i+1), 0, strings.Repeat("x", 3000)))
		}
		quick := w.CallTool("y", nil)
		began := time.Now()
		owner.next().Returns("quick")
		require.Equal(t, `"quick"`, string(quick.Result()))
		require.Zero(t, time.Since(began))
		elapse(20 * time.Second)
		require.EqualValues(t, 1, front.Stats().WritesTimedOut)
		require.Zero(t, owner.Stats().Connections)
		call.Thaw()
		call.Poll()
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(301), kit.Progress(t, call.Messages()))
	})
}

// The time-outs of both http.Servers cut neither streams nor calls that take long, and comments keep a silent stream alive.
func TestTimeOutsCutNothingThatIsForwarded(t *testing.T) {
	for _, mode := range []rejoin.Mode{rejoin.ModeAuto, rejoin.ModeJSON} {
		kit.Bubble(t, func(t *testing.T) {
			short := func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = time.Second, time.Second }
			o := options{policy: rejoin.Policy{Mode: mode}, http: short, config: func(c *rejoin.Config) { c.KeepAlive = 15 * time.Second }}
			w, owner, _ := newForwarded(t, o)
			listen, call := w.Listen(), w.CallTool("x", nil)
			tool := owner.next()
			elapse(10 * time.Minute)
			require.Equal(t, []int{1, 1}, []int{listen.Open(), call.Open()})
			require.Greater(t, strings.Count(listen.Wire(), ": \n\n"), 30)
			tool.Returns("done")
			require.Equal(t, `"done"`, string(call.Result()))
			require.Len(t, kit.Summaries(call), 1)
		})
	}
}

// What the client's process cannot flush, or has to end in time, the owner knows.
func TestTheWayOfAForwardedRequestCountsAtTheOwner(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		buffering := &kit.Buffering{}
		w, owner, front := newForwarded(t, options{policy: rejoin.Policy{CloseAfter: 30 * time.Second}, front: buffering.Around})
		buffering.On = true
		call := w.CallTool("x", nil)
		tool := owner.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		elapse(20 * time.Second)
		require.Equal(t, "open", kit.Last(call))
		elapse(15 * time.Second)
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(call))
		tool.Returns("done")
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
		_, res := kit.ReadAll(t, w.Do(kit.Request(t, http.MethodGet, "")))
		require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
		require.Equal(t, "POST, DELETE", res.Header.Get("Allow"))
		require.Equal(t, 1, front.log.Count("cannot flush"))
		require.Zero(t, owner.log.Count("cannot flush"))
	})
	kit.Bubble(t, func(t *testing.T) {
		limit := func(next http.Handler) http.Handler { return http.TimeoutHandler(next, 10*time.Second, "late") }
		w, owner, _ := newForwarded(t, options{front: limit})
		call := w.CallTool("x", nil)
		tool := owner.next()
		elapse(11 * time.Second)
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(call), "before the limit")
		tool.Returns("done")
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A middleware of the client's process that claims to flush and does not: the stream ends there at once, and its client polls.
func TestAMiddlewareHoldsBackWhatIsForwarded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{front: kit.HoldBack})
		call := w.CallTool("x", nil)
		tool := owner.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
		synctest.Wait()
		require.Zero(t, owner.Stats().Connections, "the owner has seen its reader go")
		require.NoError(t, tool.Progress(2, 0, ""))
		call.Poll()
		require.Equal(t, "200 sse primer@1 2:progress retry closed", kit.Last(call))
		tool.Returns("done")
		call.Poll()
		require.Equal(t, "200 sse primer@2 3:result closed", kit.Last(call))
		require.Equal(t, 1, front.log.Count("holds back"))
		require.Zero(t, owner.log.Count("holds back"))
	})
}

// Sixteen calls at once through two processes: each gets its own answers, and connections between the processes are used again.
func TestConnectionsBetweenProcessesAreUsedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		for range 50 {
			var calls []*rejointest.Call
			for i := range 16 {
				calls = append(calls, w.CallTool(fmt.Sprint("t", i), nil))
			}
			for range calls {
				owner.next().Returns("done")
			}
			for _, call := range calls {
				require.Equal(t, `"done"`, string(call.Result()))
			}
		}
		require.EqualValues(t, 800, front.Stats().Forwarded)
		require.LessOrEqual(t, w.net.Dialed(), 16+2, "and two for the checks of Self")
	})
}

// Questions of the server, the client's answers and cancellations reach the tool, whichever processes they come through.
func TestAnswersAndCancellationsAreForwarded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{onRequest: func(method string, _ json.RawMessage) (any, error) { return map[string]string{"to": method}, nil }}
		w, owner, front := newForwarded(t, o)
		third := w.add(o)
		call := w.CallTool("x", nil)
		tool := owner.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		w.use(2)
		require.JSONEq(t, `{"to":"roots/list"}`, fmt.Sprint(<-tool.Asks(t.Context(), "roots/list")))
		require.EqualValues(t, 1, third.Stats().Forwarded, "the answer")
		listen := w.Listen()
		w.use(1)
		var answer json.RawMessage
		require.NoError(t, tool.Session().Ask(t.Context(), "roots/list", nil, &answer))
		require.JSONEq(t, `{"to":"roots/list"}`, string(answer))
		require.Len(t, listen.Messages(), 1)
		require.EqualValues(t, 2, front.Stats().Forwarded)
		call.Cancel("enough")
		require.ErrorIs(t, tool.Cause(), rejoin.ErrCancelled)
		require.Equal(t, 0, call.Open())
		require.EqualValues(t, 3, front.Stats().Forwarded)
	})
}

// One more request of a session at a process that has just lost it to another one is not refused: it is forwarded, or looked up.
func TestARequestCrossesTheEndOfAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		var all []*kit.Response
		w.kill(0)
		w.back()
		for i := range 200 { // the owner is back, and so is its session, or it is adopted
			for n := range 2 {
				all = append(all, w.ask(t, n, http.MethodPost, w.session(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, 1000+2*i+n)))
			}
			if i == 50 {
				owner.link.SetLink(clustertest.Refused)
			}
			if i == 150 {
				owner.link.SetLink(clustertest.Up)
			}
			elapse(200 * time.Millisecond)
		}
		elapse(lease)
		unavailable := 0
		for _, res := range all {
			switch got := res.Summary(); {
			case got == served:
			case strings.HasPrefix(got, "503"):
				unavailable++
			default:
				t.Fatal(got)
			}
		}
		require.Less(t, unavailable, 200)
		require.EqualValues(t, 1, front.Stats().Adopted)
		require.NotZero(t, owner.Stats().Forwarded)
		require.NotZero(t, front.Stats().Forwarded)
	})
}
