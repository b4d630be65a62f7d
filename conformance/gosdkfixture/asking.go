package main

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

func sampling(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	prompt, err := stringArgument(req, "prompt")
	if err != nil {
		return nil, err
	}
	answer, err := req.Session.CreateMessage(ctx, question(prompt))
	if err != nil {
		return failed(err), nil
	}
	if t, ok := answer.Content.(*mcp.TextContent); ok {
		return content(text("LLM response: " + t.Text)), nil
	}
	return content(text(fmt.Sprintf("LLM response that is no text: %T", answer.Content))), nil
}

// question is a question to the client's model.
func question(prompt string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: text(prompt)}},
		MaxTokens: 100,
	}
}

// elicit asks the user to fill in a form.
func elicit(ctx context.Context, req *mcp.CallToolRequest, message string, form any) (*mcp.CallToolResult, error) {
	answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: form})
	if err != nil {
		return failed(err), nil
	}
	return content(text(fmt.Sprintf("User response: %s %v", answer.Action, answer.Content))), nil
}

func elicitation(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	message, err := stringArgument(req, "message")
	if err != nil {
		return nil, err
	}
	return elicit(ctx, req, message, sample.Contact)
}

func elicitDefaults(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return elicit(ctx, req, "Please look over these values.", sample.Defaults)
}

func elicitEnums(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return elicit(ctx, req, "Please choose.", sample.Enums)
}

// missingCapability fails as version 2026-07-28 requires if the client does not support sampling.
func missingCapability(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if c := req.ClientCapabilities(); c != nil && c.Sampling != nil {
		return content(text("The client can sample.")), nil
	}
	return nil, &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: "the client cannot sample",
		Data:    []byte(`{"requiredCapabilities":{"sampling":{}}}`),
	}
}
