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

// OpenReady opens a session and sends notifications/initialized. It returns the session's id.
func OpenReady(t *testing.T, s *rejoin.Server) string {
	t.Helper()
	id, refused := Open(t, s)
	require.Empty(t, refused)
	require.Equal(t, http.StatusAccepted, Notify(t, s, id, "notifications/initialized"))
	return id
}

// Drain starts a drain of at most d, or without a limit if d is 0. What Drain returns comes through the channel.
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

// Session is a snapshot of the only session of a client's server.
func Session(t *testing.T, c *rejointest.Client) rejoin.SessionInfo {
	t.Helper()
	all := Sessions(c.Server())
	require.Len(t, all, 1)
	return all[0]
}

// RequireOthersRun requires that, while a tool's call is held up, another call, the session's standalone stream and another session are served
// without delay.
func RequireOthersRun(t *testing.T, c *rejointest.Client, next func() *ManualTool, held *ManualTool) {
	t.Helper()
	AtOnce(t, "another call", func() {
		other := c.CallTool("y", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		tool.Returns("done")
		require.Equal(t, "200 sse primer@0 1:progress 2:result closed", Last(other))
	})
	AtOnce(t, "the standalone stream", func() {
		require.NoError(t, held.Session().Notify(context.Background(), "notifications/x", nil))
		require.Equal(t, "200 sse primer@0 1:x open", Last(c.Listen()))
	})
	AtOnce(t, "another session", func() {
		_, res := Post(t, c, Initialize, "Mcp-Session-Id", "")
		body, _ := Post(t, c, Ping, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))
		require.Equal(t, "result", MessageSummary(body))
	})
}

// QuietLogger drops all records, for tests that provoke errors.
func QuietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// NewServer makes a server that is closed when the test ends.
func NewServer(t *testing.T, app rejoin.App, cfg rejoin.Config) *rejoin.Server {
	t.Helper()
	s, err := rejoin.NewServer(app, cfg)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// ByUser is a Config.Principal that returns the header field X-User.
func ByUser(r *http.Request) string { return r.Header.Get("X-User") }

// Open sends initialize, and returns the session's id, or the summary of the refusal.
func Open(t *testing.T, s *rejoin.Server) (id, refused string) {
	t.Helper()
	w := Serve(s, Request(t, http.MethodPost, Initialize))
	if w.Summary() == "200 result ended" {
		return w.Head.Get("Mcp-Session-Id"), ""
	}
	if w.Status == http.StatusServiceUnavailable {
		require.NotEmpty(t, w.Head.Get("Retry-After"))
	}
	return "", w.Summary()
}

// Notify sends a notification in a session, and returns the status.
func Notify(t *testing.T, s *rejoin.Server, id, method string) int {
	t.Helper()
	w := Serve(s, InSession(t, id, `{"jsonrpc":"2.0","method":"`+method+`"}`))
	_ = w.Summary()
	return w.Status
}

// Log is a writer for log handlers. All has what was written, one string for each Write.
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

// Count returns how many writes contain what.
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
