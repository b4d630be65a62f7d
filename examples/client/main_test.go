package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

// site is an authorization server, whose tokens are valid for one request each, and an MCP server that requires them.
type site struct {
	auth clientcredentials.Config
	url  string

	mu     sync.Mutex
	issued int
	verbs  []string
}

func (s *site) token(w http.ResponseWriter, r *http.Request) {
	if id, secret, _ := r.BasicAuth(); id != "me" || secret != "hush" || r.FormValue("grant_type") != "client_credentials" {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued++
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":1}`, s.issued)
}

// newest accepts only the newest token.
func (s *site) newest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		want := fmt.Sprintf("Bearer token-%d", s.issued)
		s.verbs = append(s.verbs, r.Method)
		s.mu.Unlock()
		if r.Header.Get("Authorization") != want {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// done is the result of the tools of these tests, as the client prints it.
const done = `{"content":[{"type":"text","text":"done"}]}` + "\n"

func serve(t *testing.T, tool func(ctx context.Context, h *rejoin.Handle) (any, error)) *site {
	t.Helper()
	s := &site{}
	info := rejoin.Info{Name: "site", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}
	srv, err := rejoin.NewServer(rejoin.NewApp(info, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		return tool(ctx, rejoin.HandleFromContext(ctx))
	}), rejoin.Config{Eras: rejoin.EraLegacy, Principal: func(*http.Request) string { return "me" }})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.token)
	mux.Handle("/mcp", s.newest(stdadapter.New(srv)))
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.Close()
		web.CloseClientConnections()
		web.Close()
	})
	s.url = web.URL + "/mcp"
	s.auth = clientcredentials.Config{ClientID: "me", ClientSecret: "hush", TokenURL: web.URL + "/token"}
	return s
}

// Each request of a call has a token that is valid at that moment, also each poll.
func TestALongCallOutlivesItsAccessTokens(t *testing.T) {
	s := serve(t, func(ctx context.Context, h *rejoin.Handle) (any, error) {
		_ = h.Progress(1, 2, "")
		_ = h.CloseStream(time.Millisecond)
		return "done", h.WaitConnected(ctx)
	})
	var out bytes.Buffer
	require.NoError(t, call(t.Context(), &s.auth, s.url, "slow", &out))
	require.Equal(t, "notifications/progress {\"progressToken\":1,\"progress\":1,\"total\":2}\n"+done, out.String())
	require.Equal(t, []string{"POST", "POST", "POST", "POST", "GET", "DELETE"}, s.verbs, "the first asks what the server speaks")
	require.Equal(t, len(s.verbs), s.issued)
}

func TestAnInterruptLeavesTheCall(t *testing.T) {
	end := make(chan struct{})
	s := serve(t, func(_ context.Context, h *rejoin.Handle) (any, error) {
		_ = h.Progress(1, 2, "")
		<-end
		return "done", nil
	})
	ctx, interrupt := context.WithCancel(t.Context())
	out := writer{interrupt: interrupt}
	require.ErrorIs(t, call(ctx, &s.auth, s.url, "slow", &out), client.ErrLeft)
	_, token, _ := strings.Cut(strings.TrimSpace(out.String()), "-resume ")
	close(end)
	var rest bytes.Buffer
	require.NoError(t, resume(t.Context(), &s.auth, s.url, token, &rest))
	require.JSONEq(t, done, rest.String())
}

// writer calls a function when something is written.
type writer struct {
	bytes.Buffer

	interrupt func()
}

func (w *writer) Write(b []byte) (int, error) {
	w.interrupt()
	return w.Buffer.Write(b)
}

func TestWithoutATokenThereIsAnError(t *testing.T) {
	s := serve(t, nil)
	s.auth.ClientSecret = "wrong"
	require.ErrorContains(t, call(t.Context(), &s.auth, s.url, "slow", &bytes.Buffer{}), "401")
	require.Empty(t, s.verbs, "the server is not asked")
}
