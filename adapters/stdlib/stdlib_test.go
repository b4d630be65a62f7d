package stdadapter_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/stretchr/testify/require"
)

func newServer(t *testing.T, h rejoin.Handler) *rejoin.Server {
	t.Helper()
	if h == nil {
		h = func(context.Context, *rejoin.Request) (any, error) { return struct{}{}, nil }
	}
	s, err := rejoin.NewServer(rejoin.NewApp(rejoin.Info{Name: "test"}, h), rejoin.Config{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func send(h http.Handler, method, path string) *httptest.ResponseRecorder {
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Clients are configured with either spelling, and a redirect loses a POST's body or its headers: so both are served.
func TestBothSpellingsOfThePath(t *testing.T) {
	s := newServer(t, nil)
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/api/mcp", s)
	stdadapter.Register(mux, "/slash/", s)
	mounts := map[string]http.Handler{
		"/api/mcp":   mux,
		"/slash":     mux,
		"/stripped":  http.StripPrefix("/stripped", stdadapter.New(s)),
		"/wrapped":   stdadapter.Middleware("/wrapped", s)(http.NotFoundHandler()),
		"/wrapped/x": stdadapter.Middleware("/wrapped/x/", s)(http.NotFoundHandler()),
	}
	for path, h := range mounts {
		for _, spelling := range []string{path, path + "/"} {
			require.Equal(t, http.StatusOK, send(h, http.MethodPost, spelling).Code, "POST %s", spelling)
			require.Equal(t, http.StatusBadRequest, send(h, http.MethodDelete, spelling).Code, "DELETE %s without a session", spelling)
			require.Equal(t, http.StatusBadRequest, send(h, http.MethodGet, spelling).Code, "GET %s without a session", spelling)
			for _, verb := range []string{http.MethodHead, http.MethodPut, http.MethodOptions, http.MethodTrace} {
				res := send(h, verb, spelling)
				require.Equal(t, http.StatusMethodNotAllowed, res.Code, "%s %s", verb, spelling)
				require.Equal(t, "GET, POST, DELETE", res.Header().Get("Allow"))
			}
		}
	}
	require.Equal(t, http.StatusNotFound, send(mux, http.MethodPost, "/api/mcp/more").Code, "what is below is not the endpoint's")
}

// Other routes find the server, and only they.
func TestMiddlewareLendsTheServer(t *testing.T) {
	s := newServer(t, nil)
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rejoin.ServerFromContext(r.Context()) == s {
			_, _ = io.WriteString(w, "lent")
		}
	})
	for _, path := range []string{"/mcp", ""} {
		require.Equal(t, "lent", send(stdadapter.Middleware(path, s)(next), http.MethodGet, "/admin").Body.String())
	}
	require.Equal(t, "lent", send(stdadapter.Middleware("", s)(next), http.MethodPost, "/").Body.String(), "an empty path serves nothing")
}

// A tool reads path values at any time, also when its request is long over and others have come through the same route.
func TestPathValuesOutliveTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		app := rejoin.NewApp(rejoin.Info{Name: "test"}, func(ctx context.Context, r *rejoin.Request) (any, error) {
			if err := rejoin.HandleFromContext(ctx).CloseStream(0); err != nil {
				return nil, err
			}
			<-release
			return []string{stdadapter.PathValue(ctx, "tenant"), stdadapter.PathValue(ctx, "rest"), stdadapter.PathValue(ctx, "none")}, nil
		})
		c := rejointest.New(t, app, rejointest.Config{Path: "/acme/v1/a/b", Handler: func(s *rejoin.Server) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/{tenant}/v1/{rest...}", stdadapter.New(s))
			return mux
		}})
		call := c.CallTool("x", nil)
		call.WaitClosed()
		for range 20 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/other/v1/z", strings.NewReader("{}"))
			require.NoError(t, err)
			require.NoError(t, c.Do(req).Body.Close())
		}
		close(release)
		require.JSONEq(t, `["acme", "a/b", ""]`, string(call.Result()))
	})
	require.Empty(t, stdadapter.PathValue(t.Context(), "tenant"), "outside a call there are none")
}
