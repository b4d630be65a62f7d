package mcpgo

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/crossing"
)

// However the end of a session crosses with what is on its way, nothing of the session stays, and every tool sees its context end.
func TestEndsCross(t *testing.T) {
	crossing.Run(t, func(stage *crossing.Stage) rejoin.App {
		tools := map[string]handler{}
		for _, name := range crossing.Tools {
			tools[name] = func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				return "x", stage.Perform(ctx, name, voiceOf(s))
			}
		}
		s := newMCP(&server.Hooks{}, tools)
		for _, method := range []string{"notifications/initialized", "notifications/roots/list_changed"} {
			s.AddNotificationHandler(method, func(ctx context.Context, _ mcp.JSONRPCNotification) { stage.Notified(ctx, voiceOf(s)) })
		}
		s.AddResource(mcp.NewResource(crossing.Resource, "x"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
		return New(s)
	})
}

func voiceOf(s *server.MCPServer) crossing.Voice {
	return crossing.Voice{
		Say: func(ctx context.Context) error {
			return s.SendNotificationToClient(ctx, "notifications/message", map[string]any{"level": "error", "data": "x"})
		},
		Ask: func(ctx context.Context) error {
			_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
				Message: "x", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
			}})
			return err
		},
	}
}
