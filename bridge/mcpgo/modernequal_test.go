package mcpgo

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// fullServer has a tool, prompt or resource for each kind of answer to a modern request.
func fullServer() *server.MCPServer {
	slow := func(ctx context.Context, s *server.MCPServer, token string) error { // slow enough for upstream to lose nothing
		for i := range 3 {
			if err := progress(ctx, s, token, i); err != nil {
				return err
			}
			elapse(time.Second)
		}
		return nil
	}
	s := newMCP(&server.Hooks{}, map[string]handler{
		"plain": func(_ context.Context, _ *server.MCPServer, r mcp.CallToolRequest) (string, error) {
			return "<&> " + r.Header.Get("X-Number"), nil
		},
		"slow": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			return "done", slow(ctx, s, "p")
		},
		"fails": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) {
			return "", errors.New("no")
		},
		"panics": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) {
			panic("oh")
		},
		"panics late": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			_ = slow(ctx, s, "p")
			panic("oh")
		},
		"fails late": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			_ = slow(ctx, s, "p")
			return "", errors.New("no")
		},
		"asks": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			return elicit(ctx, s, "?")
		},
		"logs": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			err := s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelWarning, "l", "text"))
			elapse(time.Second)
			return "done", err
		},
	})
	s.AddTool(mcp.NewTool("input"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return server.NewInputRequestBuilder("state").Roots("r").ToolResult(), nil
	})
	s.AddPrompt(mcp.NewPrompt("prompt"), func(ctx context.Context, _ mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return mcp.NewGetPromptResult("d", nil), slow(ctx, s, "prompt")
	})
	s.AddResource(mcp.NewResource("x://r", "r"), func(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: "x://r", Text: "t"}}, slow(ctx, s, "resource")
	})
	return s
}

// With a modernSession, the answers of mcp-go's transport are the same as without one, byte for byte.
func TestModernAnswersAreUpstreams(t *testing.T) {
	call := func(tool string) string { return callBody(tool, "") }
	without := func(name string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(name) } }
	with := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	bodyWith := func(old, fresh string) func(*http.Request) {
		return func(r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			body := strings.Replace(string(b), old, fresh, 1)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}
	}
	const logLevel = `"_meta":{"io.modelcontextprotocol/logLevel":"debug",`
	for _, row := range []struct {
		name, method, target, body string
		change                     func(*http.Request)
		status                     int
		says                       string
	}{
		{"a result", "tools/call", "plain", call("plain"), with("X-Number", "5"), 200, `\u0026\u003e 5`},
		{"a result after notifications", "tools/call", "slow", call("slow"), nil, 200, `"progress":2`},
		{"a tool's error", "tools/call", "fails", call("fails"), nil, 200, `no`},
		{"a tool's error after notifications", "tools/call", "fails late", call("fails late"), nil, 200, `"progress":2`},
		{"a panic", "tools/call", "panics", call("panics"), nil, 500, "internal error"},
		{"a panic after notifications", "tools/call", "panics late", call("panics late"), nil, 200, "internal error"},
		{"a question through the session", "tools/call", "asks", call("asks"), nil, 200, "elicitation/create"},
		{"an unrequested log message", "tools/call", "logs", call("logs"), nil, 200, "application/json"},
		{"a log message", "tools/call", "logs", call("logs"), bodyWith(`"_meta":{`, logLevel), 200, "notifications/message"},
		{"input required", "tools/call", "input", call("input"), nil, 200, "input_required"},
		{"a prompt", "prompts/get", "prompt", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"prompt"}}`, nil, 200, `"prompt"`},
		{"no prompt", "prompts/get", "no", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"no"}}`, nil, 400, "-32602"},
		{
			"a resource", "resources/read", "x://r", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x://r"}}`,
			nil, 200, `"resource"`,
		},
		{
			"no resource", "resources/read", "x://no", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x://no"}}`,
			nil, 400, "-32602",
		},
		{
			"completion", "completion/complete", "", `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{}}`,
			nil, 404, "-32601",
		},
		{"a list", "tools/list", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, nil, 200, `"slow"`},
		{"discovery", "server/discover", "", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`, nil, 200, v2026},
		{"what was removed", "ping", "", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`, nil, 404, "-32601"},
		{"an unknown method", "no", "", `{"jsonrpc":"2.0","id":1,"method":"no","params":{}}`, nil, 404, "-32601"},
		{"a task", "tasks/get", "", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`, nil, 404, "-32601"},
		{"an unknown tool", "tools/call", "no", call("no"), nil, 400, "-32602"},
		{
			"params that are none", "tools/call", "plain", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":{}}}`,
			nil, 400, `"error"`,
		},
		{"a request that answers", "tools/call", "plain", call("plain"), bodyWith(`"id":7`, `"id":7,"result":{}`), 400, `"error"`},
		{"an id with a fraction", "tools/call", "plain", call("plain"), bodyWith(`"id":7`, `"id":1.5`), 200, `1.5`},
		{"no method in the header", "tools/call", "plain", call("plain"), without("Mcp-Method"), 400, "-32020"},
		{"another method in the header", "tools/call", "plain", call("plain"), with("Mcp-Method", "tools/list"), 400, "-32020"},
		{"no name in the header", "tools/call", "plain", call("plain"), without("Mcp-Name"), 400, "-32020"},
		{"another name in the header", "tools/call", "plain", call("plain"), with("Mcp-Name", "slow"), 400, "-32020"},
		{"no version in the header", "tools/call", "plain", call("plain"), without("Mcp-Protocol-Version"), 400, "-32020"},
		{"another version in the header", "tools/call", "plain", call("plain"), with("Mcp-Protocol-Version", "2025-11-25"), 400, "-32020"},
		{"a version to come", "tools/call", "plain", call("plain"), func(r *http.Request) {
			bodyWith(v2026, "2027-01-01")(r)
			r.Header.Set("Mcp-Protocol-Version", "2027-01-01")
		}, 400, "-32022"},
		{"no capabilities", "tools/call", "plain", call("plain"), bodyWith("/clientCapabilities", "/other"), 400, "-32602"},
		{"another version of JSON-RPC", "tools/call", "plain", call("plain"), bodyWith(`"2.0"`, `"1.0"`), 400, "-32600"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, got := fullServer(), map[bool]string{}
				for _, replaces := range []bool{true, false} {
					c := withoutTasks(t, &app{server: s, modern: newModern(s, replaces), features: detectFeatures()})
					r := modernRequest(t.Context(), t, v2026, row.method, row.target, row.body)
					if row.change != nil {
						row.change(r)
					}
					res := c.Do(r)
					h := maps.Clone(res.Header)
					h.Del("Date")
					var said strings.Builder
					said.WriteString(res.Status + "\n")
					_ = h.Write(&said)
					body := rest(t, res)
					got[replaces] = said.String() + body
					if res.StatusCode != row.status || !strings.Contains(got[replaces], row.says) {
						t.Errorf("replacesSession %t: not %d and %s, but\n%s", replaces, row.status, row.says, got[replaces])
					}
					synctest.Wait()
				}
				same(t, "answer", got[true], got[false])
			})
		})
	}
}
