package main

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
)

// addLetGo adds a tool that disconnects its client itself, at a better time than a timer would. Other tools need not do that.
func addLetGo(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("export", mcp.WithDescription("Lets its client go at once, and works on."),
		mcp.WithNumber("seconds", mcp.Required(), mcp.Description("how long it takes"))), export)
}

// export uses rejoin's handle, which any function can get from the context.
func export(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	err := work(ctx, request, func(step int) {
		if step == 0 {
			_ = rejoin.HandleFromContext(ctx).CloseStream(0) // an error means only that this client stays connected
		}
	})
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultText("exported"), nil
}
