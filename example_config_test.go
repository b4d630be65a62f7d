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

// Tools that know nothing of polling: each client is let go after 50 seconds, below the proxy's limit of a minute.
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

// The tool is unchanged, the timer lets its client go.
func ExamplePolicy_closeAfter() {
	polled := make(chan struct{})
	polls := 0
	s, end, err := serving(func(ctx context.Context, _ *rejoin.Request) (any, error) {
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
	text, err := said(s, "unchanged")
	fmt.Println(text, err, polls >= 3)
	// Output: done <nil> true
}

// One tool gets another policy than the rest, by its name; so can one client, by r.HTTP.
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

// A tool that turns out to be slow asks for more patience than the rest.
func ExampleHandle_SetPolicy() {
	s, end, err := serving(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		err := h.SetPolicy(rejoin.Policy{Retry: time.Minute, RetryMax: 10 * time.Minute, AbandonAfter: 24 * time.Hour})
		return "patient", err
	}, rejoin.Config{}, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	fmt.Println(said(s, "night job"))
	// Output: patient <nil>
}

// A tool's context says why it ended. A connection that is lost is no reason.
func ExampleErrCancelled() {
	cause := make(chan error, 1)
	running := make(chan struct{})
	s, end, err := serving(func(ctx context.Context, _ *rejoin.Request) (any, error) {
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
