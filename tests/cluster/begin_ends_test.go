package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A session that ends before the engine knows the stream of a call: the client gets the error, and not a stream that ends with nothing.
func TestASessionEndsBeforeAStreamOfItHasBegun(t *testing.T) {
	for _, link := range []clustertest.Link{clustertest.Up, clustertest.Refused, clustertest.Silent} {
		for _, instant := range []bool{true, false} {
			if instant && link != clustertest.Up { // such an engine never fails
				continue
			}
			for _, after := range []time.Duration{time.Millisecond, time.Hour} { // the head is on its way, or is not
				kit.Bubble(t, func(t *testing.T) {
					w := newWorld(t, options{policy: rejoin.Policy{Mode: rejoin.ModeSSE, StreamAfter: after}, instant: instant})
					first := w.processes[0]
					first.link.SetLink(link)
					call := w.CallTool("x", nil)
					tool := first.next()
					elapse(10 * time.Millisecond)
					require.NoError(t, first.EndSession(kit.Sessions(first.Server)[0].Ref))
					require.Equal(t, "200 sse primer@0 1:error(-32000,2) ended closed", kit.Last(call), "%v %v %v", link, instant, after)
					require.ErrorIs(t, tool.Cause(), rejoin.ErrSessionEnded)
				})
			}
		}
	}
}

// The same, and the session goes on in another process: that process does not know the call, so the client must not be told to come back for it.
func TestASessionMovesBeforeAStreamOfItHasBegun(t *testing.T) {
	for _, mode := range []rejoin.Mode{rejoin.ModeSSE, rejoin.ModeAuto} {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, options{policy: rejoin.Policy{Mode: mode, StreamAfter: time.Millisecond}})
			first := w.processes[0]
			first.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
				if c.Op == "append" {
					f.Delay = 100 * time.Millisecond
				}
				return f
			})
			call := w.CallTool("x", nil)
			tool := first.next()
			elapse(10 * time.Millisecond)
			found, err := w.engine.Find(t.Context(), kit.KeyOf(w.session()), cluster.Process{})
			require.NoError(t, err)
			_, _, err = w.engine.Adopt(t.Context(), kit.KeyOf(w.session()), found.Record.Fence, cluster.Member{
				Process: cluster.Process{Cluster: "test", Incarnation: "thief", Self: "http://thief"},
			}, time.Hour)
			require.NoError(t, err)
			elapse(5 * time.Second)
			require.ErrorIs(t, tool.Cause(), rejoin.ErrMoved)
			require.Zero(t, call.Open())
			require.Equal(t, rejoin.ReasonMoved, call.Err().Reason(), call)
		})
	}
}
