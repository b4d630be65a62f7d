package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Nothing in this file uses rejoin: it is the server as it was before.

func newServer() *server.MCPServer {
	s := server.NewMCPServer("library", "1.0.0", server.WithToolCapabilities(false), server.WithElicitation())
	s.AddTool(mcp.NewTool("count_words", mcp.WithDescription("Counts the words of a text."),
		mcp.WithString("text", mcp.Required(), mcp.Description("what to count the words of"))), countWords)
	s.AddTool(mcp.NewTool("reindex", mcp.WithDescription("Reads every book again, and reports progress."),
		mcp.WithNumber("seconds", mcp.Required(), mcp.Description("how long it takes"))), reindex)
	s.AddTool(mcp.NewTool("forget", mcp.WithDescription("Throws the index away, after asking.")), forget)
	return s
}

func countWords(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := request.RequireString("text")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText(fmt.Sprintf("%d words", len(strings.Fields(text)))), nil
}

// reindex is the slow tool.
func reindex(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := work(ctx, request, nil); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText("4 shelves indexed"), nil
}

func forget(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer, err := server.ServerFromContext(ctx).RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
		Message:         "Throw the whole index away?",
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	}})
	if err != nil {
		return nil, err
	}
	if answer.Action != mcp.ElicitationResponseActionAccept {
		return mcp.NewToolResultText("kept"), nil
	}
	return mcp.NewToolResultText("thrown away"), nil
}

// work stands for slow work: four steps, with a progress notification before each. after, if not nil, is called after each notification.
func work(ctx context.Context, request mcp.CallToolRequest, after func(step int)) error {
	const steps = 4
	seconds, err := request.RequireFloat("seconds")
	if err != nil {
		return err
	}
	for step := range steps {
		if meta := request.Params.Meta; meta != nil && meta.ProgressToken != nil {
			err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": meta.ProgressToken, "progress": step, "total": steps,
			})
			if err != nil {
				return err
			}
		}
		if after != nil {
			after(step)
		}
		select {
		case <-time.After(time.Duration(seconds / steps * float64(time.Second))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
