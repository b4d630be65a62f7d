package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// oddValues are ids and tokens that mcp-go would round or spell differently.
var oddValues = []string{
	`1`, `"a"`, `9007199254740993`, `9007199254740992`, `-9007199254740993`, `123456789012345678901234567890`, `1.5`, `2.0`, `1e3`, `"\u0061\/"`, `"<&>"`, `"ü"`,
}

// newTokenClient returns a client of a server with a tool that reports progress with the token that it got. ids are the ids that hooks get.
func newTokenClient(t *testing.T) (c *rejointest.Client, ids *list[string]) {
	t.Helper()
	ids = &list[string]{}
	hooks := &server.Hooks{}
	hooks.AddBeforeCallTool(func(_ context.Context, id any, _ *mcp.CallToolRequest) { ids.add(fmt.Sprint(id)) })
	s := newMCP(hooks, map[string]handler{
		"token": func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (string, error) {
			var token any
			if m := r.Params.Meta; m != nil {
				token = m.ProgressToken
			}
			return fmt.Sprint(token != nil), s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": token, "message": "seen"})
		},
	})
	return rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth}}), ids
}

func tokenCall(id, token string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"token","arguments":{},"_meta":{"progressToken":%s}}}`, id, token)
}

// modernToken returns such a call of the modern era.
func modernToken(t *testing.T, id, token string) *http.Request {
	t.Helper()
	body := tokenCall(id, token)
	const meta = `{"io.modelcontextprotocol/protocolVersion":"` + v2026 + `","io.modelcontextprotocol/clientCapabilities":{},"progressToken"`
	body = strings.Replace(strings.Replace(body, `"params":{`, `"params":{ `, 1), `{"progressToken"`, meta, 1)
	return modernRequest(t.Context(), t, v2026, "tools/call", "token", body)
}

// In both eras ids and tokens come back as the client spelt them, an invalid token gets no progress, and different ids stay different.
func TestIDsAndTokensComeBackAsTheyWere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, ids := newTokenClient(t)
		for _, modern := range []bool{false, true} {
			send := func(id, token string) string {
				if modern {
					r := modernToken(t, id, token)
					return rest(t, c.Do(r))
				}
				return rest(t, post(t, c, tokenCall(id, token)))
			}
			for i, id := range oddValues {
				token := oddValues[len(oddValues)-1-i]
				body := send(id, token)
				if !strings.Contains(body, `"id":`+id+`,`) && !strings.Contains(body, `"id":`+id+"}") {
					t.Errorf("%s: %s", id, body)
				}
				if !strings.Contains(body, `"progressToken":`+token) || !strings.Contains(body, "seen") || !strings.Contains(body, `"result"`) {
					t.Errorf("%s: %s", token, body)
				}
			}
			for _, none := range []string{"null", "true", "{}", "[1]", `"` + strings.Repeat("x", 1023) + `"`} {
				body := send("1", none)
				if !strings.Contains(body, `"result"`) || !modern && strings.Contains(body, "seen") || modern && strings.Contains(body, "true") {
					t.Errorf("%.80s: %s", none, body)
				}
			}
		}
		seen := map[string]bool{}
		for _, id := range ids.got()[:len(oddValues)] {
			if seen[id] {
				t.Error("two calls are one to hooks:", id)
			}
			seen[id] = true
		}
	})
}

// The client gets each refusal of mcp-go's own handler, and of the bridge, as a JSON-RPC error with the id.
func TestModernRefusalsAreJSON(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := newTokenClient(t)
		for _, test := range []struct {
			name   string
			change func(*http.Request)
			status int
			says   string
		}{
			{"no name", func(r *http.Request) { r.Header.Del("Mcp-Name") }, 400, ""},
			{"another method", func(r *http.Request) { r.Header.Set("Mcp-Method", "ping") }, 400, ""},
			{"an unknown version in the header", func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "draft") }, 400, v2026},
			{"a later version in the header", func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "2027-01-01") }, 400, ""},
			{"a type in a form that mcp-go does not read", func(r *http.Request) { r.Header.Set("Content-Type", "application/json;;x") }, 400, "content type"},
		} {
			r := modernToken(t, "1.50", "1")
			test.change(r)
			res := c.Do(r)
			body := rest(t, res)
			var m struct {
				ID    json.RawMessage
				Error struct {
					Code    int
					Message string
				}
			}
			if err := json.Unmarshal([]byte(body), &m); err != nil || m.Error.Message == "" || m.Error.Code == 0 || !strings.Contains(body, test.says) {
				t.Errorf("%s: %s", test.name, body)
			}
			if string(m.ID) != "1.50" || res.StatusCode != test.status || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s %s %s", test.name, res.Status, m.ID, res.Header.Get("Content-Type"))
			}
		}
	})
}
