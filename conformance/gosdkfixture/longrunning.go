package main

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// withProgress reports progress if the client sent a token.
func withProgress(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return content(text("There was no token to report progress with.")), nil
	}
	for _, done := range []float64{0, 50, 100} {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100})
		if err != nil {
			return nil, err
		}
		if err := sample.Work(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return content(text("Progress was reported three times.")), nil
}

func withLogging(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, message := range []string{"The tool started.", "The tool is working.", "The tool is done."} {
		if err := info(ctx, req, message); err != nil {
			return nil, err
		}
		if err := sample.Work(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return content(text("Three messages were logged.")), nil
}

// logging logs once. The SDK must not send that to a client that has not asked for logs.
func logging(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := info(ctx, req, "The tool was called."); err != nil {
		return nil, err
	}
	return content(text("One message was logged, for those who asked for it.")), nil
}

func info(ctx context.Context, req *mcp.CallToolRequest, message string) error {
	return req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: req.Params.Name, Data: message})
}

// reconnection closes its stream at once (SEP-1699). The answer is ready at about the time when the client polls: a client that polls too
// early waits for it, one that polls in time finds it in the log.
func reconnection(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Extra != nil && req.Extra.CloseSSEStream != nil { // this client can poll
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{})
	}
	if err := sample.Work(ctx, 100*time.Millisecond); err != nil {
		return nil, err
	}
	return content(text("The stream was closed, and the client came back.")), nil
}
