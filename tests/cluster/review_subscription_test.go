package cluster_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Any process takes a subscription, also one that drains.
func TestASubscriptionDuringADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		id, _ := w.task(t, 0)
		kit.Drain(t, w.processes[0].Server, time.Hour)
		for n := range 2 {
			for _, what := range []string{`"taskIds":["` + id + `"]`, `"toolsListChanged":true`} {
				ctx, cancel := context.WithCancel(t.Context())
				res := kit.Serve(w.processes[n].Server, modernRequest(t, "subscriptions/listen", "", `,"notifications":{`+what+`}`).WithContext(ctx))
				elapse(time.Second)
				require.Equal(t, http.StatusOK, res.Status)
				cancel()
			}
		}
	})
}
