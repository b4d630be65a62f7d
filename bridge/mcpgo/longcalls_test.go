package mcpgo

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/longcalls"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Calls of unchanged tools become tasks.
func TestLongCalls(t *testing.T) {
	longcalls.Run(t, longcalls.SDK{New: longCallServer, Panic: "internal error"})
}

func longCallServer(_ *slog.Logger, tools map[string]longcalls.Tool) (rejoin.App, func(string)) {
	s := server.NewMCPServer("test", "1", server.WithToolCapabilities(true), server.WithLogging(), server.WithElicitation(),
		server.WithTaskCapabilities(true, true, true))
	for name, run := range tools {
		s.AddTool(mcp.NewTool(name), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return longCallResult(run(ctx, longCallOf(ctx, s, request)))
		})
	}
	return New(s), func(name string) { s.AddTool(mcp.NewTool(name), nil) }
}

func longCallOf(ctx context.Context, s *server.MCPServer, request mcp.CallToolRequest) longcalls.Call {
	c := longcalls.Call{
		Progress: func(message string) error {
			return s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": request.Params.Meta.ProgressToken, "progress": 1, "message": message,
			})
		},
		Log: func(text string) error {
			return s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelError, "l", text))
		},
		Elicit: func() error {
			_, err := elicit(ctx, s, "x")
			return err
		},
		State: request.Params.RequestState, Header: request.Header.Get("X-Number"), Answers: map[string]string{},
	}
	for key := range request.Params.InputResponses {
		content, _ := server.ElicitationResponse(request.Params.InputResponses, key).Content.(map[string]any)
		c.Answers[key], _ = content["x"].(string)
	}
	return c
}

func longCallResult(o longcalls.Outcome) (*mcp.CallToolResult, error) {
	switch {
	case o.Panic != nil:
		panic(o.Panic)
	case o.Fault != nil:
		return nil, o.Fault
	case o.Asks == nil && o.State == "":
		res := mcp.NewToolResultText(o.Text)
		res.StructuredContent, res.IsError = o.Structured, o.IsError
		return res, nil
	}
	asks := server.NewInputRequestBuilder(o.State)
	for key, message := range o.Asks {
		asks.Elicit(key, mcp.ElicitationParams{Message: message, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
	}
	return asks.ToolResult(), nil
}

// The member task is of older versions. In the modern era it has no effect, also for tools that have said to be tasks then.
func TestATaskOfOlderVersionsIsAnOrdinaryCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := server.NewMCPServer("test", "1", server.WithToolCapabilities(true), server.WithTaskCapabilities(true, true, true))
		s.AddTool(mcp.NewTool("x", mcp.WithTaskSupport(mcp.TaskSupportOptional)), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("x"), ctx.Err()
		})
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth}})
		for _, caps := range []string{`{}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`} {
			r := modernRequest(t.Context(), t, v2026, "tools/call", "x",
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{"ttl":60000}}}`)
			body, _ := io.ReadAll(r.Body)
			body = bytes.Replace(body, []byte(`clientCapabilities":{}`), []byte(`clientCapabilities":`+caps), 1)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			if got := rest(t, c.Do(r)); !strings.Contains(got, `"text":"x"`) {
				t.Errorf("%s: %s", caps, got)
			}
		}
	})
}
