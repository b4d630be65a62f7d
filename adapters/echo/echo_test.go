package echoadapter_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/adapters/adaptertest"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	"github.com/rejoin-mcp/rejoin/adapters/internal/mounted"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// auth sets the user as middleware for echo does.
func auth(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set("user", c.Request().Header.Get(adaptertest.UserHeader))
		return next(c)
	}
}

var syntax = strings.NewReplacer("{", ":", "}", "")

func chain(h http.Handler, mw []func(http.Handler) http.Handler) http.Handler {
	for _, outer := range slices.Backward(mw) {
		h = outer(h)
	}
	return h
}

func subject(register func(*echo.Echo, string, *rejoin.Server)) adaptertest.Subject {
	return adaptertest.Subject{
		Mount: func(_ testing.TB, s *rejoin.Server, path string, mw ...func(http.Handler) http.Handler) http.Handler {
			e := echo.New()
			e.Use(middleware.Recover(), auth)
			register(e, syntax.Replace(path), s)
			return chain(e, mw)
		},
		Lend: func(_ testing.TB, s *rejoin.Server, path, route string, h http.HandlerFunc) http.Handler {
			e := echo.New()
			e.Use(middleware.Recover(), echoadapter.Middleware(path, s))
			e.GET(route, echo.WrapHandler(h))
			return e
		},
		Param: echoadapter.Param,
		Value: echoadapter.Get,
	}
}

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, subject(func(e *echo.Echo, path string, s *rejoin.Server) { echoadapter.Register(e, path, s, "user") }))
}

type contextKey struct{}

// The exam notices when echo's own Context is passed on to the tool.
func TestTheExamSeesForeignValues(t *testing.T) {
	naive := subject(func(e *echo.Echo, path string, s *rejoin.Server) {
		e.Any(path, func(c echo.Context) error {
			r := c.Request()
			s.Serve(c.Response(), r.WithContext(context.WithValue(r.Context(), contextKey{}, c)))
			return nil
		})
	})
	naive.Param = func(ctx context.Context, name string) string {
		return ctx.Value(contextKey{}).(echo.Context).Param(name)
	}
	naive.Value = func(ctx context.Context, name string) (any, bool) {
		v := ctx.Value(contextKey{}).(echo.Context).Get(name)
		return v, v != nil
	}
	for _, rule := range []string{adaptertest.Own, adaptertest.Tasks} {
		faults := adaptertest.Faults(t, naive, rule)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "of 200 users did not get their own")
	}
}

// The endpoint works wherever echo can mount a handler.
func TestMounts(t *testing.T) {
	s := mounted.NewServer(t)
	e := echo.New()
	e.Use(middleware.Recover())
	echoadapter.Register(e, "/plain", s)
	outer := e.Group("/outer/:tenant", auth)
	echoadapter.Register(outer, "/slash/", s, "user")
	echoadapter.Register(outer.Group("/inner", auth), "", s, "user")
	used, before := echo.New(), echo.New()
	used.Use(echoadapter.Middleware("/used/", s))
	before.Pre(echoadapter.Middleware("/before", s))
	for path, h := range map[string]http.Handler{
		"/plain": e, "/outer/acme/slash": e, "/outer/acme/inner": e, "/used": used, "/before": before,
	} {
		mounted.Serves(t, h, path)
		require.Equal(t, http.StatusNotFound, mounted.Send(h, http.MethodPost, path+"/more").Code, "a path below the endpoint is not the endpoint's")
	}
}

// Wherever the endpoint is mounted, a request finds it through another process. echo gives a parameter as it is written if the
// path has an escaped slash.
func TestThroughAnotherProcess(t *testing.T) {
	spellings := map[string]string{"acme": "acme", "a%20b": "a b", "a%2Fb%20c": "a%2Fb%20c", "%C3%A4%3F": "ä?", "a%25b": "a%b"}
	none := map[string]string{"": ""}
	form := func(path string, tenants map[string]string, register func(*echo.Echo, *rejoin.Server)) mounted.Form {
		return mounted.Form{Path: path, Tenants: tenants, Mount: func(s *rejoin.Server) http.Handler {
			e := echo.New()
			e.Use(middleware.Recover(), auth)
			register(e, s)
			return e
		}}
	}
	mounted.ThroughAnotherProcess(t, map[string]mounted.Form{
		"Register": form("/{tenant}/mcp", spellings, func(e *echo.Echo, s *rejoin.Server) { echoadapter.Register(e, "/:tenant/mcp", s, "user") }),
		"New": form("/t/{tenant}/mcp", spellings, func(e *echo.Echo, s *rejoin.Server) {
			e.Any("/t/:tenant/mcp", echoadapter.New(s, "user"))
			e.Any("/t/:tenant/mcp/", echoadapter.New(s, "user"))
		}),
		"groups": form("/v1/{tenant}/mcp", spellings, func(e *echo.Echo, s *rejoin.Server) {
			echoadapter.Register(e.Group("/v1").Group("/:tenant", auth), "/mcp", s, "user")
		}),
		"Middleware": form("/api/mcp", none, func(e *echo.Echo, s *rejoin.Server) { e.Use(echoadapter.Middleware("/api/mcp", s, "user")) }),
		"StripPrefix": mounted.Stripped("/v1", form("/v1/{tenant}/mcp", spellings, func(e *echo.Echo, s *rejoin.Server) {
			echoadapter.Register(e, "/:tenant/mcp", s, "user")
		})),
	}, mounted.Reader{
		User: func(ctx context.Context) string {
			value, _ := echoadapter.Get(ctx, "user")
			name, _ := value.(string)
			return name
		},
		Tenant: func(ctx context.Context) string { return echoadapter.Param(ctx, "tenant") },
	})
}

