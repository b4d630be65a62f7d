package conformance_test

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
)

// mcpGo is mcp-go.
var mcpGo = sdk{
	bridge: func(w work) rejoin.App { return mcpgo.New(mcpGoServer(w)) },
	own: func(w work, store bool) (http.Handler, func()) {
		options := []server.StreamableHTTPOption{
			server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)),
		}
		if store {
			options = append(options, server.WithEventStore(server.NewInMemoryEventStore()))
		}
		h := server.NewStreamableHTTPServer(mcpGoServer(w), options...)
		return h, func() { _ = h.Shutdown(context.Background()) }
	},
}

func mcpGoServer(w work) *server.MCPServer {
	s := server.NewMCPServer("test", "1")
	s.AddTool(mcp.NewTool("work"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		params := func(message string) map[string]any {
			return map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": 1, "message": message}
		}
		return mcp.NewToolResultText(w(desk{
			ctx:    ctx,
			header: r.Header,
			token:  auth.TokenInfoFromContext(ctx), // it is a value like any other here
			progress: func(message string) error {
				return s.SendNotificationToClient(ctx, "notifications/progress", params(message))
			},
			broadcast: func(message string) { s.SendNotificationToAllClients("notifications/progress", params(message)) },
			letGo:     func(after time.Duration) string { return letGo(ctx, after) },
		})), nil
	})
	return s
}
