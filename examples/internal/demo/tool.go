package demo

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// NewApp returns an app with one tool. user returns the name of the user from a tool's context; it depends on the router.
func NewApp(user func(ctx context.Context) string) rejoin.App {
	return rejoin.NewToolApp(rejoin.Info{Name: "router-example", Version: "1.0.0"}, rejoin.Tool{
		Name:        "greet",
		Title:       "Greet slowly",
		Description: "Lets its client go, takes its time, and greets the user by name.",
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 3600, "default": 5, "description": "How long it takes."}},
			"additionalProperties": false
		}`),
		Run: func(ctx context.Context, r *rejoin.Request) (any, error) {
			arguments := struct {
				Seconds float64 `json:"seconds"`
			}{5}
			if err := r.BindArguments(&arguments); err != nil {
				return rejoin.ToolError(err), nil // for the model to read; err itself would be for the client's program
			}
			if s := arguments.Seconds; s < 0 || s > 3600 {
				return rejoin.ToolError(errors.New("seconds must be from 0 to 3600")), nil
			}
			return greet(ctx, time.Duration(arguments.Seconds*float64(time.Second)), user)
		},
	})
}

// greet disconnects its client and goes on. It reads the user from its context when the request that called it is long over.
func greet(ctx context.Context, d time.Duration, user func(ctx context.Context) string) (any, error) {
	const steps = 4
	h := rejoin.HandleFromContext(ctx)
	for step := range steps {
		_ = h.Progress(float64(step), steps, "") // nothing that a greeting should fail for
		if step == 0 {
			_ = h.CloseStream(0) // an error means only that this client stays connected
		}
		if err := pause(ctx, d/steps); err != nil {
			return nil, err
		}
	}
	return rejoin.Text("Hello, " + user(ctx) + "!"), nil
}

// pause stands for work. If ctx ends, it returns the cause.
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
