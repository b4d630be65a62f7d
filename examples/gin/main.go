// Command gin serves MCP from a gin router, for users with a bearer token.
//
//	go run ./examples/gin -addr 127.0.0.1:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-contrib/cors"
	"github.com/gin-gonic/gin"

	"github.com/rejoin-mcp/rejoin"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	"github.com/rejoin-mcp/rejoin/examples/internal/demo"
)

// The CORS settings for MCP clients in web pages. rejoin and the CORS middleware must allow the same origins; this one is the MCP inspector's.
var (
	origins = []string{"http://localhost:6274"}
	headers = []string{
		"Content-Type", "Accept", "Authorization", "Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-ID",
		"Mcp-Method", "Mcp-Name", // of clients that first try the modern era
	}
	methods = []string{http.MethodGet, http.MethodPost, http.MethodDelete}
	exposed = []string{"Mcp-Session-Id", "WWW-Authenticate", "Retry-After"}
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	ln, err := net.Listen("tcp", *addr)
	if err == nil {
		fmt.Printf("listening on http://%s/mcp\n", ln.Addr())
		err = run(ctx, ln)
	}
	if err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Then it accepts no new work, gives running calls and the clients that still have results to fetch ten seconds,
// and closes.
func run(ctx context.Context, ln net.Listener) error {
	srv, err := rejoin.NewServer(demo.NewApp(userOf), rejoin.Config{
		Policy:         rejoin.Policy{CloseAfter: 50 * time.Second}, // before a proxy gives up after a minute
		Principal:      func(r *http.Request) string { return userOf(r.Context()) },
		AllowedOrigins: origins,
	})
	if err != nil {
		return err
	}
	web := &http.Server{Handler: routes(srv), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	drained := srv.Drain(drain)
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(drained, web.Shutdown(shutdown))
}

// routes puts CORS before authentication: a preflight carries no token.
func routes(srv *rejoin.Server) http.Handler {
	r := gin.New()
	r.Use(gin.Logger(), gin.Recovery())
	r.Use(cors.New(cors.Config{AllowOrigins: origins, AllowMethods: methods, AllowHeaders: headers, ExposeHeaders: exposed}))
	ginadapter.Register(r.Group("", auth(demo.Users)), "/mcp", srv)
	admin := r.Group("/admin", auth(demo.Admins), ginadapter.Middleware("", srv))
	admin.GET("/sessions", listSessions)
	admin.POST("/close", closeStream)
	return r
}

// auth accepts requests with a token of users, and keeps the user for userOf.
func auth(users map[string]string) gin.HandlerFunc {
	return func(c *gin.Context) {
		name, ok := demo.UserOf(c.Request, users)
		if !ok {
			c.Header("WWW-Authenticate", "Bearer")
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.Set("user", name)
	}
}

// userOf works in the context of Config.Principal and in a tool's, also long after the request, when gin uses its gin.Context for another
// request.
func userOf(ctx context.Context) string {
	value, _ := ginadapter.Get(ctx, "user")
	name, _ := value.(string)
	return name
}

func listSessions(c *gin.Context) {
	c.JSON(http.StatusOK, demo.Sessions(rejoin.ServerFromContext(c.Request.Context())))
}

// closeStream disconnects the client of one stream; its call goes on.
func closeStream(c *gin.Context) {
	err := rejoin.ServerFromContext(c.Request.Context()).CloseStream(rejoin.StreamRef(c.Query("stream")), 0)
	if err != nil {
		c.JSON(demo.Status(err), gin.H{"error": err.Error()})
		return
	}
	c.Status(http.StatusNoContent)
}
