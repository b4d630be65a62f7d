package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Connections that wait until the engine knows their stream are let go as any other when a newer one takes over.
func TestAConnectionIsTakenOverWhileItsStreamIsBegun(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		first.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "append" {
				f.Delay = 300 * time.Millisecond
			}
			return f
		})
		var gets []*kit.Response
		for range 3 {
			gets = append(gets, w.ask(t, 0, http.MethodGet, w.session(), ""))
		}
		for _, get := range gets {
			require.Equal(t, "open", get.Summary())
		}
		elapse(10 * time.Second)
		require.Equal(t, "200 sse primer@0 retry ended", gets[0].Summary())
		require.Equal(t, "200 sse primer@0 retry ended", gets[1].Summary())
		require.Equal(t, "200 sse primer@0 open", gets[2].Summary())
	})
}
