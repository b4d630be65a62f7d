package chiadapter_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/adapters/adaptertest"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	"github.com/rejoin-mcp/rejoin/adapters/internal/mounted"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

type valueKey string

// auth sets the user as middleware for chi does.
func auth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), valueKey("user"), r.Header.Get(adaptertest.UserHeader))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func subject(register func(chi.Router, string, *rejoin.Server)) adaptertest.Subject {
	return adaptertest.Subject{
		Mount: func(_ testing.TB, s *rejoin.Server, path string, mw ...func(http.Handler) http.Handler) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.Recoverer, auth)
			register(r, path, s)
			return chi.Chain(mw...).Handler(r)
		},
		Lend: func(_ testing.TB, s *rejoin.Server, path, route string, h http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.Recoverer, chiadapter.Middleware(path, s))
			r.Get(route, h)
			return r
		},
		Param: chi.URLParamFromCtx,
		Value: func(ctx context.Context, name string) (any, bool) {
			v := ctx.Value(valueKey(name))
			return v, v != nil
		},
	}
}

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, subject(chiadapter.Register))
}

// The exam notices when chi's own route context is passed on to the tool.
func TestTheExamSeesForeignValues(t *testing.T) {
	naive := subject(func(r chi.Router, path string, s *rejoin.Server) { r.HandleFunc(path, s.Serve) })
	for _, rule := range []string{adaptertest.Own, adaptertest.Tasks} {
		faults := adaptertest.Faults(t, naive, rule)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "of 200 users did not get their own")
	}
}

// The endpoint works wherever chi can mount a handler.
func TestMounts(t *testing.T) {
	s := mounted.NewServer(t)
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.Mount("/mounted", chiadapter.New(s))
	r.Route("/route/{tenant}", func(r chi.Router) {
		r.Mount("/mcp", chiadapter.New(s))
		r.Group(func(r chi.Router) {
			r.Use(auth)
			chiadapter.Register(r, "/group/", s)
		})
	})
	chiadapter.Register(r.With(auth), "/with", s)
	r.Mount("/stripped", http.StripPrefix("/stripped", chiadapter.New(s)))
	sub := chi.NewRouter()
	chiadapter.Register(sub, "/", s)
	r.Mount("/sub", sub)
	lent := chi.NewRouter()
	lent.Use(chiadapter.Middleware("/lent/", s))
	lent.Get("/", http.NotFound)
	lent.NotFound(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for path, h := range map[string]http.Handler{
		"/mounted": r, "/route/acme/mcp": r, "/route/acme/group": r, "/with": r, "/stripped": r, "/sub": r, "/lent": lent,
	} {
		mounted.Serves(t, h, path)
	}
	require.Equal(t, http.StatusNotFound, mounted.Send(r, http.MethodPost, "/with/more").Code, "a path below the endpoint is not the endpoint's")
	require.Equal(t, http.StatusTeapot, mounted.Send(lent, http.MethodPost, "/lent/more").Code, "a path below the endpoint is not the endpoint's")
}

// Wherever the endpoint is mounted, a request finds it through another process. chi gives a parameter as it is written if the path has an escaped slash.
func TestThroughAnotherProcess(t *testing.T) {
	spellings := map[string]string{"acme": "acme", "a%20b": "a b", "a%2Fb%20c": "a%2Fb%20c", "%C3%A4%3F": "ä?", "a%25b": "a%b"}
	none := map[string]string{"": ""}
	form := func(path string, tenants map[string]string, register func(chi.Router, *rejoin.Server)) mounted.Form {
		return mounted.Form{Path: path, Tenants: tenants, Mount: func(s *rejoin.Server) http.Handler {
			r := chi.NewRouter()
			r.Use(middleware.Recoverer, auth)
			register(r, s)
			return r
		}}
	}
	mounted.ThroughAnotherProcess(t, map[string]mounted.Form{
		"Register": form("/{tenant}/mcp", spellings, func(r chi.Router, s *rejoin.Server) { chiadapter.Register(r, "/{tenant}/mcp", s) }),
		"Mount in Route": form("/t/{tenant}/mcp", spellings, func(r chi.Router, s *rejoin.Server) {
			r.Route("/t/{tenant}", func(r chi.Router) { r.Mount("/mcp", chiadapter.New(s)) })
		}),
		"Mount of a router": form("/v1/{tenant}/mcp", spellings, func(r chi.Router, s *rejoin.Server) {
			inner := chi.NewRouter()
			chiadapter.Register(inner, "/{tenant}/mcp", s)
			r.Mount("/v1", inner)
		}),
		"Middleware": form("/api/mcp", none, func(r chi.Router, s *rejoin.Server) {
			r.Use(chiadapter.Middleware("/api/mcp", s))
			r.Get("/", http.NotFound)
		}),
		"StripPrefix": mounted.Stripped("/v1", form("/v1/{tenant}/mcp", spellings, func(r chi.Router, s *rejoin.Server) { chiadapter.Register(r, "/{tenant}/mcp", s) })),
	}, mounted.Reader{
		User: func(ctx context.Context) string {
			name, _ := ctx.Value(valueKey("user")).(string)
			return name
		},
		Tenant: func(ctx context.Context) string { return chi.URLParamFromCtx(ctx, "tenant") },
	})
}

// A tool can read the parameters of all nested routers when its request is over.
func TestNestedParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := func(ctx context.Context) any {
			return []string{chi.URLParamFromCtx(ctx, "tenant"), chi.URLParamFromCtx(ctx, "project"), chi.RouteContext(ctx).RoutePattern()}
		}
		c := rejointest.New(t, mounted.App(tell), rejointest.Config{Path: "/acme/p/1/mcp", Handler: func(s *rejoin.Server) http.Handler {
			inner := chi.NewRouter()
			chiadapter.Register(inner, "/{project}/mcp", s)
			r := chi.NewRouter()
			r.Route("/{tenant}", func(r chi.Router) { r.Mount("/p", inner) })
			return r
		}})
		call := c.CallTool("x", nil)
		call.WaitClosed()
		for i := range 20 {
			other := httptest.NewRequest(http.MethodPost, fmt.Sprintf("http://rejoin.test/other/p/%d/mcp", i), strings.NewReader("{}"))
			require.NoError(t, c.Do(other).Body.Close())
		}
		require.JSONEq(t, `["acme", "1", "/{tenant}/p/{project}/mcp"]`, string(call.Result()))
	})
}

