package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A request waits for the search that another user's has begun. It does not profit: it is not forwarded.
func TestAnotherPrincipalWaitsForASearch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{config: byUser})
		session := w.openFor(t, 0, "ann")
		w.processes[1].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "find" {
				f.Delay = 100 * time.Millisecond
			}
			return f
		})
		own := w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "ann")
		other := w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "bob")
		elapse(time.Second)
		require.Equal(t, served, own.Summary())
		require.Equal(t, gone, other.Summary())
		require.EqualValues(t, 1, w.processes[1].Stats().Forwarded)
		require.Equal(t, 1, w.processes[1].link.Count("find"))
	})
}
