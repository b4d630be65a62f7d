package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A process that drains asks each of the others once before it asks one again: most of them may drain too.
func TestOneOfManyDoesNotDrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		for range 3 {
			w.add(tasks())
		}
		id := w.open(t, 0)
		for n := range 4 {
			require.NoError(t, <-kit.Drain(t, w.processes[n].Server, time.Hour))
		}
		for range 30 {
			for _, r := range []*http.Request{
				kit.Request(t, http.MethodPost, kit.Ping, "Mcp-Session-Id", id),
				kit.Request(t, http.MethodPost, kit.Initialize),
				modernRequest(t, "server/discover", "", ""),
			} {
				began := time.Now()
				require.Equal(t, http.StatusOK, w.send(0, r).Status)
				require.Less(t, time.Since(began), 100*time.Millisecond)
			}
		}
	})
}
