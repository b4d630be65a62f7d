package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rejoin-mcp/rejoin"
)

// newApp has three tools. What they must not forget when their process dies is in Session.SaveState. work is the slow part of long_job; it returns
// what there is to say of a step.
func newApp(work func(ctx context.Context, step int) (string, error)) rejoin.App {
	return rejoin.NewToolApp(
		rejoin.Info{Name: "cluster", Version: "1.0.0"},
		rejoin.Tool{
			Name:        "remember",
			Description: "Remembers a text for as long as the session lasts.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
			Run: func(ctx context.Context, r *rejoin.Request) (any, error) {
				var arguments struct {
					Text string `json:"text"`
				}
				if err := r.BindArguments(&arguments); err != nil {
					return rejoin.ToolError(err), nil
				}
				// The client gets the result when the engine has the state.
				if err := rejoin.HandleFromContext(ctx).Session().SaveState([]byte(arguments.Text)); err != nil {
					return nil, err
				}
				return rejoin.Text("I will remember that"), nil
			},
		},
		rejoin.Tool{
			Name:        "recall",
			Description: "Returns what remember was told.",
			Run: func(ctx context.Context, _ *rejoin.Request) (any, error) {
				return rejoin.Text(string(rejoin.HandleFromContext(ctx).Session().SavedState())), nil
			},
		},
		rejoin.Tool{
			Name:        "long_job",
			Description: "Works through numbered steps, reports each as progress, and lets its client go after every second.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"steps":{"type":"integer","minimum":1,"maximum":100}},"additionalProperties":false}`),
			Run: func(ctx context.Context, r *rejoin.Request) (any, error) {
				arguments := struct {
					Steps int `json:"steps"`
				}{10}
				if err := r.BindArguments(&arguments); err != nil {
					return rejoin.ToolError(err), nil
				}
				if arguments.Steps < 1 || arguments.Steps > 100 {
					return rejoin.ToolError(errors.New("steps must be from 1 to 100")), nil
				}
				return longJob(ctx, arguments.Steps, work)
			},
		},
	)
}

// longJob disconnects its client after every second step, and works on meanwhile. A context that ends before the job says why: the client has
// cancelled the call, or the process ends.
func longJob(ctx context.Context, steps int, work func(ctx context.Context, step int) (string, error)) (any, error) {
	h := rejoin.HandleFromContext(ctx)
	for step := 1; step <= steps; step++ {
		said, err := work(ctx, step)
		if err != nil {
			return nil, err
		}
		_ = h.Progress(float64(step), float64(steps), said) // nothing that a job should fail for
		if step%2 == 0 && step < steps {
			_ = h.CloseStream(0) // an error means only that this client stays connected
		}
	}
	return rejoin.Text(fmt.Sprintf("%d steps done", steps)), nil
}
