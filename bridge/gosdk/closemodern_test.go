package gosdk

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A tool that lets its client go by the SDK's own means lets go clients of the modern era too: they get a task. For a client without tasks it has no
// effect there.
func TestCloseSSEStreamInAModernCall(t *testing.T) {
	if !modernEra(t) {
		return
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
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"closes","arguments":{},"_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": nil,
				"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"closes"},
			}
			answer, err := io.ReadAll(c.Do(r).Body)
			if err != nil || !strings.Contains(string(answer), want) {
				t.Errorf("%s: %s %v", capabilities, answer, err)
			}
		}
	})
}
