package main

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// withProgress reports progress if the client sent a token.
func (f *fixture) withProgress(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return content(text("There was no token to report progress with.")), nil
	}
	for _, done := range []float64{0, 50, 100} {
		err := f.s.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), object{
			"progressToken": req.Params.Meta.ProgressToken, "progress": done, "total": 100,
		})
		if err != nil {
			return nil, err
		}
		if err := sample.Work(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return content(text("Progress was reported three times.")), nil
}

func (f *fixture) withLogging(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, message := range []string{"The tool started.", "The tool is working.", "The tool is done."} {
		if err := f.info(ctx, req, message); err != nil {
			return nil, err
		}
		if err := sample.Work(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return content(text("Three messages were logged.")), nil
}

// logging logs once. mcp-go must not send that to a client that has not asked for logs.
func (f *fixture) logging(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := f.info(ctx, req, "The tool was called."); err != nil {
		return nil, err
	}
	return content(text("One message was logged, for those who asked for it.")), nil
}

func (f *fixture) info(ctx context.Context, req mcp.CallToolRequest, message string) error {
	return f.s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, req.Params.Name, message))
}

// reconnection closes its stream at once (SEP-1699). The answer is ready at about the time when the client polls: a client that polls too
// early waits for it, one that polls in time finds it in the log.
func reconnection(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	_ = rejoin.HandleFromContext(ctx).CloseStream(0) // a client that cannot poll keeps its connection
	if err := sample.Work(ctx, 100*time.Millisecond); err != nil {
		return nil, err
	}
	return content(text("The stream was closed, and the client came back.")), nil
}
