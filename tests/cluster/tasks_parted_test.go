package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A request for a task that is being released waits for that, and does nothing meanwhile.
func TestATaskIsAskedForWhileItIsReleased(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			o := tasks()
			o.instant = instant
			w := newWorld(t, o)
			id, tool := w.task(t, 0)
			tool.Returns(done(1))
			w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
				if c.Op == "release" && c.N == 2 { // the first is that of the session
					return clustertest.Fault{Delay: time.Second / 2}
				}
				return clustertest.Fault{}
			})
			finished := kit.Drain(t, w.processes[0].Server, time.Hour)
			got := make(chan *kit.Response, 1)
			ask := taskRequest(t, "tasks/get", id)
			go func() { got <- w.send(0, ask) }()
			elapse(time.Second)
			require.Equal(t, "completed map[n:1]", stateOf(t, <-got))
			require.NoError(t, <-finished)
		})
	}
}
