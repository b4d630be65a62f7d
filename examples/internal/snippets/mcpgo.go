package snippets

import (
	"context"
	"errors"
	"log"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
)

// MCPGo mounts a server of mcp-go.
func MCPGo(mux *http.ServeMux, mcpServer *server.MCPServer) {
	srv, err := rejoin.NewServer(mcpgo.New(mcpServer), rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}})
	if err != nil {
		log.Fatal(err)
	}
	stdadapter.Register(mux, "/mcp", srv)
}

// MCPGoTool adds a tool that disconnects its client itself.
func MCPGoTool(mcpServer *server.MCPServer, write func(context.Context, int) error) {
	mcpServer.AddTool(mcp.NewTool("export", mcp.WithNumber("rows")), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // an error means only that this client stays connected
		if err := write(ctx, request.GetInt("rows", 0)); err != nil {
			return mcp.NewToolResultErrorFromErr("export", err), nil
		}
		return mcp.NewToolResultText("exported"), nil
	})
}

// MCPGoBefore is the same with mcp-go's own handler.
func MCPGoBefore(mcpServer *server.MCPServer) http.Handler {
	handler := server.NewStreamableHTTPServer(mcpServer)
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return mux
}

// MCPGoHooks forgets a session when it has really ended, and not when it has moved to another process.
func MCPGoHooks(hooks *server.Hooks, forget func(session string)) {
	hooks.AddOnUnregisterSession(func(ctx context.Context, session server.ClientSession) {
		if errors.Is(mcpgo.Cause(ctx), rejoin.ErrMoved) {
			return // the process that has adopted it uses what belongs to it
		}
		forget(session.SessionID())
	})
}
