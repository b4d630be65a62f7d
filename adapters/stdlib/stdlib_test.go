package stdadapter_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/adapters/adaptertest"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

type valueKey string

// recoverer and auth are what middleware for net/http does.
func recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				http.Error(w, fmt.Sprint(v), http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func auth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), valueKey("user"), r.Header.Get(adaptertest.UserHeader))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func subject(register func(*http.ServeMux, string, *rejoin.Server)) adaptertest.Subject {
	return adaptertest.Subject{
		Mount: func(_ testing.TB, s *rejoin.Server, path string, mw ...func(http.Handler) http.Handler) http.Handler {
			mux := http.NewServeMux()
			register(mux, path, s)
			h := recoverer(auth(mux))
			for _, outer := range slices.Backward(mw) {
				h = outer(h)
			}
			return h
		},
		Lend: func(_ testing.TB, s *rejoin.Server, path, route string, h http.HandlerFunc) http.Handler {
			mux := http.NewServeMux()
			mux.HandleFunc("GET "+route, h)
			return recoverer(stdadapter.Middleware(path, s)(mux))
		},
		Param: stdadapter.PathValue,
		Value: func(ctx context.Context, name string) string {
			v, _ := ctx.Value(valueKey(name)).(string)
			return v
		},
	}
}

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, subject(stdadapter.Register))
}

// A tool has no request to ask for path values: without the adapter there are none, and the exam misses them.
func TestTheExamMissesPathValues(t *testing.T) {
	naive := subject(func(mux *http.ServeMux, path string, s *rejoin.Server) { mux.HandleFunc(path, s.Serve) })
	faults := adaptertest.Faults(t, naive, adaptertest.Own)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "of 200 users did not get their own")
}

// app is one whose tools let their clients go, wait a minute and answer with tell.
func app(tell func(context.Context) any) rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "test"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		if err := rejoin.HandleFromContext(ctx).CloseStream(0); err != nil {
			return nil, err
		}
		<-time.After(time.Minute)
		return tell(ctx), nil
	})
}

func done(context.Context) any { return "done" }

func newServer(t *testing.T) *rejoin.Server {
	t.Helper()
	s, err := rejoin.NewServer(app(done), rejoin.Config{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func send(h http.Handler, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(initialize))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// serves checks that the endpoint is at a path, in both spellings, and answers all verbs itself.
func serves(t *testing.T, h http.Handler, path string) {
	t.Helper()
	for _, spelling := range []string{path, path + "/"} {
		require.Equal(t, http.StatusOK, send(h, http.MethodPost, spelling).Code, "POST %s", spelling)
		require.Equal(t, http.StatusBadRequest, send(h, http.MethodGet, spelling).Code, "GET %s without a session", spelling)
		require.Equal(t, "GET, POST, DELETE", send(h, http.MethodPut, spelling).Header().Get("Allow"), "PUT %s", spelling)
	}
}

// everything is a session with each kind of answer. want is what a log of methods and statuses has of it.
func everything(t *testing.T, c *rejointest.Client) (want []string) {
	t.Helper()
	call := c.CallTool("x", nil)
	call.WaitClosed()
	require.Equal(t, `"done"`, string(call.Result()))
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPut, "http://rejoin.test/mcp", http.NoBody),
		httptest.NewRequest(http.MethodGet, "http://rejoin.test/nowhere", http.NoBody),
	} {
		require.NoError(t, c.Do(r).Body.Close())
	}
	c.Delete()
	require.NoError(t, c.Do(httptest.NewRequest(http.MethodGet, "http://rejoin.test/mcp", http.NoBody)).Body.Close())
	synctest.Wait()
	return []string{"POST 200", "POST 202", "POST 200", "GET 200", "PUT 405", "GET 404", "DELETE 204", "GET 404"}
}

// Wherever net/http can mount a handler.
func TestMounts(t *testing.T) {
	s := newServer(t)
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/api/mcp", s)
	stdadapter.Register(mux, "/slash/", s)
	stdadapter.Register(mux, "/t/{tenant}/mcp", s)
	stdadapter.Register(mux, "example.com/host", s)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", stdadapter.New(s)))
	mux.Handle("/stripped", stdadapter.New(s))
	root := http.NewServeMux()
	stdadapter.Register(root, "/", s)
	for path, h := range map[string]http.Handler{
		"/api/mcp":    mux,
		"/slash":      mux,
		"/t/acme/mcp": mux,
		"/host":       mux,
		"/stripped":   mux,
		"/bare":       http.StripPrefix("/bare", stdadapter.New(s)),
		"/wrapped":    stdadapter.Middleware("/wrapped", s)(http.NotFoundHandler()),
		"/wrapped/x":  stdadapter.Middleware("/wrapped/x/", s)(http.NotFoundHandler()),
	} {
		serves(t, h, path)
	}
	require.Equal(t, http.StatusOK, send(root, http.MethodPost, "/").Code)
	require.Equal(t, http.StatusNotFound, send(root, http.MethodPost, "/x").Code, "what is below is not the endpoint's")
	require.Equal(t, http.StatusNotFound, send(mux, http.MethodPost, "/api/mcp/more").Code, "what is below is not the endpoint's")
}

// A pattern may have wildcards of every kind, and no method.
func TestPathValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := func(ctx context.Context) any {
			return []string{stdadapter.PathValue(ctx, "tenant"), stdadapter.PathValue(ctx, "rest"), stdadapter.PathValue(ctx, "none")}
		}
		c := rejointest.New(t, app(tell), rejointest.Config{Path: "/acme/v1/a/b", Handler: func(s *rejoin.Server) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/{tenant}/v1/{rest...}", stdadapter.New(s))
			return mux
		}})
		call := c.CallTool("x", nil)
		call.WaitClosed()
		for range 20 {
			other := httptest.NewRequest(http.MethodPost, "http://rejoin.test/other/v1/z", strings.NewReader("{}"))
			require.NoError(t, c.Do(other).Body.Close())
		}
		require.JSONEq(t, `["acme", "a/b", ""]`, string(call.Result()))
	})
	require.Empty(t, stdadapter.PathValue(t.Context(), "tenant"), "outside a call there are none")
}

// statusWriter is what loggers for net/http wrap a response writer in.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A logger sees one status per request, the one that the client got.
func TestLogger(t *testing.T) {
	for _, mount := range []func(*rejoin.Server) http.Handler{
		func(s *rejoin.Server) http.Handler {
			mux := http.NewServeMux()
			stdadapter.Register(mux, "/mcp", s)
			return mux
		},
		func(s *rejoin.Server) http.Handler { return stdadapter.Middleware("/mcp", s)(http.NotFoundHandler()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var lines []string // requests come one after another
			want := everything(t, rejointest.New(t, app(done), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
				h := mount(s)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen := &statusWriter{ResponseWriter: w}
					h.ServeHTTP(seen, r)
					lines = append(lines, fmt.Sprint(r.Method, " ", seen.status))
				})
			}}))
			require.Equal(t, want, lines)
		})
	}
}
