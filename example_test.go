package rejoin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/client"
)

// retryAtOnce makes the clients of the examples come back without delay.
var retryAtOnce = rejoin.Policy{Retry: time.Millisecond}

// serveAndConnect serves a handler, as any program would, and opens a session with it.
func serveAndConnect(h rejoin.Handler, cfg rejoin.Config, clientCfg client.Config) (s *client.Session, end func(), err error) {
	info := rejoin.Info{Name: "example", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}
	srv, err := rejoin.NewServer(rejoin.NewApp(info, h), cfg)
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	server := httptest.NewServer(mux)
	clientCfg.Era = client.EraLegacy // the examples are about sessions and polling
	if s, err = client.Connect(context.Background(), server.URL+"/mcp", clientCfg); err != nil {
		server.Close()
		return nil, nil, err
	}
	return s, func() { _ = s.Close(context.Background()); server.Close() }, nil
}

// callTool calls a tool and returns the text of its result.
func callTool(s *client.Session, tool string) (string, error) {
	var result struct{ Content []struct{ Text string } }
	if err := s.Do(context.Background(), "tools/call", map[string]any{"name": tool}, &result); err != nil || len(result.Content) != 1 {
		return "", err
	}
	return result.Content[0].Text, nil
}

// A server on net/http without an SDK, and a call whose client is disconnected and polls.
func Example() {
	export := rejoin.Tool{Name: "export", Description: "Exports everything.", Run: func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		for step := range 3 {
			// … a minute of work …
			if err := h.Progress(float64(step+1), 3, r.Name()); err != nil {
				return nil, err
			}
			_ = h.CloseStream(0) // the client polls from here on; an error only means that it keeps its connection
		}
		return rejoin.Text("done"), nil
	}}
	app := rejoin.NewToolApp(rejoin.Info{Name: "demo", Version: "1.0"}, export)
	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: rejoin.Policy{Retry: time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	server := httptest.NewServer(mux) // in a program: http.ListenAndServe
	defer server.Close()

	ctx := context.Background()
	s, err := client.Connect(ctx, server.URL+"/mcp", client.Config{Era: client.EraLegacy}) // in which every message comes
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	call, err := s.Start(ctx, "tools/call", map[string]any{"name": "export", "_meta": map[string]any{"progressToken": 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for m := range call.Messages() {
		fmt.Println(m.Method, string(m.Params))
	}
	var result json.RawMessage
	err = call.Wait(ctx, &result)
	fmt.Println(string(result), err)
	// Output:
	// notifications/progress {"progressToken":1,"progress":1,"total":3,"message":"export"}
	// notifications/progress {"progressToken":1,"progress":2,"total":3,"message":"export"}
	// notifications/progress {"progressToken":1,"progress":3,"total":3,"message":"export"}
	// {"content":[{"type":"text","text":"done"}]} <nil>
}

// The error names every mistake.
func ExampleNewServer() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(context.Context, *rejoin.Request) (any, error) { return "ok", nil })
	_, err := rejoin.NewServer(app, rejoin.Config{
		KeepAlive: time.Microsecond,
		Policy:    rejoin.Policy{Mode: rejoin.ModeJSON, CloseAfter: 50 * time.Second},
	})
	fmt.Println(err)
	// Output:
	// rejoin: invalid configuration: KeepAlive: 1µs is less than 1 ms
	// Policy.CloseAfter: mode JSON has no stream to close
}

// A tool decodes its arguments. The error for arguments that do not fit is meant for the client.
func ExampleRequest_BindArguments() {
	s, end, err := serveAndConnect(func(_ context.Context, r *rejoin.Request) (any, error) {
		var args struct {
			Rows int `json:"rows"`
		}
		if err := r.BindArguments(&args); err != nil {
			return nil, err
		}
		return map[string]int{"exported": args.Rows}, nil
	}, rejoin.Config{}, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	var result struct{ Exported int }
	err = s.Do(context.Background(), "tools/call", map[string]any{"name": "export", "arguments": map[string]any{"rows": 1000}}, &result)
	fmt.Println(result.Exported, err)
	err = s.Do(context.Background(), "tools/call", map[string]any{"name": "export", "arguments": map[string]any{"rows": "all"}}, &result)
	fmt.Println(err)
	// Output:
	// 1000 <nil>
	// JSON-RPC error -32602: arguments of export: rows cannot be of type string
}

// A tool disconnects its client before a long wait. It works the same if that fails.
func ExampleHandle_CloseStream() {
	s, end, err := serveAndConnect(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		if err := h.CloseStream(0); errors.Is(err, rejoin.ErrNotResumable) {
			return "a client of an older version keeps its connection", nil
		}
		// … an hour of work …
		return "the client was away, and came back for this", nil
	}, rejoin.Config{Policy: retryAtOnce}, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	fmt.Println(callTool(s, "slow"))
	// Output: the client was away, and came back for this <nil>
}

// Outside a call, methods of a handle only return an error. So shared code need not check whether it runs in a call.
func ExampleHandleFromContext() {
	h := rejoin.HandleFromContext(context.Background())
	fmt.Println(h.Progress(1, 2, ""))
	fmt.Println(h.CloseStream(0))
	// Output:
	// rejoin: the context belongs to no call of a rejoin server
	// rejoin: the context belongs to no call of a rejoin server
}

// A tool sends on the stream of its own call, and on the standalone stream, to which the client listens independently of its calls.
func ExampleSession_Notify() {
	s, end, err := serveAndConnect(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		if err := h.Notify("notifications/message", map[string]any{"level": "info", "data": "of the call"}); err != nil {
			return nil, err
		}
		// A context that belongs to no call.
		err := h.Session().Notify(context.Background(), "notifications/resources/updated", map[string]string{"uri": "file:///a"})
		return rejoin.Text("ok"), err
	}, rejoin.Config{}, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	call, err := s.Start(context.Background(), "tools/call", map[string]any{"name": "x"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for m := range call.Messages() {
		fmt.Println("call:", m.Method, string(m.Params))
	}
	for m, err := range s.Listen(context.Background()) {
		fmt.Println("beside:", m.Method, string(m.Params), err)
		break
	}
	// Output:
	// call: notifications/message {"data":"of the call","level":"info"}
	// beside: notifications/resources/updated {"uri":"file:///a"} <nil>
}

// Progress is sent only if the client asked for it with a progressToken.
func ExampleHandle_Progress() {
	s, end, err := serveAndConnect(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		return "ok", errors.Join(h.Progress(1, 2, "halfway"), h.Progress(2, 2, ""))
	}, rejoin.Config{}, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	for _, params := range []map[string]any{{"name": "x"}, {"name": "x", "_meta": map[string]any{"progressToken": "p"}}} {
		call, err := s.Start(context.Background(), "tools/call", params)
		if err != nil {
			fmt.Println(err)
			return
		}
		for m := range call.Messages() {
			fmt.Println(string(m.Params))
		}
		fmt.Println(call.Wait(context.Background(), nil))
	}
	// Output:
	// <nil>
	// {"progressToken":"p","progress":1,"total":2,"message":"halfway"}
	// {"progressToken":"p","progress":2,"total":2}
	// <nil>
}

// A tool asks the user while the client is away. The client gets the question when it comes back. The context limits the wait.
func ExampleHandle_Ask() {
	s, end, err := serveAndConnect(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		_ = h.CloseStream(0) // if this fails, the client keeps its connection
		ask, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		var answer struct {
			Action  string
			Content struct{ Name string }
		}
		err := h.Ask(ask, "elicitation/create", map[string]any{
			"message": "Which table?",
			"requestedSchema": map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
			},
		}, &answer)
		if err != nil {
			return nil, err
		}
		return answer.Action + " " + answer.Content.Name, nil
	}, rejoin.Config{Policy: retryAtOnce}, client.Config{
		Capabilities: map[string]any{"elicitation": struct{}{}},
		OnRequest: func(_ context.Context, method string, params json.RawMessage) (any, error) {
			var question struct{ Message string }
			if err := json.Unmarshal(params, &question); err != nil || method != "elicitation/create" {
				return nil, &client.Error{Code: -32602, Message: "not understood"}
			}
			return map[string]any{"action": "accept", "content": map[string]any{"name": "orders, for " + question.Message}}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	fmt.Println(callTool(s, "export"))
	// Output: accept orders, for Which table? <nil>
}
