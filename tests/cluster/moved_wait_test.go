package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The lease of an owner had run out, and another process has the session. Requests that wait while the owner finds that out do not end there.
func TestRequestsThatWaitForAnOwnerThatHasMoved(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var o options
		of := watch(&o)
		w := newWorld(t, o)
		first := w.processes[0]
		first.link.SetLink(clustertest.Silent)
		elapse(3 * lease)
		require.Equal(t, served, w.ping(t, 1, w.session()))
		block := make(chan struct{})
		first.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "save" {
				f.Block, f.DelayAnswer = block, 10*time.Millisecond
			}
			return f
		})
		var all []*kit.Response
		first.link.SetLink(clustertest.Up)
		for first.link.Count("save") == 0 {
			elapse(lease / 90)
		}
		for range 5 {
			all = append(all, w.ask(t, 0, http.MethodPost, w.session(), note))
		}
		close(block)
		elapse(lease)
		taken := 0
		for _, res := range all {
			if res.Summary() == "202 ended" {
				taken++
			}
		}
		require.NotZero(t, taken)
		require.Len(t, of(1).notifications(), taken)
	})
}
