package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The end of a task that has no result is never lost while its owner lives, whatever the engine forgets.
func TestTheEngineForgetsACancelledTask(t *testing.T) {
	for _, drains := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			o := tasks()
			o.cluster = func(c *rejoin.Cluster) { c.TailBytes = 1 }
			w := newWorld(t, o)
			elapse(3 * lease)
			id, _ := w.task(t, 0)
			w.about(t, 0, "tasks/cancel", id, "")
			require.Equal(t, "cancelled", w.state(t, 1, id))
			_, tool := w.task(t, 0)
			tool.Returns(done(1)) // it takes the room of the tail
			elapse(time.Second)
			w.engine.Forget()
			if drains {
				require.NoError(t, <-w.drain(t, time.Hour))
			}
			elapse(3 * lease)
			w.kill(0)
			require.Equal(t, "cancelled", w.state(t, 1, id))
		})
	}
}
