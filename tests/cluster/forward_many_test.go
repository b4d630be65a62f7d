package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// However many sessions that exist come to a process at once, none of their requests is refused.
func TestManySessionsComeToAnotherProcessAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, _, front := newForwarded(t, options{})
		var sessions []string
		for range 1500 {
			sessions = append(sessions, w.open(t, 0))
		}
		front.link.SetScript(slowFind)
		elapse(10 * lease)
		var all []*kit.Response
		for _, id := range sessions {
			all = append(all, w.ask(t, 1, http.MethodPost, id, kit.Ping))
		}
		elapse(lease)
		got := map[string]int{}
		for _, res := range all {
			got[res.Summary()]++
		}
		require.Equal(t, map[string]int{served: 1500}, got)
	})
}

func slowFind(c clustertest.Call) (f clustertest.Fault) {
	if c.Op == "find" {
		f.Delay = 100 * time.Millisecond
	}
	return f
}
