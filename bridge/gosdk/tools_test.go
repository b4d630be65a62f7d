package gosdk

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

type toolArgs struct {
	Name string `json:"name"`
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func progress(ctx context.Context, req *mcp.CallToolRequest, n int, message string) error {
	return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: req.Params.GetProgressToken(), Progress: float64(n), Message: message,
	})
}

func (f *fixture) addTools() {
	add := func(name string, run func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error)) {
		mcp.AddTool(f.mcp, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcp.CallToolRequest, a toolArgs) (*mcp.CallToolResult, any, error) {
			r, err := run(ctx, req, a.Name)
			return r, nil, err
		})
	}
	add("work", func(ctx context.Context, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		h := rejoin.HandleFromContext(ctx)
		if err := progress(ctx, req, 1, name); err != nil {
			return nil, err
		}
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: name, RequestedSchema: colors})
		if err != nil {
			return nil, err
		}
		if err := h.CloseStream(30 * time.Millisecond); err != nil {
			return nil, err
		}
		if err := progress(ctx, req, 2, name); err != nil {
			return nil, err
		}
		f.disconnected <- name
		if err := h.WaitConnected(ctx); err != nil {
			return nil, err
		}
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 40 * time.Millisecond})
		if h.Connected() {
			return nil, errors.New("CloseSSEStream left the stream open")
		}
		if err := progress(ctx, req, 3, name); err != nil {
			return nil, err
		}
		f.disconnected <- name
		return text("%s is %v", name, answer.Content["color"]), nil
	})
	add("block", func(ctx context.Context, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		f.started <- name
		<-ctx.Done()
		f.causes <- context.Cause(ctx)
		<-f.release
		return text("too late"), nil
	})
	add("impatient", func(ctx context.Context, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
		asking, cancel := context.WithCancel(ctx)
		f.started <- name
		go func() { <-f.release; cancel() }()
		_, err := req.Session.Elicit(asking, &mcp.ElicitParams{Message: name, RequestedSchema: colors})
		<-f.seen // the SDK does not wait until the question is withdrawn
		return text("%v", err), nil
	})
	add("goexit", func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		runtime.Goexit()
		return nil, nil
	})
	add("panic", func(context.Context, *mcp.CallToolRequest, string) (*mcp.CallToolResult, error) {
		panic("the tool's own fault")
	})
	add("whoami", func(ctx context.Context, req *mcp.CallToolRequest, _ string) (*mcp.CallToolResult, error) {
		user := ""
		if req.Extra.TokenInfo != nil {
			user = req.Extra.TokenInfo.UserID
		}
		return text("%s %v %s", req.Extra.Header.Get("X-Trace"), ctx.Value(trace{}), user), nil
	})
}

var colors = map[string]any{"type": "object", "properties": map[string]any{"color": map[string]any{"type": "string"}}}
