package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// The tools here ask in their results, and are called again with the answers (SEP-2322). For clients of older versions the SDK itself asks,
// and calls the tool again.

type object = map[string]any

// nameForm and the others ask for one value each.
var (
	nameForm    = sample.Form(object{"name": object{"type": "string"}}, "name")
	colorForm   = sample.Form(object{"color": object{"type": "string"}}, "color")
	okForm      = sample.Form(object{"ok": object{"type": "boolean"}}, "ok")
	contextForm = sample.Form(object{"context": object{"type": "string"}}, "context")
)

func form(message string, schema object) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: schema}
}

// need is the result of a tool that needs answers to go on.
func need(state string, requests mcp.InputRequestMap) *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: requests, RequestState: state}
}

// filledIn returns what the user filled in; nil if there is no such answer, or the user declined.
func filledIn(answers mcp.InputResponseMap, key string) object {
	if answer, ok := answers[key].(*mcp.ElicitResult); ok && answer.Action == "accept" {
		return answer.Content
	}
	return nil
}

func filledInString(answers mcp.InputResponseMap, key, field string) string {
	s, _ := filledIn(answers, key)[field].(string)
	return s
}

// modelText returns the answer of the client's model.
func modelText(answers mcp.InputResponseMap, key string) (string, bool) {
	answer, ok := answers[key].(*mcp.CreateMessageWithToolsResult)
	if !ok {
		return "", false
	}
	for _, c := range answer.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text, true
		}
	}
	return "", true
}

func roots(answers mcp.InputResponseMap, key string) (n int, ok bool) {
	answer, ok := answers[key].(*mcp.ListRootsResult)
	if !ok {
		return 0, false
	}
	return len(answer.Roots), true
}

func rootsRequest() mcp.InputRequest { return &mcp.ListRootsParams{} }

func askName(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if name := filledInString(req.Params.InputResponses, "user_name", "name"); name != "" {
		return content(text("Hello, " + name + "!")), nil
	}
	return need("", mcp.InputRequestMap{"user_name": form("What is your name?", nameForm)}), nil
}

func askModel(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if answer, ok := modelText(req.Params.InputResponses, "capital_question"); ok {
		return content(text("LLM response: " + answer)), nil
	}
	return need("", mcp.InputRequestMap{"capital_question": question("What is the capital of France?")}), nil
}

func askRoots(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if n, ok := roots(req.Params.InputResponses, "client_roots"); ok {
		return content(text(fmt.Sprintf("The client has %d roots.", n))), nil
	}
	return need("", mcp.InputRequestMap{"client_roots": rootsRequest()}), nil
}

// askConfirmation returns a state that is easy to guess. It compares the state, and does not trust it.
func askConfirmation(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const state = "waiting-for-confirmation"
	switch {
	case req.Params.RequestState != "" && req.Params.RequestState != state:
		return nil, invalid("requestState is not one of this server")
	case filledIn(req.Params.InputResponses, "confirm") == nil:
		return need(state, mcp.InputRequestMap{"confirm": form("Please confirm.", okForm)}), nil
	case req.Params.RequestState == "":
		return nil, invalid("requestState is missing")
	}
	return content(text("state-ok: the state came back, with a confirmation.")), nil
}

func askAll(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answers := req.Params.InputResponses
	name := filledInString(answers, "user_name", "name")
	greeting, greeted := modelText(answers, "greeting")
	n, rooted := roots(answers, "client_roots")
	if name != "" && greeted && rooted {
		return content(text(fmt.Sprintf("%s %s, you have %d roots.", greeting, name, n))), nil
	}
	return need("everything", mcp.InputRequestMap{
		"user_name":    form("What is your name?", nameForm),
		"greeting":     question("Write a greeting."),
		"client_roots": rootsRequest(),
	}), nil
}

// askTwice keeps the answer of the first round in its state.
func askTwice(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const second = "second:"
	name, isSecond := strings.CutPrefix(req.Params.RequestState, second)
	switch {
	case isSecond:
		color := filledInString(req.Params.InputResponses, "step2", "color")
		return content(text(fmt.Sprintf("%s likes %s.", name, color))), nil
	case req.Params.RequestState != "":
		name = filledInString(req.Params.InputResponses, "step1", "name")
		return need(second+name, mcp.InputRequestMap{"step2": form("What is your favourite colour?", colorForm)}), nil
	}
	return need("first", mcp.InputRequestMap{"step1": form("What is your name?", nameForm)}), nil
}

func askCapable(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return content(text("The client answered.")), nil
	}
	requests := mcp.InputRequestMap{}
	if c := req.ClientCapabilities(); c != nil {
		if c.Elicitation != nil {
			requests["user_name"] = form("What is your name?", nameForm)
		}
		if c.Sampling != nil {
			requests["greeting"] = question("Write a greeting.")
		}
		if c.RootsV2 != nil {
			requests["client_roots"] = rootsRequest()
		}
	}
	if len(requests) == 0 {
		return content(text("The client can be asked for nothing.")), nil
	}
	return need("", requests), nil
}

// askContext does the same in a prompt.
func askContext(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	if s := filledInString(req.Params.InputResponses, "user_context", "context"); s != "" {
		return &mcp.GetPromptResult{Messages: user(text("Context: " + s))}, nil
	}
	return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": form("What is it about?", contextForm)}}, nil
}
