package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// everything is a session that has everything at once that an engine may lose.
type everything struct {
	events, empty, result, open, standalone *rejointest.Call // parked with events, parked without, with a result that waits, being read
	eventsTool, emptyTool, openTool         *kit.ManualTool
}

func newEverything(t *testing.T, w *world) *everything {
	t.Helper()
	e, p := &everything{}, w.processes[0]
	call := func() (*rejointest.Call, *kit.ManualTool) { return w.CallTool("x", nil), p.next() }
	e.standalone = w.Listen()
	e.events, e.eventsTool = call()
	require.NoError(t, e.eventsTool.Progress(1, 0, ""))
	require.NoError(t, e.eventsTool.CloseStream(0))
	require.NoError(t, e.eventsTool.Progress(2, 0, ""))
	e.empty, e.emptyTool = call()
	require.NoError(t, e.emptyTool.CloseStream(0))
	result, tool := call()
	e.result = result
	require.NoError(t, tool.Progress(1, 0, ""))
	synctest.Wait()
	require.NoError(t, tool.CloseStream(0))
	tool.Returns("waits")
	e.open, e.openTool = call()
	require.NoError(t, e.openTool.Progress(1, 0, ""))
	require.NoError(t, e.openTool.Session().Notify(context.Background(), "notifications/a", nil))
	synctest.Wait()
	e.standalone.Cut()
	require.NoError(t, e.openTool.Session().Notify(context.Background(), "notifications/b", nil))
	synctest.Wait()
	require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(e.events))
	require.Equal(t, "200 sse primer@0 retry closed", kit.Last(e.empty))
	require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(e.result))
	require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(e.open))
	require.Equal(t, "200 sse primer@0 1:a cut", kit.Last(e.standalone))
	return e
}

// check requires that a process that adopts the session serves all that the session had. more: events that were sent after the loss, of the
// call that is read.
func (e *everything) check(t *testing.T, w *world, more bool) {
	t.Helper()
	second := w.use(1)
	require.JSONEq(t, `"waits"`, string(e.result.Result()))
	require.Equal(t, "200 sse primer@1 2:result closed", lastOf(e.result))
	e.open.Poll()
	for _, call := range []*rejointest.Call{e.events, e.empty, e.open} {
		require.JSONEq(t, `{"reason":"owner_lost"}`, string(call.Err().Data))
	}
	events, empty := "200 sse primer@1 2:progress 2~:error(-32000,%s) owner_lost closed", "200 sse primer@0 0~:error(-32000,%s) owner_lost closed"
	open := "200 sse primer@1 1~:error(-32000,%s) owner_lost closed"
	if more {
		events = "200 sse primer@1 2:progress 3:progress 3~:error(-32000,%s) owner_lost closed"
		empty = "200 sse primer@0 1:progress 1~:error(-32000,%s) owner_lost closed"
		open = "200 sse primer@2 2~:error(-32000,%s) owner_lost closed"
	}
	require.Equal(t, fmt.Sprintf(events, e.events.ID()), lastOf(e.events))
	require.Equal(t, fmt.Sprintf(empty, e.empty.ID()), lastOf(e.empty))
	require.Equal(t, fmt.Sprintf(open, e.open.ID()), lastOf(e.open))
	e.standalone.Poll()
	_ = w.CallTool("x", nil)
	require.NoError(t, second.next().Session().Notify(context.Background(), "notifications/d", nil))
	standalone := "200 sse primer@1 2:b 1:d open"
	if more {
		standalone = "200 sse primer@1 2:b 3:c 1:d open"
	}
	require.Equal(t, standalone, lastOf(e.standalone))
}

// send sends one more message on each stream that can have one.
func (e *everything) send(t *testing.T) {
	t.Helper()
	for _, tool := range []*kit.ManualTool{e.eventsTool, e.emptyTool, e.openTool} {
		require.NoError(t, tool.Progress(9, 0, ""))
	}
	require.NoError(t, e.openTool.Session().Notify(context.Background(), "notifications/c", nil))
	synctest.Wait()
}

// The engine forgets everything. The owner notices it by its next append or its next renewal, and restores the record and the logs. Then the
// owner dies, and another process serves all that there was.
func TestAnEngineThatForgetsLosesNothing(t *testing.T) {
	for _, instant := range []bool{true, false} {
		for _, notice := range []string{"append", "renewal", "renewal and append"} {
			t.Run(fmt.Sprintf("instant=%v, %s", instant, notice), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newWorld(t, options{instant: instant})
					e := newEverything(t, w)
					first := w.processes[0]
					w.engine.Forget()
					puts := first.link.Count("put")
					switch notice {
					case "append":
						e.send(t)
						require.Greater(t, first.link.Count("put"), puts, "at once")
						elapse(lease) // what has waited is given back then
					case "renewal":
						elapse(lease)
						require.Equal(t, 1, first.log.Count("has lost data"))
					case "renewal and append":
						elapse(lease)
						e.send(t)
					}
					if notice != "renewal" {
						require.Equal(t, "200 sse primer@0 1:progress 2:progress open", lastOf(e.open), "ids go on")
					}
					w.kill(0)
					e.check(t, w, notice != "renewal")
				})
			})
		}
	}
}
