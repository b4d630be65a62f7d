package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// The tools here are for the suite's scenarios of tasks, and know nothing of tasks. They only take their time, and some ask in the middle. Package
// program says after which time their calls become tasks.

var confirmForm = sample.Form(object{"confirm": object{"type": "boolean"}}, "confirm")

func greet(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name, err := stringArgument(req, "name")
	if err != nil {
		return nil, err
	}
	return content(text("Hello, " + name + "!")), nil
}

// slowCompute works for as long as it is told to.
func slowCompute(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Seconds float64 `json:"seconds"`
		Label   string  `json:"label"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, invalid("arguments: " + err.Error())
	}
	if err := sample.Work(ctx, sample.Seconds(in.Seconds)); err != nil {
		return nil, err
	}
	return content(text(fmt.Sprintf("%s is done after %g s.", in.Label, in.Seconds))), nil
}

func failingJob(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return failed(errors.New("this job always fails")), nil
}

// protocolErrorJob ends with a JSON-RPC error.
func protocolErrorJob(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "this job always ends with an error of the protocol"}
}

// confirmDelete works before it asks.
func confirmDelete(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if _, answered := req.Params.InputResponses["confirm"]; answered {
		return content(text(fmt.Sprintf("Confirmed: %v.", filledIn(req.Params.InputResponses, "confirm")["confirm"]))), nil
	}
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return need("", mcp.InputRequestMap{"confirm": form("Delete it?", confirmForm)}), nil
}

// multiInput works before it asks two questions at once.
func multiInput(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answers := req.Params.InputResponses
	_, first := answers["first"]
	_, second := answers["second"]
	if first && second {
		return content(text(fmt.Sprintf("%s and %s.", filledInString(answers, "first", "name"), filledInString(answers, "second", "name")))), nil
	}
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return need("", mcp.InputRequestMap{
		"first":  form("What is the first name?", nameForm),
		"second": form("What is the second name?", nameForm),
	}), nil
}

// nameThenWork asks at once, and works when it has the answer.
func nameThenWork(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name := filledInString(req.Params.InputResponses, "user_name", "name")
	if name == "" {
		return need("asked", mcp.InputRequestMap{"user_name": form("What is your name?", nameForm)}), nil
	}
	if req.Params.RequestState != "asked" {
		return nil, invalid("requestState is not one of this server")
	}
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return content(text("The work for " + name + " is done.")), nil
}
