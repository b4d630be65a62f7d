package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A process that has come just before a drain takes what comes while the drain asks who else is there.
func TestAProcessComesJustBeforeADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks()) // the first process does not know the second one yet
		w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
			if c.Op == "renew" {
				return clustertest.Fault{Delay: time.Second / 2}
			}
			return clustertest.Fault{}
		})
		kit.Drain(t, w.processes[0].Server, time.Hour)
		initialize := kit.Serve(w.processes[0].Server, kit.Request(t, http.MethodPost, kit.Initialize))
		discover := kit.Serve(w.processes[0].Server, modernRequest(t, "server/discover", "", ""))
		elapse(time.Second)
		require.Equal(t, served, initialize.Summary())
		require.Equal(t, http.StatusOK, discover.Status)
	})
}
