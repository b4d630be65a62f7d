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

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/adapters/adaptertest"
	"github.com/rejoin-mcp/rejoin/adapters/internal/mounted"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

type valueKey string

// recoverer and auth do what middleware for net/http does.
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
		Value: func(ctx context.Context, name string) (any, bool) {
			v := ctx.Value(valueKey(name))
			return v, v != nil
		},
	}
}

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, subject(stdadapter.Register))
}

// A tool has no request to read path values from. Without the adapter there are none, and the exam notices.
func TestTheExamMissesPathValues(t *testing.T) {
	naive := subject(func(mux *http.ServeMux, path string, s *rejoin.Server) { mux.HandleFunc(path, s.Serve) })
	for _, rule := range []string{adaptertest.Own, adaptertest.Tasks} {
		faults := adaptertest.Faults(t, naive, rule)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "of 200 users did not get their own")
	}
}

// The endpoint works wherever net/http can mount a handler.
func TestMounts(t *testing.T) {
	s := mounted.NewServer(t)
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
		mounted.Serves(t, h, path)
	}
	require.Equal(t, http.StatusOK, mounted.Send(root, http.MethodPost, "/").Code)
	require.Equal(t, http.StatusNotFound, mounted.Send(root, http.MethodPost, "/x").Code, "a path below the endpoint is not the endpoint's")
	require.Equal(t, http.StatusNotFound, mounted.Send(mux, http.MethodPost, "/api/mcp/more").Code, "a path below the endpoint is not the endpoint's")
}

// Wherever the endpoint is mounted, a request finds it through another process.
func TestThroughAnotherProcess(t *testing.T) {
	spellings := map[string]string{"acme": "acme", "a%20b": "a b", "a%2Fb": "a/b", "%C3%A4%3F": "ä?", "a%25b": "a%b"}
	none := map[string]string{"": ""}
	form := func(path string, tenants map[string]string, register func(*http.ServeMux, *rejoin.Server)) mounted.Form {
		return mounted.Form{Path: path, Tenants: tenants, Mount: func(s *rejoin.Server) http.Handler {
			mux := http.NewServeMux()
			register(mux, s)
			return recoverer(auth(mux))
		}}
	}
	mounted.ThroughAnotherProcess(t, map[string]mounted.Form{
		"New": form("/t/{tenant}/mcp", spellings, func(mux *http.ServeMux, s *rejoin.Server) {
			mux.Handle("/t/{tenant}/mcp", stdadapter.New(s))
			mux.Handle("/t/{tenant}/mcp/", stdadapter.New(s))
		}),
		"Register": form("/{tenant}/mcp", spellings, func(mux *http.ServeMux, s *rejoin.Server) { stdadapter.Register(mux, "/{tenant}/mcp", s) }),
		"Middleware": form("/api/mcp", none, func(mux *http.ServeMux, s *rejoin.Server) {
			mux.Handle("/", stdadapter.Middleware("/api/mcp", s)(http.NotFoundHandler()))
		}),
		"StripPrefix": mounted.Stripped("/v1", form("/v1/{tenant}/mcp", spellings, func(mux *http.ServeMux, s *rejoin.Server) {
			stdadapter.Register(mux, "/{tenant}/mcp", s)
		})),
		"StripPrefix inside": form("/v1/{tenant}/mcp", spellings, func(mux *http.ServeMux, s *rejoin.Server) {
			inner := http.NewServeMux()
			stdadapter.Register(inner, "/{tenant}/mcp", s)
			mux.Handle("/v1/", http.StripPrefix("/v1", inner))
		}),
	}, mounted.Reader{
		User: func(ctx context.Context) string {
			name, _ := ctx.Value(valueKey("user")).(string)
			return name
		},
		Tenant: func(ctx context.Context) string { return stdadapter.PathValue(ctx, "tenant") },
	})
}

// A pattern may have wildcards of every kind, and no method.
func TestPathValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := func(ctx context.Context) any {
			return []string{stdadapter.PathValue(ctx, "tenant"), stdadapter.PathValue(ctx, "rest"), stdadapter.PathValue(ctx, "none")}
		}
		c := rejointest.New(t, mounted.App(tell), rejointest.Config{Path: "/acme/v1/a/b", Handler: func(s *rejoin.Server) http.Handler {
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

// A logger sees one status for each request: the one that the client got.
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
			want := mounted.Everything(t, rejointest.New(t, mounted.App(mounted.Done), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
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

// What net/http and its adapter cost.
func BenchmarkAdapter(b *testing.B) {
	for name, path := range map[string]string{"fixed": "/mcp", "parameter": "/{tenant}/mcp"} {
		b.Run(name, func(b *testing.B) {
			mounted.Benchmark(b, strings.ReplaceAll(path, "{tenant}", "acme"), func(s *rejoin.Server) http.Handler {
				mux := http.NewServeMux()
				stdadapter.Register(mux, path, s)
				return mux
			})
		})
	}
}
