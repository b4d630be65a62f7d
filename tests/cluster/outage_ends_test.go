package cluster_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// outageEnd is something that ends a call, or its session, while the engine is away and an event of the call waits for it.
type outageEnd struct {
	do    func(t *testing.T, w *world, call *rejointest.Call, tool *kit.ManualTool)
	cause error  // of the tool's context
	wire  string // what the client gets, before the engine is back
	later string // and after that
	over  bool   // the session has ended
}

var errApp = errors.New("the app has had enough")

var outageEnds = map[string]outageEnd{
	"DELETE": {
		do: func(_ *testing.T, w *world, _ *rejointest.Call, _ *kit.ManualTool) { w.Delete() }, cause: rejoin.ErrSessionEnded,
		wire: "200 sse primer@0 1:progress closed", over: true,
	},
	"cancel": {
		do:    func(_ *testing.T, _ *world, call *rejointest.Call, _ *kit.ManualTool) { call.Cancel("enough") },
		cause: rejoin.ErrCancelled, wire: "200 sse primer@0 1:progress open", later: "200 sse primer@0 1:progress 2:progress closed",
	},
	"the app ends the session": {
		do:    func(_ *testing.T, _ *world, _ *rejointest.Call, tool *kit.ManualTool) { tool.Session().End(errApp) },
		cause: errApp, wire: "200 sse primer@0 1:progress 3:error(-32000,2) ended closed", over: true,
	},
	"the operator ends the session": {
		do: func(t *testing.T, w *world, _ *rejointest.Call, _ *kit.ManualTool) {
			t.Helper()
			require.NoError(t, w.Server().EndSession(kit.Session(t, w.Client).Ref))
		},
		cause: rejoin.ErrSessionEnded, wire: "200 sse primer@0 1:progress 3:error(-32000,2) ended closed", over: true,
	},
	"Close": {
		do:    func(_ *testing.T, w *world, _ *rejointest.Call, _ *kit.ManualTool) { w.Server().Close() },
		cause: rejoin.ErrShutdown, wire: "200 sse primer@0 1:progress -:progress -:error(-32000,2) shutdown closed",
	},
	"a drain that takes too long": {
		do: func(t *testing.T, w *world, _ *rejointest.Call, _ *kit.ManualTool) {
			t.Helper()
			done := kit.Drain(t, w.Server(), time.Second)
			elapse(2 * time.Second)
			require.Error(t, <-done)
		},
		cause: rejoin.ErrShutdown, wire: "200 sse primer@0 1:progress -:progress -:error(-32000,2) shutdown closed",
	},
}

// Whatever ends a call or its session works while the engine is away: nothing hangs, tools see their contexts end, and nothing is left in the
// process or, when the engine is back, in the engine.
func TestEndsDuringAnOutage(t *testing.T) {
	for name, end := range outageEnds {
		for _, link := range links {
			t.Run(fmt.Sprintf("%s, %v", name, link), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, h := newWatchedWorld(t, options{})
					first := w.processes[0]
					resting := len(kit.Goroutines())
					call, tool := startedCall(t, w)
					first.link.SetLink(link)
					require.NoError(t, tool.Progress(2, 0, ""))
					elapse(3 * time.Second)
					began := time.Now()
					end.do(t, w, call, tool)
					require.LessOrEqual(t, time.Since(began), 5*time.Second, "nothing hangs")
					require.ErrorIs(t, tool.Cause(), end.cause)
					if end.over { // as long as no other process can have the session
						require.Equal(t, 404, w.CallTool("x", nil).Status())
					}
					elapse(5 * time.Second)
					require.Equal(t, end.wire, kit.Last(call))
					if end.over {
						require.Empty(t, kit.Sessions(first.Server))
						kit.RequireRested(t, resting)
					}
					first.link.SetLink(clustertest.Up)
					elapse(2 * lease)
					kit.RequireRested(t, resting)
					if end.later != "" {
						require.Equal(t, end.later, kit.Last(call))
					}
					_, err := w.engine.Find(t.Context(), h.all()[0].Session, cluster.Process{})
					if end.over {
						require.ErrorIs(t, err, cluster.ErrEnded, "the engine is told when it is back")
						return
					}
					if link != clustertest.Deaf { // else the engine was told
						require.NoError(t, err)
					}
				})
			})
		}
	}
}
