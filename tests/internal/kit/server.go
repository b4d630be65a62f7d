package kit

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// OpenReady opens a session whose client has sent initialized.
func OpenReady(t *testing.T, s *rejoin.Server) string {
	t.Helper()
	id, refused := Open(t, s)
	require.Empty(t, refused)
	require.Equal(t, http.StatusAccepted, Notify(t, s, id, "notifications/initialized"))
	return id
}

// Drain starts a drain; d bounds it, if it is positive.
func Drain(t *testing.T, s *rejoin.Server, d time.Duration) chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if d > 0 {
		ctx, cancel = context.WithTimeout(ctx, d)
	}
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- s.Drain(ctx)
	}()
	synctest.Wait()
	require.True(t, s.Draining())
	return done
}

// Sessions are the snapshots of all live sessions.
func Sessions(s *rejoin.Server) (all []rejoin.SessionInfo) {
	synctest.Wait()
	for info := range s.Sessions() {
		all = append(all, info)
	}
	return all
}

// Session is the one live session of a client.
func Session(t *testing.T, c *rejointest.Client) rejoin.SessionInfo {
	t.Helper()
	all := Sessions(c.Server())
	require.Len(t, all, 1)
	return all[0]
}

// QuietLogger is for tests that provoke what is logged.
func QuietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// NewServer is a server without a client.
func NewServer(t *testing.T, app rejoin.App, cfg rejoin.Config) *rejoin.Server {
	t.Helper()
	s, err := rejoin.NewServer(app, cfg)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// ByUser is a Config.Principal: the header X-User.
func ByUser(r *http.Request) string { return r.Header.Get("X-User") }

// Open sends initialize, and returns the session's id, or how it was refused.
func Open(t *testing.T, s *rejoin.Server) (id, refused string) {
	t.Helper()
	w := Serve(s, Request(t, http.MethodPost, Initialize))
	if w.Story() == "200 result ended" {
		return w.Head.Get("Mcp-Session-Id"), ""
	}
	if w.Status == http.StatusServiceUnavailable {
		require.NotEmpty(t, w.Head.Get("Retry-After"))
	}
	return "", w.Story()
}

// Notify sends a notification in a session, and returns the status.
func Notify(t *testing.T, s *rejoin.Server, id, method string) int {
	t.Helper()
	w := Serve(s, InSession(t, id, `{"jsonrpc":"2.0","method":"`+method+`"}`))
	_ = w.Story()
	return w.Status
}

// Log is what was logged.
type Log struct {
	mu  sync.Mutex
	All []string
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.All = append(l.All, string(p))
	return len(p), nil
}

// Count returns how many lines hold these words.
func (l *Log) Count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.All {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}
