package mcpgo

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// modernRequest returns a request of a version, without a session.
func modernRequest(ctx context.Context, t *testing.T, version, method, name, message string) *http.Request {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"m","version":"1"}}`
	body := strings.Replace(message, `"params":{`, `"params":{`+meta+`,`, 1)
	body = strings.Replace(body, `,}`, `}`, 1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/mcp", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Path, r.Host = "", ""
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": nil,
		"Mcp-Protocol-Version": {version}, "Mcp-Method": {method},
	}
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	return r
}

const v2026 = "2026-07-28"

// blocking returns a server with a tool that blocks until its context ends.
func blocking(hooks *server.Hooks) (s *server.MCPServer, begun *list[string], causes *list[error]) {
	begun, causes = &list[string]{}, &list[error]{}
	return newMCP(hooks, map[string]handler{
		"block": func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (string, error) {
			begun.add(r.Header.Get("Mcp-Name"))
			if err := progress(ctx, s, "p", 1); err != nil {
				return "", err
			}
			if err := rejoin.HandleFromContext(ctx).CloseStream(0); (err != nil) != server.IsModernRequest(ctx) {
				return "", errors.New("who can poll, and who cannot, is clear")
			}
			<-ctx.Done()
			causes.add(ctx.Err())
			return "", ctx.Err()
		},
	}), begun, causes
}

// A modern client cancels when it closes its connection. The same id in a request of another client, or of the other era, has no effect.
func TestAModernCallEndsWithItsConnectionOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, begun, causes := blocking(&server.Hooks{})
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth}})
		const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"block"}}`
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		res := c.Do(modernRequest(ctx, t, v2026, "tools/call", "block", call))
		if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Fatal(got, rest(t, res))
		}
		same(t, "begun", begun.got(), []string{"block"})
		post(t, c, strings.Replace(call, `"block"`, `"block","x":1`, 1)) // of the legacy era, with the same id
		const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
		res = c.Do(modernRequest(t.Context(), t, v2026, "notifications/cancelled", "", cancelled))
		same(t, "status", res.StatusCode, http.StatusAccepted)
		synctest.Wait()
		same(t, "cancelled", len(causes.got()), 0)
		leave()
		synctest.Wait()
		same(t, "cancelled", causes.got(), []error{context.Canceled})
		c.Notify("notifications/cancelled", map[string]any{"requestId": 1})
		synctest.Wait()
		same(t, "cancelled", len(causes.got()), 2)
	})
}

// Upstream does not refuse an allowed host, or a body of an allowed size, which rejoin has checked.
func TestUpstreamDoesNotCheckWhatRejoinHasChecked(t *testing.T) {
	app := New(newMCP(&server.Hooks{}, map[string]handler{
		"size": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) { return "big", nil },
	}))
	srv := newServer(t, app, rejoin.Config{Eras: rejoin.EraBoth, AllowedHosts: []string{"mcp.example"}, MaxBodyBytes: 8 << 20})
	hs := httptest.NewServer(stdadapter.New(srv)) // a real socket: upstream checks the host if it listens on a loopback address
	defer hs.Close()
	for _, size := range []int{1, 4<<20 + 1} {
		r := modernRequest(t.Context(), t, v2026, "tools/call", "size",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"size","arguments":{"x":"`+strings.Repeat("x", size)+`"}}}`)
		at, err := url.Parse(hs.URL)
		if err != nil {
			t.Fatal(err)
		}
		r.URL, r.Host = at, "mcp.example"
		res, err := hs.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got := rest(t, res)
		_ = res.Body.Close()
		if !strings.Contains(got, `"big"`) {
			t.Fatal(got)
		}
	}
}

// Upstream would open its own session for a request that is not modern. Such requests do not reach it.
func TestUpstreamOpensNoSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hooks := &server.Hooks{}
		seen := lifecycle(hooks)
		c := rejointest.New(t, New(newMCP(hooks, nil)), rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth}})
		for _, version := range []string{"2026-01-01", "1", v2026, "2027-01-01"} {
			r := modernRequest(t.Context(), t, version, "initialize", "", `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
			if version < v2026 {
				r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
			}
			res := c.Do(r)
			body := rest(t, res)
			if res.StatusCode < 400 || res.Header.Get("Mcp-Session-Id") != "" || !strings.Contains(body, `"id":"i"`) {
				t.Errorf("%s: %s %s", version, res.Status, body)
			}
		}
		r := modernRequest(t.Context(), t, v2026, "ping", "", `{"jsonrpc":"2.0","id":"i","method":"ping","params":{}}`)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		if body := rest(t, c.Do(r)); !strings.Contains(body, "-32020") {
			t.Error("upstream's own answer:", body)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			r := modernRequest(t.Context(), t, v2026, "", "", "")
			r.Method, r.Body = method, http.NoBody
			same(t, method, c.Do(r).StatusCode, http.StatusMethodNotAllowed)
		}
		same(t, "registered", seen.got(), []string{`+rejointest 2025-11-25 ""`})
	})
}
