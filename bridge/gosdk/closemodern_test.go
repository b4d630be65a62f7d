package gosdk

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// modernToolCall calls a tool and returns the whole response. meta is more members of _meta.
func modernToolCall(t *testing.T, c *rejointest.Client, tool, capabilities, meta string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + meta + `}}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": nil,
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
	}
	answer, err := io.ReadAll(c.Do(r).Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// A tool that lets its client go by the SDK's own means lets go clients of the modern era too: they get a task. For a client without tasks it has no
// effect there.
func TestCloseSSEStreamInAModernCall(t *testing.T) {
	if newModern(nil) == nil {
		return // there are no modern calls: TestAnSDKWithoutTheModernEra
	}
	bubble(t, func(t *testing.T) {
		s := newServer(nil, nil)
		s.AddTool(&mcp.Tool{Name: "x", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("done"), nil
		})
		s.AddTool(&mcp.Tool{Name: "closes", InputSchema: map[string]any{"type": "object"}},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Second})
				<-time.After(time.Minute)
				return text("done"), nil
			})
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth, Policy: rejoin.Policy{TaskAfter: -1}}})
		for capabilities, want := range map[string]string{
			`{}`: `"done"`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`: `"resultType":"task"`,
		} {
			answer := modernToolCall(t, c, "closes", capabilities, "")
			if !strings.Contains(answer, want) {
				t.Errorf("%s: %s", capabilities, answer)
			}
		}
	})
}

// A tool that ends its goroutine leaves no modern call without an answer, with or without events before.
func TestAModernToolThatEndsItsGoroutine(t *testing.T) {
	if newModern(nil) == nil {
		return // there are no modern calls: TestAnSDKWithoutTheModernEra
	}
	bubble(t, func(t *testing.T) {
		s := newServer(nil, nil)
		s.AddTool(&mcp.Tool{Name: "leaves", InputSchema: map[string]any{"type": "object"}},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if req.Params.GetProgressToken() != nil {
					_ = progress(ctx, req, 1, "here") // the test sees whether it came
				}
				runtime.Goexit()
				return text("never"), nil
			})
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth, Logger: slog.New(slog.DiscardHandler)}})
		for token, want := range map[string]string{``: `{"jsonrpc":"2.0","id":1.0,"error":{"code":-32603`, `,"progressToken":"t"`: `"message":"here"`} {
			answer := modernToolCall(t, c, "leaves", `{}`, token)
			if !strings.Contains(answer, want) || strings.Count(answer, `"id":1.0,"error":{"code":-32603,"message":"internal error"}`) != 1 {
				t.Errorf("%q: %s", token, answer)
			}
		}
	})
}
