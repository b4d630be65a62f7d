package rejoin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

// An admin's route lets all clients go, before a proxy is restarted say. Put it behind authorization of its own.
func ExampleServerFromContext() {
	admin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		srv := rejoin.ServerFromContext(r.Context())
		for session := range srv.Sessions() { // named by Ref: ids are secrets
			n, err := srv.CloseStreams(session.Ref, time.Minute) // let go for a minute; calls go on
			fmt.Fprintln(w, session.Version, "streams:", len(session.Streams), "let go:", n, err)
		}
	})
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(context.Context, *rejoin.Request) (any, error) { return "ok", nil })
	srv, err := rejoin.NewServer(app, rejoin.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST /admin/let-go", admin)
	server := httptest.NewServer(stdadapter.Middleware("/mcp", srv)(mux))
	defer server.Close()
	ctx := context.Background()
	s, err := client.Connect(ctx, server.URL+"/mcp", client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)

	w := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/admin/let-go", http.NoBody))
	fmt.Print(w.Body)
	// Output: 2025-11-25 streams: 1 let go: 0 <nil>
}

// A clean end: no new work, running calls finish and are fetched, then the connections go.
func ExampleServer_Drain() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(context.Context, *rejoin.Request) (any, error) { return "ok", nil })
	srv, err := rejoin.NewServer(app, rejoin.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if srv.Draining() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(mux) // in a program: an http.Server, and signal.NotifyContext to wait for the signal
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // below the orchestrator's grace period
	defer cancel()
	fmt.Println("drain:", srv.Drain(ctx)) // a *rejoin.DrainError counts what was left
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", http.NoBody))
	fmt.Println("ready:", w.Code)
	fmt.Println("shutdown:", server.Config.Shutdown(ctx))
	srv.Close() // sessions end with the process
	// Output:
	// drain: <nil>
	// ready: 503
	// shutdown: <nil>
}

// Counters for a log line, expvar or Prometheus.
func ExampleServer_Stats() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // the client stays if this fails
		return "ok", nil
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: soon})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(stdadapter.New(srv))
	defer server.Close()
	ctx := context.Background()
	s, err := client.Connect(ctx, server.URL, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	err = s.Do(ctx, "tools/call", map[string]any{"name": "slow"}, nil)
	stats := srv.Stats()
	fmt.Println(err, "sessions:", stats.Sessions, "opened:", stats.Opened, "let go:", stats.Closed, "came back:", stats.Resumed)
	// Output: <nil> sessions: 1 opened: 1 let go: 1 came back: 1
}
