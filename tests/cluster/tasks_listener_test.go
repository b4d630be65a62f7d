package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A client that listens hears of the end of a task also if the store takes long for it.
func TestAListenerHearsOfAnEndThatTheStoreTakesLongFor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := tasks()
		config := o.config
		o.config = func(c *rejoin.Config) {
			config(c)
			c.StoreTimeout = 5 * time.Second
		}
		w := newWorld(t, o)
		id, tool := w.task(t, 0)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		listen := kit.Serve(w.processes[0].Server, modernRequest(t, "subscriptions/listen", "", `,"notifications":{"taskIds":["`+id+`"]}`).WithContext(ctx))
		w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
			if c.Op == "restore" {
				return clustertest.Fault{Delay: 2 * time.Second}
			}
			return clustertest.Fault{}
		})
		tool.Returns(done(1))
		elapse(10 * time.Second)
		require.Contains(t, bodyOf(listen), `"status":"completed"`)
	})
}
