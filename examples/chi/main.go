// Command chi serves MCP from a chi router, for users with a bearer token.
//
//	go run ./examples/chi -addr 127.0.0.1:8080
package main

import (
	"context"
	"encoding/json"
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

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/cors"

	"github.com/rejoin-mcp/rejoin"
	chiadapter "github.com/rejoin-mcp/rejoin/adapters/chi"
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
	r := chi.NewRouter()
	r.Use(middleware.Logger, middleware.Recoverer)
	r.Use(cors.Handler(cors.Options{AllowedOrigins: origins, AllowedMethods: methods, AllowedHeaders: headers, ExposedHeaders: exposed}))
	chiadapter.Register(r.With(auth(demo.Users)), "/mcp", srv)
	r.Route("/admin", func(r chi.Router) {
		r.Use(auth(demo.Admins), chiadapter.Middleware("", srv))
		r.Get("/sessions", listSessions)
		r.Post("/close", closeStream)
	})
	return r
}

type userKey struct{}

// auth accepts requests with a token of users, and puts the user into the request's context.
func auth(users map[string]string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, ok := demo.UserOf(r, users)
			if !ok {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "unauthorized", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, name)))
		})
	}
}

// userOf returns the user of a request's context or of a tool's, also long after the request.
func userOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}

func listSessions(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(demo.Sessions(rejoin.ServerFromContext(r.Context()))); err != nil {
		slog.Warn("sessions were not listed", "error", err)
	}
}

// closeStream disconnects the client of one stream; its call goes on.
func closeStream(w http.ResponseWriter, r *http.Request) {
	err := rejoin.ServerFromContext(r.Context()).CloseStream(rejoin.StreamRef(r.FormValue("stream")), 0)
	if err != nil {
		http.Error(w, err.Error(), demo.Status(err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
