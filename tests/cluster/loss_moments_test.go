package cluster_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// requireGoesOn requires that a call whose client has got n events goes on with ids, and that another process serves the whole call when its
// owner is dead.
func requireGoesOn(t *testing.T, w *world, call *rejointest.Call, tool *kit.ManualTool, n int) {
	t.Helper()
	require.NoError(t, tool.Progress(float64(n+1), 0, ""))
	elapse(2 * time.Second)
	require.Equal(t, kit.UpTo(n + 2)[1:], kit.Progress(t, call.Messages()), "each once and in order")
	ids := call.IDs()
	require.Equal(t, fmt.Sprint(n+1), kit.ShortID(ids[len(ids)-1]), "ids go on")
	require.NoError(t, tool.CloseStream(0))
	tool.Returns("done")
	elapse(lease) // a renewal
	w.kill(0)
	w.use(1)
	call.PollFrom(ids[0])
	require.JSONEq(t, `"done"`, string(call.Result()))
	require.Equal(t, kit.UpTo(n + 2)[1:], kit.Progress(t, call.Messages()), "each once and in order")
}

// startedCall is a call whose client has got one event.
func startedCall(t *testing.T, w *world) (*rejointest.Call, *kit.ManualTool) {
	t.Helper()
	call := w.CallTool("x", nil)
	tool := w.processes[0].next()
	require.NoError(t, tool.Progress(1, 0, ""))
	synctest.Wait()
	require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(call))
	return call, tool
}

// once applies a fault to the next call of an operation, and to no later one.
func once(w *world, op string, f clustertest.Fault) {
	var done atomic.Bool
	w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
		if c.Op != op || done.Swap(true) {
			return clustertest.Fault{}
		}
		return f
	})
}

func TestTheEngineForgetsBeforeTheFirstEvent(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call := w.CallTool("x", nil)
		tool := w.processes[0].next()
		w.engine.Forget()
		require.NoError(t, tool.Progress(1, 0, ""))
		synctest.Wait()
		require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(call))
		requireGoesOn(t, w, call, tool, 1)
	})
}

// The engine forgets when it has not got the append yet, or when it has recorded it and the answer is on its way.
func TestTheEngineForgetsDuringAnAppend(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		t.Run(fmt.Sprintf("recorded=%v", recorded), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{})
				call, tool := startedCall(t, w)
				fault := clustertest.Fault{Delay: 100 * time.Millisecond}
				if recorded {
					fault = clustertest.Fault{DelayAnswer: 100 * time.Millisecond}
				}
				once(w, "append", fault)
				go func() { _ = tool.Progress(2, 0, "") }()
				synctest.Wait()
				w.engine.Forget()
				elapse(time.Second)
				requireGoesOn(t, w, call, tool, 2)
			})
		})
	}
}

// The engine forgets once more while the owner restores it: before the n-th operation.
func TestTheEngineForgetsWhileItIsRestored(t *testing.T) {
	for n := range int64(6) {
		for _, notice := range []string{"append", "renewal"} {
			t.Run(fmt.Sprintf("%d, noticed by the %s", n, notice), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newWorld(t, options{})
					call, tool := startedCall(t, w)
					var calls atomic.Int64
					w.engine.Forget()
					w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
						if c.Op != "renew" && calls.Add(1) == n+1 {
							w.engine.Forget() // before it gets this one
						}
						return clustertest.Fault{}
					})
					if notice == "renewal" {
						elapse(lease)
					}
					requireGoesOn(t, w, call, tool, 1)
				})
			})
		}
	}
}

// An idle session of an engine that has forgotten it is found by the other process as soon as its owner has renewed its lease. Before, it is not
// unknown.
func TestAnIdleSessionOfAnEngineThatForgets(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		elapse(lease/3 - time.Millisecond)
		w.engine.Forget()
		w.use(1)
		call := w.CallTool("x", nil)
		require.Equal(t, 503, call.Status(), "it may have been lost")
		elapse(lease / 3)
		w.kill(0)
		second := w.use(1)
		call = w.CallTool("x", nil)
		second.next().Returns("adopted")
		require.JSONEq(t, `"adopted"`, string(call.Result()))
	})
}

// The owner dies before it has noticed the loss: both have lost it. The client is not told that its session never was before the directory has
// stood for a while.
func TestOwnerAndEngineAreLostTogether(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		startedCall(t, w)
		w.processes[0].link.SetLink(clustertest.Refused)
		w.engine.Forget()
		w.use(1)
		require.Equal(t, 503, w.CallTool("x", nil).Status())
		elapse(3 * lease)
		require.Equal(t, 404, w.CallTool("x", nil).Status())
	})
}
