package main

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
)

// addLetGo adds a tool that knows better than a timer when its client may go. No other tool needs to.
func addLetGo(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("export", mcp.WithDescription("Lets its client go at once, and works on."),
		mcp.WithNumber("seconds", mcp.Required(), mcp.Description("how long it takes"))), export)
}

// export lets go through rejoin, which works at any depth that has the context.
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
