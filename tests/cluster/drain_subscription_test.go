package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Any process takes a subscription, also one that drains: there it lasts as long as the drain.
func TestASubscriptionDuringADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		id, tool := w.task(t, 0)
		finished := kit.Drain(t, w.processes[0].Server, time.Hour)
		var all []*kit.Response
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for n := range 2 {
			for _, what := range []string{`"taskIds":["` + id + `"]`, `"toolsListChanged":true`} {
				res := kit.Serve(w.processes[n].Server, modernRequest(t, "subscriptions/listen", "", `,"notifications":{`+what+`}`).WithContext(ctx))
				elapse(time.Second)
				require.Equal(t, http.StatusOK, res.Status)
				require.Contains(t, bodyOf(res), "acknowledged")
				require.Contains(t, res.Summary(), "open")
				all = append(all, res)
			}
		}
		tool.Returns(done(1))
		require.NoError(t, <-finished)
		elapse(time.Second)
		for i, res := range all {
			require.Contains(t, res.Summary(), []string{"ended", "open"}[i/2])
			require.Equal(t, i < 2, strings.Contains(bodyOf(res), `"resultType":"complete"`))
		}
	})
}
