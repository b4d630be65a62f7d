package rejoin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Tool is one tool of an app that NewToolApp makes.
type Tool struct {
	Name        string // unique in its app
	Title       string // for people; "": none
	Description string // for the model
	// InputSchema is the JSON Schema of the arguments, a JSON object whose "type" is "object". It is sent to the client, but arguments are not
	// checked against it: Run must do that. Only the header fields that an x-mcp-header in it names are compared with their arguments, in the
	// modern era. Defaults to {"type":"object"}, which allows any arguments.
	InputSchema json.RawMessage
	// Run handles the calls of the tool, as a Handler for tools/call. A nil result is sent as a result without content.
	Run Handler
}

// NewToolApp makes an app from tools, as NewApp does. It announces them and answers tools/list, tools/call, initialize and ping. It refuses any other method,
// and calls of unknown tools. NewServer returns an error if two tools have the same name, or a tool has no name, no Run or an invalid
// InputSchema.
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
	run := make(map[string]runnable, len(tools))
	for _, t := range tools {
		switch {
		case t.Name == "":
			a.faultf("a tool has no name")
		case t.Run == nil:
			a.faultf("tool %q: Run is nil", t.Name)
		case run[t.Name].handler != nil:
			a.faultf("tool %q is listed twice", t.Name)
		}
		if t.InputSchema == nil {
			t.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		var schema struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(t.InputSchema, &schema); err != nil || schema.Type != "object" {
			a.faultf(`tool %q: InputSchema is not a JSON object whose "type" is "object"`, t.Name)
			continue
		}
		headers, err := door.ParamHeaders(t.InputSchema)
		if err != nil {
			a.faultf("tool %q: InputSchema: %w", t.Name, err)
		}
		run[t.Name] = runnable{t.Run, headers}
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
		return nil, nil //nolint:nilnil // by the rules of Handler: the method is unknown
	}
	return a
}

// runnable is what a call of a tool needs.
type runnable struct {
	handler Handler // nil: there is no such tool
	headers []door.ParamHeader
}

// callTool runs a tool. A nil result becomes a result without content, because the method is known.
func callTool(ctx context.Context, r *Request, run runnable) (any, error) {
	if run.handler == nil {
		return nil, Errorf(CodeInvalidParams, "unknown tool %q", r.Name())
	}
	if len(run.headers) > 0 && HandleFromContext(ctx).modern != nil {
		arguments, _ := jsonrpc.Field(r.Params, "arguments")
		for _, h := range run.headers {
			if fault := h.Fault(r.Header, arguments); fault != "" {
				return nil, Errorf(codeHeader, "%s", fault)
			}
		}
	}
	result, err := run.handler(ctx, r)
	if err == nil && result == nil {
		result = json.RawMessage(`{"content":[]}`)
	}
	return result, err
}

// Text returns the result of a tool that answers with a text.
func Text(text string) json.RawMessage { return textResult(text, "") }

// ToolError returns the result of a tool that failed. The model reads the text of err, or Message if err is an *Error, and may try again. An
// *Error that a tool returns as its error is not for the model, but for the client's program: for example, that there is no such tool.
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

// resultOf turns what a handler returned into the result of the method, or into an error.
func resultOf(method string, result any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	tool := method == "tools/call"
	if text, ok := result.(string); ok && tool {
		return Text(text), nil
	}
	raw, err := marshalResult(result)
	switch {
	case err != nil:
		return nil, err
	case len(raw) == 0 || string(raw) == "null":
		return emptyResult(method)
	}
	if _, asItIs := result.(json.RawMessage); tool && !asItIs && raw[0] != '{' {
		return Text(string(raw)), nil
	}
	return raw, nil
}

// emptyResult returns the result for a handler that returned nil.
func emptyResult(method string) (json.RawMessage, error) {
	switch method {
	case "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return json.RawMessage("{}"), nil
	}
	return nil, Errorf(CodeMethodNotFound, "unknown method %q", method)
}

// faultf adds a mistake of the app, for NewServer to return.
func (a *handlerApp) faultf(format string, args ...any) {
	a.faults = append(a.faults, fmt.Errorf(format, args...))
}
