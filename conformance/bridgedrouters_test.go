package conformance_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
)

// router serves /{tenant}/mcp for every tenant, behind a middleware that sets the user in the router's usual way.
type router struct {
	mount        func(srv *rejoin.Server) http.Handler
	user, tenant func(ctx context.Context) string // how a tool reads them
}

var bridgedRouters = map[string]router{
	"stdlib": {
		mount: func(srv *rejoin.Server) http.Handler {
			mux := http.NewServeMux()
			stdadapter.Register(mux, "/{tenant}/mcp", srv)
			return identify(mux)
		},
		user:   valueOfUser,
		tenant: func(ctx context.Context) string { return stdadapter.PathValue(ctx, "tenant") },
	},
	"chi": {
		mount: func(srv *rejoin.Server) http.Handler {
			r := chi.NewRouter()
			r.Use(identify)
			r.Route("/{tenant}", func(r chi.Router) { r.Mount("/mcp", chiadapter.New(srv)) })
			return r
		},
		user:   valueOfUser,
		tenant: func(ctx context.Context) string { return chi.URLParamFromCtx(ctx, "tenant") },
	},
	"echo": {
		mount: func(srv *rejoin.Server) http.Handler {
			e := echo.New()
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c echo.Context) error {
					c.Set("user", c.Request().Header.Get("X-User"))
					return next(c)
				}
			})
			echoadapter.Register(e.Group("/:tenant"), "/mcp", srv, "user")
			return e
		},
		user: func(ctx context.Context) string {
			value, _ := echoadapter.Get(ctx, "user")
			user, _ := value.(string)
			return user
		},
		tenant: func(ctx context.Context) string { return echoadapter.Param(ctx, "tenant") },
	},
	"gin": {
		mount: func(srv *rejoin.Server) http.Handler {
			r := gin.New()
			ginadapter.Register(r.Group("/:tenant", func(c *gin.Context) { c.Set("user", c.GetHeader("X-User")) }), "/mcp", srv)
			return r
		},
		user: func(ctx context.Context) string {
			value, _ := ginadapter.Get(ctx, "user")
			user, _ := value.(string)
			return user
		},
		tenant: func(ctx context.Context) string { return ginadapter.Param(ctx, "tenant") },
	},
}

func valueOfUser(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// Two hundred users of as many tenants run a tool of a bridged server at once. Their requests end, and hundreds of other requests get what the
// router recycles. Meanwhile the tools look up who called them. Each must find its own user and tenant, by every way to ask.
func TestBridgedToolsKnowTheirUsers(t *testing.T) {
	gin.SetMode(gin.ReleaseMode) // in other modes gin writes to stdout
	for name, bridge := range map[string]sdk{"go-sdk": goSDK, "mcp-go": mcpGo} {
		for router, r := range bridgedRouters {
			t.Run(name+" "+router, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { bridgedUsers(t, bridge, r) })
			})
		}
	}
}

func bridgedUsers(t *testing.T, bridge sdk, r router) {
	const users = 200
	release := make(chan struct{})
	who := func(d desk) string {
		return strings.Join([]string{d.header.Get("X-User"), d.token.UserID, r.user(d.ctx), r.tenant(d.ctx)}, " ")
	}
	srv, err := rejoin.NewServer(bridge.bridge(func(d desk) string {
		before := who(d)
		if how := letGo(d.ctx, time.Second); how != "closed" {
			return how
		}
		<-release
		_ = d.progress(who(d))
		if after := who(d); after != before {
			return "first " + before + ", then " + after
		}
		return before
	}), rejoin.Config{Logger: slog.New(slog.DiscardHandler), Principal: gosdk.Principal})
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	b := open(t, auth.RequireBearerToken(verify, nil)(r.mount(srv)))
	booths := make([]*booth, 2*users)
	for i := range booths {
		u := *b
		u.path = fmt.Sprintf("/tenant-%d/mcp", i)
		user := fmt.Sprint("user-", i)
		u.header = http.Header{"X-User": {user}, "Authorization": {"Bearer " + user}}
		if i < users {
			u.connect()
		}
		booths[i] = &u
	}
	cursors := make([]string, users)
	var calls, noise sync.WaitGroup
	for i, u := range booths[:users] {
		calls.Go(func() { cursors[i] = u.trip(http.MethodPost, callOf(1), "").cursor() })
	}
	calls.Wait() // until all calls are disconnected
	noise.Go(func() { close(release) })
	for i, u := range booths {
		noise.Go(func() {
			u.trip(http.MethodPut, "", "")
			if i >= users {
				u.trip(http.MethodPost, callOf(1), "") // refused: it has no session
			}
		})
	}
	noise.Wait()
	synctest.Wait()
	wronged := map[string]string{}
	for i, u := range booths[:users] {
		got := u.listen(cursors[i])
		want := fmt.Sprintf("user-%d user-%d user-%d tenant-%d", i, i, i, i)
		if told := got.told(); len(told) != 1 || told[0] != want || got.text() != want {
			wronged[want] = fmt.Sprint(told, " and ", got.text())
		}
	}
	require.Empty(t, wronged, "%d of %d users did not get their own", len(wronged), users)
}
