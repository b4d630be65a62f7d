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
