package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Nothing in this file uses rejoin: it is the server as it was before.

type countArgs struct {
	Text string `json:"text" jsonschema:"what to count the words of"`
}

type slowArgs struct {
	Seconds float64 `json:"seconds" jsonschema:"how long it takes"`
}

type none struct{}

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "count_words", Description: "Counts the words of a text."}, countWords)
	mcp.AddTool(s, &mcp.Tool{Name: "reindex", Description: "Reads every book again, and reports progress."}, reindex)
	mcp.AddTool(s, &mcp.Tool{Name: "forget", Description: "Throws the index away, after asking."}, forget)
	return s
}

func countWords(_ context.Context, _ *mcp.CallToolRequest, in countArgs) (*mcp.CallToolResult, any, error) {
	return text("%d words", len(strings.Fields(in.Text))), nil, nil
}

// reindex is the slow tool.
func reindex(ctx context.Context, req *mcp.CallToolRequest, in slowArgs) (*mcp.CallToolResult, any, error) {
	if err := work(ctx, req, in.Seconds, nil); err != nil {
		return nil, nil, err
	}
	return text("4 shelves indexed"), nil, nil
}

func forget(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
	answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
		Message:         "Throw the whole index away?",
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	})
	if err != nil {
		return nil, nil, err
	}
	if answer.Action != "accept" {
		return text("kept"), nil, nil
	}
	return text("thrown away"), nil, nil
}

// work stands for slow work: four steps, with a progress notification before each. after, if not nil, is called after each notification.
func work(ctx context.Context, req *mcp.CallToolRequest, seconds float64, after func(step int)) error {
	const steps = 4
	for step := range steps {
		if token := req.Params.GetProgressToken(); token != nil {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(step), Total: steps,
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

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}
