package ginadapter_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/adapters/adaptertest"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	"github.com/rejoin-mcp/rejoin/adapters/internal/mounted"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	os.Exit(m.Run())
}

// auth sets the user as middleware for gin does.
func auth(c *gin.Context) {
	c.Set("user", c.GetHeader(adaptertest.UserHeader))
}

var syntax = strings.NewReplacer("{", ":", "}", "")

func chain(h http.Handler, mw []func(http.Handler) http.Handler) http.Handler {
	for _, outer := range slices.Backward(mw) {
		h = outer(h)
	}
	return h
}

func subject(register func(gin.IRoutes, string, *rejoin.Server)) adaptertest.Subject {
	return adaptertest.Subject{
		Mount: func(_ testing.TB, s *rejoin.Server, path string, mw ...func(http.Handler) http.Handler) http.Handler {
			r := gin.New()
			r.Use(gin.Recovery(), auth)
			register(r, syntax.Replace(path), s)
			return chain(r, mw)
		},
		Lend: func(_ testing.TB, s *rejoin.Server, path, route string, h http.HandlerFunc) http.Handler {
			r := gin.New()
			r.Use(gin.Recovery(), ginadapter.Middleware(path, s))
			r.NoRoute(func(c *gin.Context) { c.String(http.StatusNotFound, "no route") })
			r.GET(route, gin.WrapF(h))
			return r
		},
		Param: ginadapter.Param,
		Value: func(ctx context.Context, name string) (any, bool) { return ginadapter.Get(ctx, name) },
	}
}

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, subject(ginadapter.Register))
}

type contextKey struct{}

// The exam notices when gin's own Context is passed on to the tool.
func TestTheExamSeesForeignValues(t *testing.T) {
	naive := subject(func(r gin.IRoutes, path string, s *rejoin.Server) {
		r.Any(path, func(c *gin.Context) {
			s.Serve(c.Writer, c.Request.WithContext(context.WithValue(c.Request.Context(), contextKey{}, c)))
		})
	})
	naive.Param = func(ctx context.Context, name string) string {
		return ctx.Value(contextKey{}).(*gin.Context).Param(name)
	}
	naive.Value = func(ctx context.Context, name string) (any, bool) {
		return ctx.Value(contextKey{}).(*gin.Context).Get(name)
	}
	for _, rule := range []string{adaptertest.Own, adaptertest.Tasks} {
		faults := adaptertest.Faults(t, naive, rule)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "of 200 users did not get their own")
	}
}

// The endpoint works wherever gin can mount a handler. gin's redirect to the other spelling, which is on, and NoRoute do not interfere.
func TestMounts(t *testing.T) {
	s := mounted.NewServer(t)
	teapot := func(c *gin.Context) { c.String(http.StatusTeapot, "no route") }
	r := gin.New()
	r.Use(gin.Recovery())
	r.HandleMethodNotAllowed = true
	r.NoRoute(teapot)
	require.True(t, r.RedirectTrailingSlash)
	ginadapter.Register(r, "/plain", s)
	outer := r.Group("/outer/:tenant", auth)
	ginadapter.Register(outer, "/slash/", s)
	ginadapter.Register(outer.Group("/inner", auth), "/mcp", s)
	lent := gin.New()
	lent.NoRoute(teapot)
	lent.Use(ginadapter.Middleware("/lent/", s))
	for path, h := range map[string]http.Handler{
		"/plain": r, "/outer/acme/slash": r, "/outer/acme/inner/mcp": r, "/lent": lent,
	} {
		mounted.Serves(t, h, path)
		require.Equal(t, http.StatusTeapot, mounted.Send(h, http.MethodPost, path+"/more").Code, "a path below the endpoint is not the endpoint's")
	}
}

