package mcpgo

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/crossing"
	"github.com/rejoin-mcp/rejoin/bridge/internal/longcalls"
)

// Whatever is on its way when a session ends, nothing of the session is left, and the context of each tool ends.
func TestEndsCross(t *testing.T) {
	crossing.Run(t, func(handlers *crossing.Handlers) rejoin.App {
		tools := map[string]handler{}
		for _, name := range crossing.Tools {
			tools[name] = func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				return "x", handlers.Tool(ctx, name, senderOf(s))
			}
		}
		s := newMCP(&server.Hooks{}, tools)
		for _, method := range []string{"notifications/initialized", "notifications/roots/list_changed"} {
			s.AddNotificationHandler(method, func(ctx context.Context, _ mcp.JSONRPCNotification) { handlers.Notification(ctx, senderOf(s)) })
		}
		s.AddResource(mcp.NewResource(crossing.Resource, "x"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
		return New(s)
	})
}

// Whatever is on its way when a call that becomes a task ends, nothing of it is left, and the context of each tool ends.
func TestTasksCross(t *testing.T) {
	crossing.RunTasks(t, func(handlers *crossing.Handlers) rejoin.App {
		s := newMCP(&server.Hooks{}, nil)
		for _, name := range crossing.TaskTools {
			s.AddTool(mcp.NewTool(name), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if handlers.TaskTool(ctx, name, request.Params.InputResponses != nil, senderOf(s)) {
					return longCallResult(longcalls.Outcome{Asks: map[string]string{"k": "x"}})
				}
				return mcp.NewToolResultText("x"), nil
			})
		}
		return New(s)
	})
}

func senderOf(s *server.MCPServer) crossing.Sender {
	return crossing.Sender{
		Log: func(ctx context.Context) error {
			return s.SendNotificationToClient(ctx, "notifications/message", map[string]any{"level": "error", "data": "x"})
		},
		Elicit: func(ctx context.Context) error {
			_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
				Message: "x", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
			}})
			return err
		},
	}
}
