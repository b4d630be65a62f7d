package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// The tools here ask in their results, and are called again with the answers (SEP-2322). For clients of older versions mcp-go itself asks,
// and calls the tool again.

type object = map[string]any

// nameForm and the others ask for one value each.
var (
	nameForm    = sample.Form(object{"name": object{"type": "string"}}, "name")
	colorForm   = sample.Form(object{"color": object{"type": "string"}}, "color")
	okForm      = sample.Form(object{"ok": object{"type": "boolean"}}, "ok")
	contextForm = sample.Form(object{"context": object{"type": "string"}}, "context")
)

// filledIn returns what the user filled in; nil if there is no such answer, or the user declined.
func filledIn(answers mcp.InputResponses, key string) object {
	answer := server.ElicitationResponse(answers, key)
	if answer == nil || answer.Action != mcp.ElicitationResponseActionAccept {
		return nil
	}
	fields, _ := answer.Content.(object)
	return fields
}

func filledInString(answers mcp.InputResponses, key, field string) string {
	s, _ := filledIn(answers, key)[field].(string)
	return s
}

func askName(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if name := filledInString(req.Params.InputResponses, "user_name", "name"); name != "" {
		return content(text("Hello, " + name + "!")), nil
	}
	return server.NewInputRequestBuilder("").Elicit("user_name", form("What is your name?", nameForm)).ToolResult(), nil
}

func askModel(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if answer := server.SamplingResponse(req.Params.InputResponses, "capital_question"); answer != nil {
		return content(text("LLM response: " + modelText(answer))), nil
	}
	return server.NewInputRequestBuilder("").Sample("capital_question", question("What is the capital of France?")).ToolResult(), nil
}

func askRoots(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if answer := server.RootsResponse(req.Params.InputResponses, "client_roots"); answer != nil {
		return content(text(fmt.Sprintf("The client has %d roots.", len(answer.Roots)))), nil
	}
	return server.NewInputRequestBuilder("").Roots("client_roots").ToolResult(), nil
}

// askConfirmation returns a state that is easy to guess. It compares the state, and does not trust it.
func askConfirmation(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const state = "waiting-for-confirmation"
	switch {
	case req.Params.RequestState != "" && req.Params.RequestState != state:
		return nil, errors.New("requestState is not one of this server")
	case filledIn(req.Params.InputResponses, "confirm") == nil:
		return server.NewInputRequestBuilder(state).Elicit("confirm", form("Please confirm.", okForm)).ToolResult(), nil
	case req.Params.RequestState == "":
		return nil, errors.New("requestState is missing")
	}
	return content(text("state-ok: the state came back, with a confirmation.")), nil
}

func askAll(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answers := req.Params.InputResponses
	name := filledInString(answers, "user_name", "name")
	greeting := server.SamplingResponse(answers, "greeting")
	roots := server.RootsResponse(answers, "client_roots")
	if name != "" && greeting != nil && roots != nil {
		return content(text(fmt.Sprintf("%s %s, you have %d roots.", modelText(greeting), name, len(roots.Roots)))), nil
	}
	return server.NewInputRequestBuilder("everything").
		Elicit("user_name", form("What is your name?", nameForm)).
		Sample("greeting", question("Write a greeting.")).
		Roots("client_roots").ToolResult(), nil
}

// askTwice keeps the answer of the first round in its state.
func askTwice(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const second = "second:"
	name, isSecond := strings.CutPrefix(req.Params.RequestState, second)
	switch {
	case isSecond:
		color := filledInString(req.Params.InputResponses, "step2", "color")
		return content(text(fmt.Sprintf("%s likes %s.", name, color))), nil
	case req.Params.RequestState != "":
		name = filledInString(req.Params.InputResponses, "step1", "name")
		return server.NewInputRequestBuilder(second+name).Elicit("step2", form("What is your favourite colour?", colorForm)).ToolResult(), nil
	}
	return server.NewInputRequestBuilder("first").Elicit("step1", form("What is your name?", nameForm)).ToolResult(), nil
}

func askCapable(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return content(text("The client answered.")), nil
	}
	c := capabilities(ctx)
	if c.Elicitation == nil && c.Sampling == nil && c.Roots == nil {
		return content(text("The client can be asked for nothing.")), nil
	}
	need := server.NewInputRequestBuilder("")
	if c.Elicitation != nil {
		need.Elicit("user_name", form("What is your name?", nameForm))
	}
	if c.Sampling != nil {
		need.Sample("greeting", question("Write a greeting."))
	}
	if c.Roots != nil {
		need.Roots("client_roots")
	}
	return need.ToolResult(), nil
}

// askContext does the same in a prompt.
func askContext(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	if s := filledInString(req.Params.InputResponses, "user_context", "context"); s != "" {
		return &mcp.GetPromptResult{Messages: user(text("Context: " + s))}, nil
	}
	return server.NewInputRequestBuilder("").Elicit("user_context", form("What is it about?", contextForm)).PromptResult(), nil
}
