package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// The tools here are for the suite's scenarios of tasks, and know nothing of tasks. They only take their time, and some ask in the middle. Package
// program says after which time their calls become tasks.

var confirmForm = sample.Form(object{"confirm": object{"type": "boolean"}}, "confirm")

func greet(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name, err := req.RequireString("name")
	if err != nil {
		return failed(err), nil
	}
	return content(text("Hello, " + name + "!")), nil
}

// slowCompute works for as long as it is told to.
func slowCompute(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	seconds, err := req.RequireFloat("seconds")
	if err != nil {
		return failed(err), nil
	}
	if err := sample.Work(ctx, sample.Seconds(seconds)); err != nil {
		return nil, err
	}
	return content(text(fmt.Sprintf("%s is done after %g s.", req.GetString("label", ""), seconds))), nil
}

func failingJob(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return failed(errors.New("this job always fails")), nil
}

// protocolErrorJob ends with a JSON-RPC error.
func protocolErrorJob(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return nil, errors.New("this job always ends with an error of the protocol")
}

// confirmDelete works before it asks.
func confirmDelete(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if _, answered := req.Params.InputResponses["confirm"]; answered {
		return content(text(fmt.Sprintf("Confirmed: %v.", filledIn(req.Params.InputResponses, "confirm")["confirm"]))), nil
	}
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return server.NewInputRequestBuilder("").Elicit("confirm", form("Delete it?", confirmForm)).ToolResult(), nil
}

// multiInput works before it asks two questions at once.
func multiInput(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answers := req.Params.InputResponses
	_, first := answers["first"]
	_, second := answers["second"]
	if first && second {
		return content(text(fmt.Sprintf("%s and %s.", filledInString(answers, "first", "name"), filledInString(answers, "second", "name")))), nil
	}
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return server.NewInputRequestBuilder("").
		Elicit("first", form("What is the first name?", nameForm)).
		Elicit("second", form("What is the second name?", nameForm)).ToolResult(), nil
}

// nameThenWork asks at once, and works when it has the answer.
func nameThenWork(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name := filledInString(req.Params.InputResponses, "user_name", "name")
	if name == "" {
		return server.NewInputRequestBuilder("asked").Elicit("user_name", form("What is your name?", nameForm)).ToolResult(), nil
	}
	if req.Params.RequestState != "asked" {
		return nil, errors.New("requestState is not one of this server")
	}
	if err := sample.Work(ctx, sample.Long); err != nil {
		return nil, err
	}
	return content(text("The work for " + name + " is done.")), nil
}
