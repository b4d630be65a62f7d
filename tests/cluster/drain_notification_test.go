package cluster_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A notification that crosses the hand-over of its session reaches the next owner.
func TestANotificationThatCrossesAHandOver(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		elapse(3 * lease)
		first := w.processes[0]
		id := w.open(t, 0)
		goOn := make(chan struct{})
		first.link.SetScript(func(c clustertest.Call) clustertest.Fault {
			if c.Op == "save" {
				return clustertest.Fault{Block: goOn}
			}
			return clustertest.Fault{}
		})
		first.link.SetLink(clustertest.Refused)
		elapse(lease * 3 / 2)
		first.link.SetLink(clustertest.Up)
		elapse(lease * 2 / 3)
		res := w.ask(t, 0, http.MethodPost, id, `{"jsonrpc":"2.0","method":"notifications/x"}`)
		require.Equal(t, "open", res.Summary())
		w.drain(t, time.Hour)
		close(goOn)
		elapse(time.Second)
		synctest.Wait()
		require.Equal(t, "202 ended", res.Summary())
		require.EqualValues(t, 1, w.processes[1].Stats().Adopted)
	})
}
