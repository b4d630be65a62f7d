package cluster_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// stalled is the response of a client that does not read until goOn is closed.
type stalled struct {
	*kit.Response
	goOn chan struct{}
}

func (s *stalled) Write(p []byte) (int, error) {
	<-s.goOn
	return s.Response.Write(p)
}

// A drain waits for a client that does not read, and does nothing meanwhile.
func TestADrainWaitsForAClientThatDoesNotRead(t *testing.T) {
	for _, alone := range []bool{true, false} {
		aDrainWaits(t, alone)
	}
}

func aDrainWaits(t *testing.T, alone bool) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		if alone {
			w.processes[1].Close()
			elapse(lease)
		}
		res := &stalled{&kit.Response{Head: http.Header{}}, make(chan struct{})}
		go w.processes[0].Serve(res, kit.Request(t, http.MethodGet, "", "Mcp-Session-Id", w.open(t, 0), "Accept", "text/event-stream"))
		synctest.Wait()
		done := w.drain(t, time.Minute)
		elapse(time.Second)
		require.Empty(t, done)
		close(res.goOn)
		elapse(time.Second)
		require.NoError(t, <-done)
	})
}
