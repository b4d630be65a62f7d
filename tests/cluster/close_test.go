package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A client that is to be let go before the engine knows its stream gets its id first, however long that takes: without it the client could not come
// back.
func TestAClientIsLetGoWithAnID(t *testing.T) {
	for _, outage := range []time.Duration{-1, time.Minute} {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, options{policy: rejoin.Policy{StreamAfter: time.Millisecond}, cluster: func(c *rejoin.Cluster) { c.Outage = outage }})
			first := w.processes[0]
			first.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
				if c.Op == "append" {
					f = clustertest.Fault{Delay: 800 * time.Millisecond, Before: errors.New("slow")}
				}
				return f
			})
			call := w.CallTool("x", nil)
			tool := first.next()
			elapse(500 * time.Millisecond)
			require.NoError(t, tool.CloseStream(0))
			elapse(3 * time.Second)
			require.Equal(t, "open", kit.Last(call), "no head yet")
			first.link.SetScript(nil)
			elapse(2 * lease)
			require.Equal(t, "200 sse primer@0 retry closed", kit.Last(call))
			tool.Returns("done")
			require.JSONEq(t, `"done"`, string(call.Result()))
		})
	}
}
