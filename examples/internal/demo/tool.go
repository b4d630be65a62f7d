package demo

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

var info = rejoin.Info{Name: "router-example", Version: "1.0.0", Capabilities: map[string]any{"tools": struct{}{}}}

var toolList = json.RawMessage(`{"tools":[{
	"name": "greet",
	"title": "Greet slowly",
	"description": "Lets its client go, takes its time, and greets the user by name.",
	"inputSchema": {
		"type": "object",
		"properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 3600, "default": 5, "description": "How long it takes."}},
		"additionalProperties": false
	}
}]}`)

// NewApp is an MCP server with one tool. user is how a tool gets the user's name out of its context: that is the router's part.
func NewApp(user func(ctx context.Context) string) rejoin.App {
	return rejoin.NewApp(info, func(ctx context.Context, r *rejoin.Request) (any, error) {
		switch r.Method {
		case "tools/list":
			return toolList, nil
		case "tools/call":
			return call(ctx, r, user)
		default:
			return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "unknown method %q", r.Method)
		}
	})
}

func call(ctx context.Context, r *rejoin.Request, user func(ctx context.Context) string) (any, error) {
	if r.Name() != "greet" {
		return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "unknown tool %q", r.Name())
	}
	arguments := struct {
		Seconds float64 `json:"seconds"`
	}{5}
	if err := r.BindArguments(&arguments); err != nil {
		return nil, err
	}
	if s := arguments.Seconds; s < 0 || s > 3600 {
		return toolResult("seconds must be from 0 to 3600", true), nil
	}
	text, err := greet(ctx, time.Duration(arguments.Seconds*float64(time.Second)), user)
	if err != nil {
		return nil, err
	}
	return toolResult(text, false), nil
}

// greet works on when its client has gone and the request that called it is over. Only then does it ask who called.
func greet(ctx context.Context, d time.Duration, user func(ctx context.Context) string) (string, error) {
	const steps = 4
	h := rejoin.HandleFromContext(ctx)
	for step := range steps {
		_ = h.Progress(float64(step), steps, "") // nothing that a greeting should fail for
		if step == 0 {
			_ = h.CloseStream(0) // an error means only that this client stays connected
		}
		if err := pause(ctx, d/steps); err != nil {
			return "", err
		}
	}
	return "Hello, " + user(ctx) + "!", nil
}

// pause stands for work. It returns why ctx ended, if it did.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// toolResult is the answer to tools/call. What is wrong with the arguments goes into it too: a model reads results, not errors.
func toolResult(text string, failed bool) map[string]any {
	return map[string]any{
		"content": []map[string]string{{"type": "text", "text": text}},
		"isError": failed,
	}
}
