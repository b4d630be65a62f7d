package rejoin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Tool is one tool of a NewToolApp.
type Tool struct {
	Name        string // unique in its app
	Title       string // for people; may be empty
	Description string // for the model
	// InputSchema is the JSON Schema of the arguments: an object whose "type" is "object". Nil: arguments of any kind. It is for the
	// client to read; Run checks what it gets.
	InputSchema json.RawMessage
	// Run does the work, as a Handler of tools/call. A nil result is one without content.
	Run Handler
}

// NewToolApp makes an app of tools: it announces them, answers tools/list and tools/call, and what NewApp answers. Any other method,
// and an unknown tool, is refused. Two tools of one name, and a tool without a name or Run, are errors of NewServer.
func NewToolApp(info Info, tools ...Tool) App {
	a := &handlerApp{info: info}
	a.info.Capabilities = map[string]any{"tools": struct{}{}}
	maps.Copy(a.info.Capabilities, info.Capabilities)
	type listed struct {
		Name        string          `json:"name"`
		Title       string          `json:"title,omitempty"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	list := struct {
		Tools []listed `json:"tools"`
	}{[]listed{}}
	run := make(map[string]Handler, len(tools))
	for _, t := range tools {
		switch {
		case t.Name == "":
			a.faultf("a tool has no name")
		case t.Run == nil:
			a.faultf("tool %q: Run is nil", t.Name)
		case run[t.Name] != nil:
			a.faultf("tool %q is there twice", t.Name)
		}
		if t.InputSchema == nil {
			t.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		var schema struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(t.InputSchema, &schema); err != nil || schema.Type != "object" {
			a.faultf(`tool %q: InputSchema is no JSON object whose "type" is "object"`, t.Name)
			continue
		}
		run[t.Name] = t.Run
		list.Tools = append(list.Tools, listed{t.Name, t.Title, t.Description, t.InputSchema})
	}
	all, err := json.Marshal(list)
	if err != nil {
		a.faultf("tools: %w", err)
	}
	a.handler = func(ctx context.Context, r *Request) (any, error) {
		switch r.Method {
		case "tools/list":
			return json.RawMessage(all), nil
		case "tools/call":
			return callTool(ctx, r, run[r.Name()])
		}
		return nil, nil //nolint:nilnil // as Handler has it: there is no such method
	}
	return a
}

// callTool runs a tool. Here a nil result does not say that the method is unknown.
func callTool(ctx context.Context, r *Request, run Handler) (any, error) {
	if run == nil {
		return nil, Errorf(CodeInvalidParams, "unknown tool %q", r.Name())
	}
	result, err := run(ctx, r)
	if err == nil && result == nil {
		result = json.RawMessage(`{"content":[]}`)
	}
	return result, err
}

// Text is the result of a tool that answers with a text.
func Text(text string) json.RawMessage { return textResult(text, "") }

// ToolError is the result of a tool that failed: the model reads err's text, of an *Error its Message, and may try again. An *Error that is
// returned as an error is for the client's program instead: there is no such tool, for example.
func ToolError(err error) json.RawMessage {
	text := "the tool failed"
	e, own := errors.AsType[*Error](err)
	switch {
	case own && e != nil:
		text = e.Message
	case err != nil && !own:
		text = err.Error()
	}
	return textResult(text, `,"isError":true`)
}

func textResult(text, rest string) json.RawMessage {
	const head, foot = `{"content":[{"type":"text","text":`, `}]`
	b := make([]byte, 0, len(head)+len(text)+2+len(foot)+len(rest)+1)
	b = append(jsonrpc.AppendString(append(b, head...), text), foot...)
	return append(append(b, rest...), '}')
}

// answer is what a handler returned as the method's result.
func (s *handlerSession) answer(c *Call, result any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	tool := c.Method() == "tools/call"
	if text, ok := result.(string); ok && tool {
		return Text(text), nil
	}
	raw, err := marshalResult(result)
	switch {
	case err != nil:
		return nil, err
	case len(raw) == 0 || string(raw) == "null":
		return emptyResult(c.Method())
	}
	if _, asItIs := result.(json.RawMessage); tool && !asItIs && raw[0] != '{' {
		return Text(string(raw)), nil
	}
	return raw, nil
}

// emptyResult answers for a handler that returned nothing.
func emptyResult(method string) (json.RawMessage, error) {
	switch method {
	case "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return json.RawMessage("{}"), nil
	}
	return nil, Errorf(CodeMethodNotFound, "unknown method %q", method)
}

// faultf notes what is wrong with an app, for NewServer to tell.
func (a *handlerApp) faultf(format string, args ...any) {
	a.faults = append(a.faults, fmt.Errorf(format, args...))
}