// Wherever the endpoint is mounted, a request finds it through another process. gin finds a parameter with an escaped slash only with UseRawPath.
func TestThroughAnotherProcess(t *testing.T) {
	spellings := map[string]string{"acme": "acme", "a%20b": "a b", "%C3%A4%3F": "ä?", "a%25b": "a%b"}
	none := map[string]string{"": ""}
	form := func(path string, tenants map[string]string, register func(*gin.Engine, *rejoin.Server)) mounted.Form {
		return mounted.Form{Path: path, Tenants: tenants, Mount: func(s *rejoin.Server) http.Handler {
			r := gin.New()
			r.Use(gin.Recovery(), auth)
			register(r, s)
			return r
		}}
	}
	mounted.ThroughAnotherProcess(t, map[string]mounted.Form{
		"Register": form("/{tenant}/mcp", spellings, func(r *gin.Engine, s *rejoin.Server) { ginadapter.Register(r, "/:tenant/mcp", s) }),
		"New, UseRawPath": form("/t/{tenant}/mcp", map[string]string{"acme": "acme", "a%2Fb%20c": "a/b c", "a%20b": "a b"}, func(r *gin.Engine, s *rejoin.Server) {
			r.UseRawPath = true
			r.Any("/t/:tenant/mcp", ginadapter.New(s))
			r.Any("/t/:tenant/mcp/", ginadapter.New(s))
		}),
		"groups": form("/v1/{tenant}/mcp", spellings, func(r *gin.Engine, s *rejoin.Server) {
			ginadapter.Register(r.Group("/v1").Group("/:tenant", auth), "/mcp", s)
		}),
		"Middleware":  form("/api/mcp", none, func(r *gin.Engine, s *rejoin.Server) { r.Use(ginadapter.Middleware("/api/mcp", s)) }),
		"StripPrefix": mounted.Stripped("/v1", form("/v1/{tenant}/mcp", spellings, func(r *gin.Engine, s *rejoin.Server) { ginadapter.Register(r, "/:tenant/mcp", s) })),
	}, mounted.Reader{
		User: func(ctx context.Context) string {
			value, _ := ginadapter.Get(ctx, "user")
			name, _ := value.(string)
			return name
		},
		Tenant: func(ctx context.Context) string { return ginadapter.Param(ctx, "tenant") },
	})
}

// A group's own path serves the endpoint in both spellings too. An engine's own path has only one.
func TestOwnPaths(t *testing.T) {
	s := mounted.NewServer(t)
	r := gin.New()
	ginadapter.Register(r.Group("/group"), "", s)
	ginadapter.Register(r.Group("/group/inner"), "/", s)
	mounted.Serves(t, r, "/group")
	mounted.Serves(t, r, "/group/inner")
	for _, path := range []string{"", "/"} {
		r := gin.New()
		ginadapter.Register(r, path, s)
		require.Equal(t, http.StatusOK, mounted.Send(r, http.MethodPost, "/").Code)
		r = gin.New()
		ginadapter.Register(r.Group("/group/"), path, s)
		require.Equal(t, http.StatusOK, mounted.Send(r, http.MethodPost, "/group/").Code)
	}
}

// Keys are there as middleware has left them, of any type; outside a call there are none.
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		tell := func(ctx context.Context) any {
			v, found := ginadapter.Get(ctx, key{})
			_, unset := ginadapter.Get(ctx, "unset")
			return []any{v, found, unset, ginadapter.Param(ctx, "none")}
		}
		c := rejointest.New(t, mounted.App(tell), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
			r := gin.New()
			r.Use(func(c *gin.Context) { c.Set(key{}, "mine") }, ginadapter.Middleware("/mcp", s))
			return r
		}})
		require.JSONEq(t, `["mine", true, false, ""]`, string(c.CallTool("x", nil).Result()))
	})
	_, found := ginadapter.Get(t.Context(), "user")
	require.False(t, found)
	require.Empty(t, ginadapter.Param(t.Context(), "tenant"))
}

// gin's logger writes one line per request, with the status that the client got.
func TestLogger(t *testing.T) {
	for _, register := range []func(*gin.Engine, *rejoin.Server){
		func(r *gin.Engine, s *rejoin.Server) { ginadapter.Register(r, "/mcp", s) },
		func(r *gin.Engine, s *rejoin.Server) { r.Use(ginadapter.Middleware("/mcp", s)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder // gin writes a line at a time, and requests come one after another
			want := mounted.Everything(t, rejointest.New(t, mounted.App(mounted.Done), rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
				r := gin.New()
				line := func(p gin.LogFormatterParams) string { return fmt.Sprint(p.Method, " ", p.StatusCode, "\n") }
				r.Use(gin.LoggerWithConfig(gin.LoggerConfig{Formatter: line, Output: &log}), gin.Recovery())
				register(r, s)
				r.NoRoute(func(c *gin.Context) { c.String(http.StatusNotFound, "no route") })
				return r
			}}))
			require.Equal(t, want, strings.Split(strings.TrimSpace(log.String()), "\n"))
		})
	}
}

// What gin and its adapter cost: compare BenchmarkAdapter of adapters/stdlib.
func BenchmarkAdapter(b *testing.B) {
	for name, path := range map[string]string{"fixed": "/mcp", "parameter": "/{tenant}/mcp"} {
		b.Run(name, func(b *testing.B) {
			mounted.Benchmark(b, strings.ReplaceAll(path, "{tenant}", "acme"), func(s *rejoin.Server) http.Handler {
				e := gin.New()
				ginadapter.Register(e, syntax.Replace(path), s)
				return e
			})
		})
	}
}