// A tool has a copy of everything that chi's route context exports.
func TestTheRouteIsCopiedWhole(t *testing.T) {
	for _, path := range []string{"/{tenant}/mcp", "/{tenant}/{a}/{b}/mcp"} { // the second has more parameters than fit in the context's own buffer
		var routers, lent *chi.Context
		s, err := rejoin.NewServer(mounted.App(mounted.Done), rejoin.Config{Principal: func(r *http.Request) string {
			lent = chi.RouteContext(r.Context())
			require.Equal(t, exported(lent), exported(routers))
			return ""
		}})
		require.NoError(t, err)
		t.Cleanup(s.Close)
		r := chi.NewRouter()
		r.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				routers = chi.RouteContext(r.Context())
				next.ServeHTTP(w, r)
			})
		})
		r.Route("/x", func(r chi.Router) { chiadapter.Register(r, path, s) })
		require.Equal(t, http.StatusOK, mounted.Send(r, http.MethodPost, "/x"+strings.NewReplacer("{", "", "}", "").Replace(path)).Code)
		require.NotSame(t, routers, lent)
		require.Equal(t, "tenant", lent.URLParam("tenant"))
		require.Equal(t, "/x"+path, lent.RoutePattern())
		before := fmt.Sprint(exported(lent))
		for _, list := range [][]string{routers.URLParams.Keys, routers.URLParams.Values, routers.RoutePatterns} {
			require.NotEmpty(t, list)
			list[0] = "another's"
		}
		lent.URLParams.Add("more", "m") // appending to one list does not change another one
		lent.RoutePatterns = append(lent.RoutePatterns, "/more")
		require.Equal(t, "tenant", lent.URLParam("tenant"))
		lent.URLParams.Keys = lent.URLParams.Keys[:len(lent.URLParams.Keys)-1]
		lent.URLParams.Values = lent.URLParams.Values[:len(lent.URLParams.Values)-1]
		lent.RoutePatterns = lent.RoutePatterns[:len(lent.RoutePatterns)-1]
		require.Equal(t, before, fmt.Sprint(exported(lent)))
	}
}

// exported returns the exported fields. If chi adds one, it must be copied too.
func exported(at *chi.Context) map[string]any {
	fields := map[string]any{}
	for v, i := reflect.ValueOf(at).Elem(), 0; i < v.NumField(); i++ {
		if f := v.Type().Field(i); f.IsExported() {
			fields[f.Name] = v.Field(i).Interface()
		}
	}
	return fields
}

// entries is a log with one line for each request.
type entries struct {
	mu    sync.Mutex
	lines []string
}

type entry struct {
	log    *entries
	method string
}

func (l *entries) NewLogEntry(r *http.Request) middleware.LogEntry { return &entry{l, r.Method} }

func (e *entry) Write(status, _ int, _ http.Header, _ time.Duration, _ any) {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	e.log.lines = append(e.log.lines, fmt.Sprint(e.method, " ", status))
}

func (e *entry) Panic(any, []byte) { e.Write(0, 0, nil, 0, nil) }

// chi's logger writes one line per request, with the status that the client got.
func TestLogger(t *testing.T) {
	for _, register := range []func(chi.Router, *rejoin.Server){
		func(r chi.Router, s *rejoin.Server) { chiadapter.Register(r, "/mcp", s) },
		func(r chi.Router, s *rejoin.Server) { r.Use(chiadapter.Middleware("/mcp", s)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log entries
			want := mounted.Everything(t, rejointest.New(t, mounted.App(mounted.Done), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
				r := chi.NewRouter()
				r.Use(middleware.RequestLogger(&log), middleware.Recoverer)
				register(r, s)
				r.Get("/", http.NotFound)
				return r
			}}))
			require.Equal(t, want, log.lines)
		})
	}
}

// What chi and its adapter cost: compare BenchmarkAdapter of adapters/stdlib.
func BenchmarkAdapter(b *testing.B) {
	for name, path := range map[string]string{"fixed": "/mcp", "parameter": "/{tenant}/mcp"} {
		b.Run(name, func(b *testing.B) {
			mounted.Benchmark(b, strings.ReplaceAll(path, "{tenant}", "acme"), func(s *rejoin.Server) http.Handler {
				r := chi.NewRouter()
				chiadapter.Register(r, path, s)
				return r
			})
		})
	}
}
