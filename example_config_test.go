package rejoin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

// Tools need no change for polling: each client is disconnected after 50 seconds, before the proxy's limit of a minute.
func ExampleConfig() {
	unchanged := func(context.Context, *rejoin.Request) (any, error) { return "done", nil }
	srv, err := rejoin.NewServer(rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, unchanged), rejoin.Config{
		Policy:         rejoin.Policy{CloseAfter: 50 * time.Second},
		AllowedOrigins: []string{"https://app.example"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	fmt.Println(srv.Draining())
	// Output: false
}

// The tool is unchanged. A timer disconnects its client.
func ExamplePolicy_closeAfter() {
	polled := make(chan struct{})
	polls := 0
	s, end, err := serveAndConnect(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		select { // some work, as long as it takes
		case <-polled:
			return "done", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}, rejoin.Config{Policy: rejoin.Policy{CloseAfter: time.Millisecond, Retry: time.Millisecond}}, client.Config{
		Trace: func(e client.TraceEvent) {
			if e.Kind == client.TracePoll && e.Stream != "" {
				if polls++; polls == 3 {
					close(polled)
				}
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	text, err := callTool(s, "unchanged")
	fmt.Println(text, err, polls >= 3)
	// Output: done <nil> true
}

// One tool gets its own policy, by its name. One client can get its own policy in the same way, by r.Client or r.HTTP.
func ExampleConfig_policyFor() {
	cfg := rejoin.Config{
		Policy: rejoin.Policy{CloseAfter: 50 * time.Second},
		PolicyFor: func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
			if r.Name == "export" {
				p.CloseAfter, p.MaxRuntime = 5*time.Second, time.Hour
			}
			return p // with the defaults filled in
		},
	}
	for _, name := range []string{"search", "export"} {
		p := cfg.PolicyFor(rejoin.RequestInfo{Method: "tools/call", Name: name}, cfg.Policy)
		fmt.Println(name, p.CloseAfter, p.MaxRuntime)
	}
	// Output:
	// search 50s 0s
	// export 5s 1h0m0s
}

// A tool that finds its work to be slow gives itself more time.
func ExampleHandle_SetPolicy() {
	s, end, err := serveAndConnect(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		err := h.SetPolicy(rejoin.Policy{Retry: time.Minute, RetryMax: 10 * time.Minute, AbandonAfter: 24 * time.Hour})
		return "patient", err
	}, rejoin.Config{}, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	fmt.Println(callTool(s, "night job"))
	// Output: patient <nil>
}

// A tool's context says why it ended. A lost connection does not end it.
func ExampleErrCancelled() {
	cause := make(chan error, 1)
	running := make(chan struct{})
	s, end, err := serveAndConnect(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		close(running)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}, rejoin.Config{}, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	call, err := s.Start(context.Background(), "tools/call", map[string]any{"name": "slow"})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-running
	call.Cancel("the user has changed their mind")
	fmt.Println(errors.Is(<-cause, rejoin.ErrCancelled), errors.Is(call.Wait(context.Background(), nil), client.ErrCancelled))
	// Output: true true
}

// A route for administrators disconnects all clients, for example before a proxy is restarted. It needs its own authorization.
func ExampleServerFromContext() {
	admin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		srv := rejoin.ServerFromContext(r.Context())
		for session := range srv.Sessions() { // by Ref, because ids are secrets
			n, err := srv.CloseStreams(session.Ref, time.Minute) // disconnected for a minute; calls go on
			fmt.Fprintln(w, session.Version, "streams:", len(session.Streams), "disconnected:", n, err)
		}
	})
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(context.Context, *rejoin.Request) (any, error) { return "ok", nil })
	srv, err := rejoin.NewServer(app, rejoin.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST /admin/disconnect", admin)
	server := httptest.NewServer(stdadapter.Middleware("/mcp", srv)(mux))
	defer server.Close()
	ctx := context.Background()
	s, err := client.Connect(ctx, server.URL+"/mcp", client.Config{Era: client.EraLegacy})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)

	w := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/admin/disconnect", http.NoBody))
	fmt.Print(w.Body)
	// Output: 2025-11-25 streams: 1 disconnected: 0 <nil>
}

// An orderly end: the server takes no new work, running calls finish and their responses are fetched, then the connections end.
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

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // shorter than the orchestrator's grace period
	defer cancel()
	fmt.Println("drain:", srv.Drain(ctx)) // a *rejoin.DrainError counts what is left
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", http.NoBody))
	fmt.Println("ready:", w.Code)
	fmt.Println("shutdown:", server.Config.Shutdown(ctx))
	srv.Close() // ends the sessions
	// Output:
	// drain: <nil>
	// ready: 503
	// shutdown: <nil>
}

// Numbers for a log line, expvar or Prometheus.
func ExampleServer_Stats() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // if this fails, the client keeps its connection
		return "ok", nil
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: retryAtOnce})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(stdadapter.New(srv))
	defer server.Close()
	ctx := context.Background()
	s, err := client.Connect(ctx, server.URL, client.Config{Era: client.EraLegacy})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	err = s.Do(ctx, "tools/call", map[string]any{"name": "slow"}, nil)
	stats := srv.Stats()
	fmt.Println(err, "sessions:", stats.Sessions, "opened:", stats.Opened, "disconnected:", stats.Closed, "came back:", stats.Resumed)
	// Output: <nil> sessions: 1 opened: 1 disconnected: 1 came back: 1
}
