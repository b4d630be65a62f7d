package conformance_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// hand is what a tool uses of its call: rejoin's handle, or in a bridged server what the SDK offers, and rejoin's handle for the rest.
type hand interface {
	Progress(done, total float64, message string) error
	Notify(method string, params any) error
	Ask(ctx context.Context, method string, params, result any) error
	CloseStream(retryAfter time.Duration) error
	CloseStandaloneStream(retryAfter time.Duration) error
	WaitConnected(ctx context.Context) error
	Resumable() bool
	Session() *rejoin.Session
}

// sdkHand reports progress and asks with its SDK. It gets the handle from the context each time, as a tool does that was not written for rejoin.
type sdkHand struct {
	ctx      context.Context
	progress func(done, total float64, message string) error
	elicit   func(ctx context.Context, message string, schema any) (any, error)
}

func (h sdkHand) handle() *rejoin.Handle { return rejoin.HandleFromContext(h.ctx) }

func (h sdkHand) Progress(done, total float64, message string) error {
	return h.progress(done, total, message)
}
func (h sdkHand) Notify(method string, params any) error { return h.handle().Notify(method, params) }
func (h sdkHand) CloseStream(d time.Duration) error      { return h.handle().CloseStream(d) }
func (h sdkHand) CloseStandaloneStream(d time.Duration) error {
	return h.handle().CloseStandaloneStream(d)
}
func (h sdkHand) WaitConnected(ctx context.Context) error { return h.handle().WaitConnected(ctx) }
func (h sdkHand) Resumable() bool                         { return h.handle().Resumable() }
func (h sdkHand) Session() *rejoin.Session                { return h.handle().Session() }

// Ask asks the user, and ignores the method.
func (h sdkHand) Ask(ctx context.Context, _ string, params, result any) error {
	question := params.(map[string]any)
	answer, err := h.elicit(ctx, question["message"].(string), question["requestedSchema"])
	if err != nil {
		return err
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// Both servers have three more tools. "grow" adds a tool, and the SDK notifies all clients. "who" asks the user in its result, as the modern era
// does; both SDKs translate that for older clients. "twice" asks like that two times, with the same key, after some work.
const (
	grow, who, twice = "grow", "who", "twice"
	whoAsks          = "Who are you?"
)

// beforeAsking is how long "twice" works before each question, and at its end.
const beforeAsking = 500 * time.Millisecond

var whoSchema = map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}

// bridgedGoSDK is a server of the official Go SDK with the tools, behind its bridge.
func bridgedGoSDK(list tools) rejoin.App {
	s := mcp.NewServer(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	add := func(name string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, h)
	}
	text := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	for name, run := range list {
		add(name, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, err := run(ctx, sdkHand{ctx, func(done, total float64, message string) error {
				if r.Params.GetProgressToken() == nil {
					return nil
				}
				return r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: r.Params.GetProgressToken(), Progress: done, Total: total, Message: message,
				})
			}, func(ctx context.Context, message string, schema any) (any, error) {
				return r.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: schema})
			}}, r.Params.Arguments)
			if err != nil {
				return nil, err
			}
			return text(answer), nil
		})
	}
	add(grow, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("grown", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("done"), nil })
		return text("done"), nil
	})
	add(who, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := r.Params.InputResponses["name"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
				"name": &mcp.ElicitParams{Message: whoAsks, RequestedSchema: whoSchema},
			}}, nil
		}
		name, _ := answer.Content["name"].(string)
		return text(answer.Action + " " + name), nil
	})
	add(twice, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := sample.Work(ctx, beforeAsking); err != nil {
			return nil, err
		}
		state := r.Params.RequestState + "."
		if state == "..." {
			return text("done"), nil
		}
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{
			"name": &mcp.ElicitParams{Message: whoAsks, RequestedSchema: whoSchema},
		}}, nil
	})
	return gosdk.New(s)
}
