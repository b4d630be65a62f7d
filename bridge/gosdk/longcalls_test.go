package gosdk

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/longcalls"
)

// Calls of unchanged tools become tasks.
func TestLongCalls(t *testing.T) {
	if !modernEra(t) {
		return
	}
	longcalls.Run(t, longcalls.SDK{New: longCallServer, Panic: "internal error"})
}

func longCallServer(log *slog.Logger, tools map[string]longcalls.Tool) (rejoin.App, func(string)) {
	s := newServer(&mcp.ServerOptions{Logger: log}, nil)
	for name, run := range tools {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return longCallResult(run(ctx, longCallOf(ctx, req)))
			})
	}
	return New(s), func(name string) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, quick)
	}
}

// longCallOf reads fields that older versions of the SDK do not have.
func longCallOf(ctx context.Context, req *mcp.CallToolRequest) longcalls.Call {
	c := longcalls.Call{
		Progress: func(message string) error { return progress(ctx, req, 1, message) },
		Log: func(text string) error {
			return req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: text})
		},
		Elicit: func() error {
			_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "x", RequestedSchema: colors})
			return err
		},
		State: field(req.Params, "RequestState").String(), Header: req.Extra.Header.Get("X-Number"), Answers: map[string]string{},
	}
	raw, err := json.Marshal(field(req.Params, "InputResponses").Interface())
	if err != nil {
		panic(err)
	}
	var answers map[string]struct{ Content struct{ X string } }
	if err := json.Unmarshal(raw, &answers); err != nil {
		panic(err)
	}
	for key, answer := range answers {
		c.Answers[key] = answer.Content.X
	}
	return c
}

func longCallResult(o longcalls.Outcome) (*mcp.CallToolResult, error) {
	switch {
	case o.Panic != nil:
		panic(o.Panic)
	case o.Fault != nil:
		return nil, &jsonrpc.Error{Code: -32050, Message: o.Fault.Error()}
	case o.Asks == nil && o.State == "":
		res := text("%s", o.Text)
		res.StructuredContent, res.IsError = o.Structured, o.IsError
		return res, nil
	}
	requests := map[string]any{}
	for key, message := range o.Asks {
		requests[key] = map[string]any{"method": "elicitation/create", "params": map[string]any{"message": message, "requestedSchema": colors}}
	}
	raw, err := json.Marshal(requests)
	if err != nil {
		return nil, err
	}
	res := &mcp.CallToolResult{}
	field(res, "RequestState").SetString(o.State)
	return res, json.Unmarshal(raw, field(res, "InputRequests").Addr().Interface())
}
