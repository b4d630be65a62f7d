// Command stdlib serves MCP from net/http, for users with a bearer token.
//
//	go run ./examples/stdlib -addr 127.0.0.1:8080
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

	"github.com/rs/cors"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
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

// routes puts CORS before authentication: a preflight carries no token. net/http itself recovers from panics.
func routes(srv *rejoin.Server) http.Handler {
	endpoint := http.NewServeMux()
	stdadapter.Register(endpoint, "/mcp", srv)

	admin := http.NewServeMux()
	admin.HandleFunc("GET /admin/sessions", listSessions)
	admin.HandleFunc("POST /admin/close", closeStream)

	mux := http.NewServeMux()
	mux.Handle("/", auth(demo.Users, endpoint))
	mux.Handle("/admin/", auth(demo.Admins, stdadapter.Middleware("", srv)(admin)))
	browsers := cors.New(cors.Options{AllowedOrigins: origins, AllowedMethods: methods, AllowedHeaders: headers, ExposedHeaders: exposed})
	return logged(browsers.Handler(mux))
}

// logged does not wrap w. A wrapper must have an Unwrap method; otherwise nothing can be streamed.
func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		defer func() { slog.Info("request", "method", r.Method, "path", r.URL.Path, "took", time.Since(start)) }()
		next.ServeHTTP(w, r)
	})
}

type userKey struct{}

// auth accepts requests with a token of users, and puts the user into the request's context.
func auth(users map[string]string, next http.Handler) http.Handler {
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
