package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

// counting serves a tool that says 1, 2, 3, lets its client go after each, and waits for next before it goes on.
func counting(next <-chan struct{}) *httptest.Server {
	count := func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		for i := range 3 {
			if err := h.Notify("notifications/message", map[string]any{"n": i + 1}); err != nil {
				return nil, err
			}
			_ = h.CloseStream(0) // the client keeps its connection if this fails
			<-next
		}
		return map[string]any{"total": 3}, nil
	}
	app := rejoin.NewToolApp(rejoin.Info{Name: "counter", Version: "1"}, rejoin.Tool{Name: "count", Run: count})
	srv, err := rejoin.NewServer(app, rejoin.Config{Eras: rejoin.EraLegacy, Policy: rejoin.Policy{Retry: 1e6}})
	if err != nil {
		panic(err)
	}
	return httptest.NewServer(stdadapter.New(srv))
}

func ExampleConnect() {
	next := make(chan struct{})
	close(next)
	server := counting(next)
	defer server.Close()
	ctx := context.Background()

	s, err := client.Connect(ctx, server.URL, client.Config{Name: "example", Version: "1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	var result struct{ Total int }
	err = s.Do(ctx, "tools/call", map[string]any{"name": "count"}, &result)
	fmt.Println(s.Version(), result.Total, err)
	// Output: 2025-11-25 3 <nil>
}

func ExampleCall_Messages() {
	next := make(chan struct{})
	close(next)
	server := counting(next)
	defer server.Close()
	ctx := context.Background()

	s, err := client.Connect(ctx, server.URL, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	call, err := s.Start(ctx, "tools/call", map[string]any{"name": "count"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for m := range call.Messages() { // each once, over four connections
		fmt.Println(m.Method, string(m.Params))
	}
	fmt.Println(call.Wait(ctx, nil))
	// Output:
	// notifications/message {"n":1}
	// notifications/message {"n":2}
	// notifications/message {"n":3}
	// <nil>
}

func ExampleResume() {
	next := make(chan struct{})
	server := counting(next)
	defer server.Close()
	ctx := context.Background()

	// A program begins a call, keeps the token where it can find it again, and ends.
	s, err := client.Connect(ctx, server.URL, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	call, err := s.Start(ctx, "tools/call", map[string]any{"name": "count"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for m := range call.Messages() {
		fmt.Println("first:", string(m.Params))
		break
	}
	token := call.Token() // a secret
	s.Leave()             // as if it were killed
	close(next)

	// Another goes on.
	call, err = client.Resume(ctx, server.URL, token, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for m := range call.Messages() {
		fmt.Println("second:", string(m.Params))
	}
	var result struct{ Total int }
	err = call.Wait(ctx, &result)
	fmt.Println(result.Total, err)
	// Output:
	// first: {"n":1}
	// second: {"n":2}
	// second: {"n":3}
	// 3 <nil>
}
