//go:build redis

package redisstore_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// monitor returns a function that ends MONITOR, and returns all commands that the engine was given, those in scripts too.
func monitor(t *testing.T, server *redistest.Server) func() string {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "MONITOR\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", line)
	return func() string {
		_, err := server.Do(t.Context(), "ECHO", "that is all")
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		var seen strings.Builder
		for !strings.Contains(seen.String(), "that is all") {
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			seen.WriteString(line)
		}
		return seen.String()
	}
}

// The engine is told neither session ids nor users. Both are credentials, or lead to them.
func TestWhatTheEngineIsNotTold(t *testing.T) {
	engine := redistest.New(t, redistest.Options{})
	seen := monitor(t, engine)
	const user = "alice-of-the-accounts"
	app := rejoin.NewToolApp(rejoin.Info{Name: "test", Version: "1"}, rejoin.Tool{Name: "x", Run: func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		if err := h.Notify("notifications/message", map[string]any{"level": "info", "data": "what the tool sends"}); err != nil {
			return nil, err
		}
		return "done", h.Session().SaveState([]byte("what the app saves"))
	}})
	var router http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { router.ServeHTTP(w, r) }))
	defer web.Close()
	srv, err := rejoin.NewServer(app, rejoin.Config{
		Store:     open(t, connect(t, engine.Addr()), redisstore.Config{}),
		Cluster:   &rejoin.Cluster{Name: "c", Self: web.URL, Lease: fleetLease},
		Principal: func(r *http.Request) string { return r.Header.Get("X-User") },
		Policy:    rejoin.Policy{Mode: rejoin.ModeSSE},
	})
	require.NoError(t, err)
	defer srv.Close()
	router = stdadapter.New(srv)
	post := func(session, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("X-User", user)
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Less(t, resp.StatusCode, 300, "%s", text)
		return resp
	}
	id := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
		`"clientInfo":{"name":"c","version":"1"}}}`).Header.Get("Mcp-Session-Id")
	require.NotEmpty(t, id)
	post(id, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`)
	told := seen()
	require.Contains(t, told, "what the tool sends", "it is told that, so it was asked")
	require.Contains(t, told, "what the app saves")
	require.NotContains(t, told, id)
	require.NotContains(t, told, user)
}
