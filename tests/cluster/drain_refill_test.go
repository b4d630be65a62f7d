package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// What an engine that has lost its data is given before a release is given again if that fails half-way.
func TestARefillThatFailsBeforeARelease(t *testing.T) {
	for _, op := range []string{"put", "restore"} {
		t.Run(op, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, tasks())
				elapse(3 * lease)
				call, tool := w.run(t, 2)
				tool.Returns("done")
				id, tool := w.task(t, 0)
				tool.Returns(done(1))
				w.engine.Forget()
				failures := 2
				w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
					if c.Op != op || failures == 0 {
						return clustertest.Fault{}
					}
					failures--
					if op == "put" {
						return clustertest.Fault{After: errors.New("the answer is lost")}
					}
					return clustertest.Fault{Before: errors.New("not now")}
				})
				require.NoError(t, <-w.drain(t, time.Hour))
				elapse(3 * lease)
				require.Equal(t, "completed map[n:1]", w.state(t, 1, id))
				w.use(1)
				call.Poll()
				require.Equal(t, `"done"`, string(call.Result()))
			})
		})
	}
}
