package crossing_test

import (
	"context"
	"testing"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/crossing"
)

// However the end of a session crosses with what is on its way, nothing of the session stays, and every tool sees its context end.
func TestEndsCross(t *testing.T) {
	crossing.Run(t, func(stage *crossing.Stage) rejoin.App {
		info := rejoin.Info{Name: "crossing", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}}
		return rejoin.NewApp(info, func(ctx context.Context, r *rejoin.Request) (any, error) {
			if r.Method != "tools/call" {
				return struct{}{}, nil
			}
			h := rejoin.HandleFromContext(ctx)
			return "x", stage.Perform(ctx, r.Name(), crossing.Voice{
				Say: func(context.Context) error {
					return h.Notify("notifications/message", map[string]any{"level": "error", "data": "x"})
				},
				Ask: func(ctx context.Context) error {
					return h.Request(ctx, "elicitation/create", map[string]any{"message": "x", "requestedSchema": map[string]any{}}, nil)
				},
			})
		})
	})
}
