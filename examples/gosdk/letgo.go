package main

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// addLetGo adds two tools that disconnect their client themselves, at a better time than a timer would. Other tools need not do that.
func addLetGo(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "export", Description: "Lets its client go at once, and works on."}, export)
	mcp.AddTool(s, &mcp.Tool{Name: "archive", Description: "Does the same in the SDK's words."}, archive)
}

// export uses rejoin's handle, which any function can get from the context.
func export(ctx context.Context, req *mcp.CallToolRequest, in slowArgs) (*mcp.CallToolResult, any, error) {
	err := work(ctx, req, in.Seconds, func(step int) {
		if step == 0 {
			_ = rejoin.HandleFromContext(ctx).CloseStream(0) // an error means only that this client stays connected
		}
	})
	return text("exported"), nil, err
}

// archive uses the SDK's own function, as a tool for the SDK's own handler does: rejoin sets CloseSSEStream if the client can poll.
func archive(ctx context.Context, req *mcp.CallToolRequest, in slowArgs) (*mcp.CallToolResult, any, error) {
	err := work(ctx, req, in.Seconds, func(step int) {
		if step == 0 && req.Extra != nil && req.Extra.CloseSSEStream != nil {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{})
		}
	})
	return text("archived"), nil, err
}
