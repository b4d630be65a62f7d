package crossing_test

import (
	"context"
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/crossing"
)

// Whatever is on its way when a session ends, nothing of the session is left, and the context of each tool ends.
func TestEndsCross(t *testing.T) {
	crossing.Run(t, func(handlers *crossing.Handlers) rejoin.App {
		info := rejoin.Info{Name: "crossing", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}}
		return rejoin.NewApp(info, func(ctx context.Context, r *rejoin.Request) (any, error) {
			if r.Method != "tools/call" {
				return struct{}{}, nil
			}
			h := rejoin.HandleFromContext(ctx)
			return "x", handlers.Tool(ctx, r.Name(), crossing.Sender{
				Log: func(context.Context) error {
					return h.Notify("notifications/message", map[string]any{"level": "error", "data": "x"})
				},
				Elicit: func(ctx context.Context) error {
					return h.Ask(ctx, "elicitation/create", map[string]any{"message": "x", "requestedSchema": map[string]any{}}, nil)
				},
			})
		})
	})
}

// Whatever is on its way when a call that becomes a task ends, nothing of it is left, and the context of each tool ends.
func TestTasksCross(t *testing.T) {
	crossing.RunTasks(t, func(handlers *crossing.Handlers) rejoin.App {
		info := rejoin.Info{Name: "crossing", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}}
		return rejoin.NewApp(info, func(ctx context.Context, r *rejoin.Request) (any, error) {
			if r.Method != "tools/call" {
				return struct{}{}, nil
			}
			var params struct {
				Answers map[string]any `json:"inputResponses"`
			}
			if err := r.Bind(&params); err != nil {
				return nil, err
			}
			asks := handlers.TaskTool(ctx, r.Name(), params.Answers != nil, crossing.Sender{Log: func(ctx context.Context) error {
				return rejoin.HandleFromContext(ctx).Notify("notifications/message", map[string]any{"level": "error", "data": "x"})
			}})
			if !asks {
				return "x", nil
			}
			return map[string]any{"resultType": "input_required", "inputRequests": map[string]any{
				"k": map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "x"}},
			}}, nil
		})
	})
}
