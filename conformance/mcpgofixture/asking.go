package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

func (f *fixture) sampling(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	prompt, err := req.RequireString("prompt")
	if err != nil {
		return failed(err), nil
	}
	answer, err := f.s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: question(prompt)})
	if err != nil {
		return failed(err), nil
	}
	return content(text("LLM response: " + modelText(answer))), nil
}

// question is a question to the client's model.
func question(prompt string) mcp.CreateMessageParams {
	return mcp.CreateMessageParams{
		Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: text(prompt)}},
		MaxTokens: 100,
	}
}

// modelText returns the answer of the client's model, in any of the types to which mcp-go decodes it.
func modelText(answer *mcp.CreateMessageResult) string {
	var block struct {
		Text string `json:"text"`
	}
	data, err := json.Marshal(answer.Content)
	if err != nil {
		return err.Error()
	}
	if err := json.Unmarshal(data, &block); err != nil {
		return err.Error()
	}
	return block.Text
}

// elicit asks the user to fill in a form.
func (f *fixture) elicit(ctx context.Context, message string, schema any) (*mcp.CallToolResult, error) {
	answer, err := f.s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form(message, schema)})
	if err != nil {
		return failed(err), nil
	}
	return content(text(fmt.Sprintf("User response: %s %v", answer.Action, answer.Content))), nil
}

func form(message string, schema any) mcp.ElicitationParams {
	return mcp.ElicitationParams{Message: message, RequestedSchema: schema}
}

func (f *fixture) elicitation(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	message, err := req.RequireString("message")
	if err != nil {
		return failed(err), nil
	}
	return f.elicit(ctx, message, sample.Contact)
}

func (f *fixture) elicitDefaults(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return f.elicit(ctx, "Please look over these values.", sample.Defaults)
}

func (f *fixture) elicitEnums(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return f.elicit(ctx, "Please choose.", sample.Enums)
}

// capabilities returns the client's capabilities, in both eras.
func capabilities(ctx context.Context) mcp.ClientCapabilities {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientCapabilities != nil {
		return *info.ClientCapabilities
	}
	if session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		return session.GetClientCapabilities()
	}
	return mcp.ClientCapabilities{}
}

// missingCapability fails as version 2026-07-28 requires if the client does not support sampling, as far as mcp-go allows.
func missingCapability(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if capabilities(ctx).Sampling == nil {
		return nil, mcp.MissingRequiredClientCapabilityError{Capability: "sampling"}
	}
	return content(text("The client can sample.")), nil
}