// Only the keys that were named are there, as middleware has left them; outside a call there are none. Asking for a key that was not named
// is logged, once for each mount.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type claims struct{ Admin bool }
		var logged bytes.Buffer
		tell := func(ctx context.Context) any {
			v, named := echoadapter.Get(ctx, "claims")
			nothing, unset := echoadapter.Get(ctx, "unset")
			require.Empty(t, logged.String(), "a key that is named may be unset")
			unknown, unnamed := echoadapter.Get(ctx, "unnamed")
			_, again := echoadapter.Get(ctx, "unnamed")
			return []any{v.(*claims).Admin, named, nothing, unset, unknown, unnamed, again, echoadapter.Param(ctx, "none")}
		}
		cfg := rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
		c := rejointest.New(t, mounted.App(tell), rejointest.Config{Server: cfg, Handler: func(s *rejoin.Server) http.Handler {
			e := echo.New()
			set := func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					c.Set("claims", &claims{Admin: true})
					c.Set("unnamed", 1)
					return next(c)
				}
			}
			e.Use(set, echoadapter.Middleware("/mcp", s, "claims", "unset"))
			return e
		}})
		require.JSONEq(t, `[true, true, null, false, null, false, false, ""]`, string(c.CallTool("x", nil).Result()))
		require.Equal(t, 1, strings.Count(logged.String(), "level=WARN"), "%s", &logged)
		require.Contains(t, logged.String(), "key=unnamed")
		for session := range c.Server().Sessions() {
			require.Contains(t, logged.String(), "session="+string(session.Ref))
		}
	})
	_, found := echoadapter.Get(t.Context(), "user")
	require.False(t, found)
	require.Empty(t, echoadapter.Param(t.Context(), "tenant"))
}

// echo's logger writes one line per request, with the status that the client got, and echo's error handler is not called for any answer
// of the endpoint.
func TestLoggerAndErrorHandler(t *testing.T) {
	for _, register := range []func(*echo.Echo, *rejoin.Server){
		func(e *echo.Echo, s *rejoin.Server) { echoadapter.Register(e, "/mcp", s) },
		func(e *echo.Echo, s *rejoin.Server) { e.Use(echoadapter.Middleware("/mcp", s)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var lines, failed []string
			want := mounted.Everything(t, rejointest.New(t, mounted.App(mounted.Done), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
				e := echo.New()
				e.HTTPErrorHandler = func(err error, c echo.Context) {
					mu.Lock()
					defer mu.Unlock()
					failed = append(failed, c.Request().URL.Path)
					e.DefaultHTTPErrorHandler(err, c)
				}
				e.Use(middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
					HandleError: true, LogStatus: true, LogMethod: true,
					LogValuesFunc: func(_ echo.Context, v middleware.RequestLoggerValues) error {
						mu.Lock()
						defer mu.Unlock()
						lines = append(lines, fmt.Sprint(v.Method, " ", v.Status))
						return nil
					},
				}), middleware.Recover())
				register(e, s)
				return e
			}}))
			require.Equal(t, want, lines)
			require.Equal(t, []string{"/nowhere"}, slices.Compact(failed))
		})
	}
}

// What echo and its adapter cost: compare BenchmarkAdapter of adapters/stdlib.
func BenchmarkAdapter(b *testing.B) {
	for name, path := range map[string]string{"fixed": "/mcp", "parameter": "/{tenant}/mcp"} {
		b.Run(name, func(b *testing.B) {
			mounted.Benchmark(b, strings.ReplaceAll(path, "{tenant}", "acme"), func(s *rejoin.Server) http.Handler {
				e := echo.New()
				echoadapter.Register(e, syntax.Replace(path), s)
				return e
			})
		})
	}
}
