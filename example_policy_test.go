package rejoin_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin"
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
	var result string
	err = s.Do(context.Background(), "tools/call", map[string]any{"name": "unchanged"}, &result)
	fmt.Println(result, err, polls >= 3)
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
	var result string
	err = s.Do(context.Background(), "tools/call", map[string]any{"name": "night job"}, &result)
	fmt.Println(result, err)
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
