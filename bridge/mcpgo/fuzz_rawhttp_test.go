package mcpgo

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/rawhttp"
)

// FuzzRawHTTP sends bytes to a real http.Server with a bridged server behind it: see internal/rawhttp.
func FuzzRawHTTP(f *testing.F) {
	rawhttp.FuzzApp(f, func(*slog.Logger) (rejoin.App, func() string) {
		var registered atomic.Int64
		hooks := &server.Hooks{}
		hooks.AddOnRegisterSession(func(context.Context, server.ClientSession) { registered.Add(1) })
		hooks.AddOnUnregisterSession(func(context.Context, server.ClientSession) { registered.Add(-1) })
		s := newMCP(hooks, rawTools())
		s.AddTool(mcp.NewTool("nothing"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, nil
		})
		return New(s), func() string {
			if n := registered.Load(); n != 0 {
				return fmt.Sprintf("%d sessions of mcp-go", n)
			}
			return ""
		}
	})
}

// rawTools are the tools that the scripts call.
func rawTools() map[string]handler {
	tools := map[string]handler{
		"ask": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			return elicit(ctx, s, "?")
		},
	}
	for name, run := range rawhttp.Tools {
		tools[name] = func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (string, error) {
			return run(ctx, rawhttp.Sender{
				Progress: func(ctx context.Context, message string) {
					if r.Params.Meta != nil {
						_ = s.SendNotificationToClient(ctx, "notifications/progress", // the client may be gone
							map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": 1, "message": message})
					}
				},
				Log: func(ctx context.Context, message string) {
					_ = s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "l", message)) // likewise
				},
			})
		}
	}
	return tools
}
