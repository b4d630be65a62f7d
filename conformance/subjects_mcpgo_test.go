package conformance_test

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/mcpgo"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// bridgedMCPGo is a server of mcp-go with the tools, behind its bridge.
func bridgedMCPGo(list tools) rejoin.App {
	s := server.NewMCPServer("interop", "1", server.WithToolCapabilities(true), server.WithElicitation(), server.WithLogging())
	add := func(name string, h server.ToolHandlerFunc) { s.AddTool(mcp.NewTool(name), h) }
	for name, run := range list {
		add(name, func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args, err := json.Marshal(r.GetRawArguments())
			if err != nil {
				return nil, err
			}
			answer, err := run(ctx, sdkHand{ctx, func(done, total float64, message string) error {
				if r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
					return nil
				}
				return s.SendNotificationToClient(ctx, "notifications/progress",
					map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": done, "total": total, "message": message})
			}, func(ctx context.Context, message string, schema any) (any, error) {
				return s.RequestElicitation(ctx, mcp.ElicitationRequest{
					Params: mcp.ElicitationParams{Message: message, RequestedSchema: schema},
				})
			}}, args)
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText(answer), nil
		})
	}
	add(grow, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("grown", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("done"), nil
		})
		return mcp.NewToolResultText("done"), nil
	})
	add(who, func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := server.InputResponse(r.Params.InputResponses, "name")
		if !ok {
			return server.NewInputRequestBuilder("").
				Elicit("name", mcp.ElicitationParams{Message: whoAsks, RequestedSchema: whoSchema}).ToolResult(), nil
		}
		if err := answer.DecodeFor(mcp.MethodElicitationCreate); err != nil {
			return nil, err
		}
		content, _ := answer.Elicitation.Content.(map[string]any)
		name, _ := content["name"].(string)
		return mcp.NewToolResultText(string(answer.Elicitation.Action) + " " + name), nil
	})
	add(twice, func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := sample.Work(ctx, beforeAsking); err != nil {
			return nil, err
		}
		state := r.Params.RequestState + "."
		if state == "..." {
			return mcp.NewToolResultText("done"), nil
		}
		return server.NewInputRequestBuilder(state).
			Elicit("name", mcp.ElicitationParams{Message: whoAsks, RequestedSchema: whoSchema}).ToolResult(), nil
	})
	return mcpgo.New(s)
}
