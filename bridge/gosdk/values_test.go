package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// oddValues are ids and tokens that the SDK would round or spell differently.
var oddValues = []string{
	`1`, `"a"`, `9007199254740993`, `-9007199254740993`, `123456789012345678901234567890`, `1.5`, `2.0`, `1e3`, `"\u0061\/"`, `"<&>"`, `"ü"`,
}

// newTokenFixture has a tool that reports progress with the token that it got.
func newTokenFixture(t *testing.T) *fixture {
	f := newFixture(t, rejoin.Config{}, nil)
	tool := &mcp.Tool{Name: "token", InputSchema: map[string]any{"type": "object"}}
	f.mcp.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := req.Params.GetProgressToken()
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Message: "seen"}); err != nil {
			return nil, err
		}
		return text("%v", token != nil), nil
	})
	if f.app.modern != nil {
		f.serve(rejoin.Config{Eras: rejoin.EraBoth}, f.app)
	}
	return f
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"m","version":"1"}`

// modernClient is a client of the modern era, without a session.
func (f *fixture) modernClient(header ...string) *client {
	c := &client{t: f.t, url: f.url, headers: map[string]string{"Mcp-Protocol-Version": modernVersion, "Mcp-Method": "tools/call", "Mcp-Name": "token"}}
	for i := 0; i < len(header); i += 2 {
		c.headers[header[i]] = header[i+1]
	}
	return c
}

func tokenCall(id, meta, token string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"token","arguments":{},"_meta":{%s"progressToken":%s}}}`, id, meta, token)
}

// In both eras ids and tokens come back as the client spelt them, and an invalid token gets no progress.
func TestIDsAndTokensComeBackAsTheyWere(t *testing.T) {
	f := newTokenFixture(t)
	clients := map[string]*client{"": (&client{t: t, url: f.url}).initialize("2025-11-25")}
	if f.app.modern != nil {
		clients[modernMeta+","] = f.modernClient()
	}
	for meta, c := range clients {
		for i, id := range oddValues {
			token := oddValues[len(oddValues)-1-i]
			body := c.do("POST", tokenCall(id, meta, token), "").rest()
			if !strings.Contains(body, `"id":`+id+`,"result":`) && !strings.Contains(body, `"id":`+id+"}") {
				t.Errorf("%s: %s", id, body)
			}
			if !strings.Contains(body, `"progressToken":`+token) || !strings.Contains(body, "seen") {
				t.Errorf("%s: %s", token, body)
			}
		}
		for _, none := range []string{"null", "true", "{}", "[1]", `"` + strings.Repeat("x", 1023) + `"`} {
			if body := c.do("POST", tokenCall("1", meta, none), "").rest(); strings.Contains(body, "seen") && meta == "" || !strings.Contains(body, `"result"`) {
				t.Errorf("%.80s: %s", none, body)
			} else if meta != "" && strings.Contains(body, "true") {
				t.Errorf("%.80s is a token: %s", none, body)
			}
		}
	}
}

// The client gets a refusal of the SDK's own handler in text/plain as a JSON-RPC error with the id, and with the SDK's status.
func TestModernRefusalsAreJSON(t *testing.T) {
	f := newTokenFixture(t)
	if !modernEra(t) {
		return
	}
	call := tokenCall("1.50", modernMeta+",", "1")
	for _, test := range []struct {
		name, body string
		header     []string
		status     int
		id         string
		says       string
	}{
		{"an Accept of one form", call, []string{"Accept", "application/json"}, 400, "1.50", "Accept"},
		{"a method without params", `{"jsonrpc":"2.0","id":1.50,"method":"tools/call"}`, nil, 400, "1.50", "params"},
		{"an unknown notification", `{"jsonrpc":"2.0","method":"notifications/none","params":{}}`, nil, 400, "null", ""},
		{
			"an unknown version in header and body", strings.Replace(call, modernVersion, "2026-01-01", 1), []string{"Mcp-Protocol-Version", "2026-01-01"},
			400, "1.50", modernVersion,
		},
		{"an unknown version in the header", call, []string{"Mcp-Protocol-Version", "draft"}, 400, "1.50", modernVersion},
		{"a later version", strings.Replace(call, modernVersion, "2027-01-01", 1), []string{"Mcp-Protocol-Version", "2027-01-01"}, 400, "1.50", modernVersion},
		{"a batch", "[" + call + "]", nil, 400, "null", "2025-03-26"},
		{"another method in the header", call, []string{"Mcp-Method", "ping"}, 400, "1.50", ""},
	} {
		res := f.modernClient(test.header...).do("POST", test.body, "")
		body := res.rest()
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
		if string(m.ID) != test.id || res.StatusCode != test.status || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s %s %s", test.name, res.Status, m.ID, res.Header.Get("Content-Type"))
		}
	}
	choosy := NewFunc(func(*http.Request) *mcp.Server { return nil })
	f.serve(rejoin.Config{Eras: rejoin.EraBoth}, choosy)
	res := f.modernClient().do("POST", call, "")
	if body := res.rest(); res.StatusCode != http.StatusBadRequest || !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":1.50,"error":{"code":-32600,`) {
		t.Errorf("no server: %s %s", res.Status, body)
	}
}
