package lifetime_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// full is the answer to initialize where no session can be opened or replaced.
const full = `503 error(-32000,"mine") ended`

// inGet is a GET of a session, to be served without a network.
func inGet(t *testing.T, session string, header ...string) *http.Request {
	t.Helper()
	return kit.Request(t, http.MethodGet, "", append([]string{"Accept", "text/event-stream", "Mcp-Session-Id", session}, header...)...)
}

// listenFor reads the standalone stream for a while.
func listenFor(t *testing.T, s *rejoin.Server, id string) string {
	t.Helper()
	r := inGet(t, id)
	ctx, cancel := context.WithCancel(t.Context())
	w := kit.Serve(s, r.WithContext(ctx))
	summary := strings.TrimSuffix(w.Summary(), " open")
	cancel()
	synctest.Wait()
	return summary
}

// openAs opens a session as a user, and sends a notification in it.
func openAs(t *testing.T, s *rejoin.Server, user string) (id string, status int) {
	t.Helper()
	w := kit.ServeNow(s, kit.Request(t, http.MethodPost, kit.Initialize, "X-User", user))
	if id = w.Header().Get("Mcp-Session-Id"); id != "" {
		require.Equal(t, http.StatusAccepted, use(t, s, id, user))
	}
	return id, w.Status
}

// use sends a notification, and returns the status.
func use(t *testing.T, s *rejoin.Server, id, user string) int {
	t.Helper()
	return kit.ServeNow(s, kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/x"}`, "X-User", user)).Status
}

// serveWithInitializes serves one request of each session and as many initialize requests, all at the same moment. It requires that a
// session whose request was answered with 200 is still there. It returns the statuses of the sessions' requests, how many of them were 200,
// and how many sessions were opened.
func serveWithInitializes(t *testing.T, s *rejoin.Server, ids []string, requests []*http.Request) (statuses []int, stayed, opened int64) {
	t.Helper()
	start := make(chan struct{})
	var accepted atomic.Int64
	statuses = make([]int, len(requests))
	for i, request := range requests {
		initialize := kit.Request(t, http.MethodPost, kit.Initialize)
		go func() { <-start; statuses[i] = kit.ServeNow(s, request).Status }()
		go func() {
			<-start
			if kit.ServeNow(s, initialize).Status == http.StatusOK {
				accepted.Add(1)
			}
		}()
	}
	close(start)
	synctest.Wait()
	for i, id := range ids {
		if statuses[i] == http.StatusOK {
			stayed++
			require.Equal(t, http.StatusAccepted, kit.Notify(t, s, id, "notifications/x"), "it was answered")
		}
	}
	return statuses, stayed, accepted.Load()
}
