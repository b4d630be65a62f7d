package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The client of a call that disconnects while the call is made a task has no task.
func TestAClientDisconnectsWhileATaskIsMade(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
			if c.Op == "put" {
				return clustertest.Fault{Delay: time.Second / 2}
			}
			return clustertest.Fault{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		kit.Serve(w.processes[0].Server, modernRequest(t, "tools/call", "x", `,"name":"x"`).WithContext(ctx))
		tool := w.processes[0].next()
		elapse(1200 * time.Millisecond)
		cancel()
		elapse(time.Second)
		require.Error(t, tool.Cause())
		require.Zero(t, w.processes[0].Stats().Tasks)
	})
}
