// Package snippets holds the Go code that the documents quote, so that it compiles. A test looks for each block in it, or in an
// example.
package snippets

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
	echoadapter "github.com/rejoin-mcp/rejoin/adapters/echo"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// Timer disconnects every client after a while.
func Timer() rejoin.Config {
	cfg :=
		rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}} // below the proxy's limit
	return cfg
}

// Tool disconnects its client itself.
//
//nolint:errcheck // as in the README: an error means only that the client stays
func Tool(ctx context.Context) {
	rejoin.HandleFromContext(ctx).CloseStream(0) // the client is disconnected; the call continues
}

// Beside sends on both streams of a call.
func Beside(ctx context.Context, uri string) error {
	h := rejoin.HandleFromContext(ctx)
	if err := h.Notify("notifications/message", map[string]any{"level": "info", "data": "half of it is done"}); err != nil { // on the call's stream
		return err
	}
	return h.Session().Notify(context.Background(), "notifications/resources/updated", map[string]string{"uri": uri}) // on the standalone stream
}

// Routers mounts a server on each router but gin.
func Routers(srv *rejoin.Server, mux *http.ServeMux, r chi.Router, e *echo.Echo) {
	stdadapter.Register(mux, "/mcp", srv)
	r.Mount("/mcp", chiadapter.New(srv))
	auth := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	echoadapter.Register(e.Group("", auth), "/mcp", srv, "user")
	e.Use(echoadapter.Middleware("/mcp", srv, "user"))
}

// Gin mounts a server on gin.
func Gin(srv *rejoin.Server, r *gin.Engine) {
	auth := func(*gin.Context) {}
	ginadapter.Register(r.Group("", auth), "/mcp", srv)
}

// Later reads values of a request that is long over, as a tool does.
func Later(ctx context.Context) []any {
	ginUser, _ := ginadapter.Get(ctx, "user")
	echoUser, _ := echoadapter.Get(ctx, "user")
	return []any{
		ginUser,
		echoUser,
		stdadapter.PathValue(ctx, "tenant"),
		chi.URLParamFromCtx(ctx, "tenant"),
		echoadapter.Param(ctx, "tenant"),
		ginadapter.Param(ctx, "tenant"),
	}
}

// Admin is a handler for operators.
func Admin(_ http.ResponseWriter, r *http.Request) {
	srv := rejoin.ServerFromContext(r.Context()) // behind the adapter's Middleware
	for session := range srv.Sessions() {        // named by Ref: ids are secrets
		for _, stream := range session.Streams {
			_ = srv.CloseStream(stream.Ref, time.Minute) // disconnects its client; an error means that it stays connected
		}
	}
}
