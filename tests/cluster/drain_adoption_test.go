package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A process that adopts a session begins to drain before it has it. Its client is served by another one.
func TestADrainDuringAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.add(options{})
		require.NoError(t, <-w.drain(t, time.Hour))
		w.processes[1].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "adopt" {
				f.Delay = 100 * time.Millisecond
			}
			return f
		})
		res := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
		done := kit.Drain(t, w.processes[1].Server, time.Hour)
		elapse(time.Second)
		require.Equal(t, served, res.Summary())
		require.NoError(t, <-done)
		require.Len(t, kit.Sessions(w.processes[2].Server), 1)
	})
}
