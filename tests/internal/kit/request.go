package kit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/rejointest"
)

// CallBody is a request of the method x.
func CallBody(id, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"x","params":` + params + `}`
}

// Bodies of requests of a session. Their id is "mine".
const (
	Ping       = `{"jsonrpc":"2.0","id":"mine","method":"ping"}`
	Initialize = `{"jsonrpc":"2.0","id":"mine","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + Capabilities + `,"clientInfo":{"name":"t","version":"1"}}}`
)

// Capabilities are the capabilities in Initialize.
const Capabilities = `{"elicitation":{},"roots":{},"sampling":{}}`

// Offers are the same capabilities for a rejointest.Config without OnRequest: the server may ask this client.
var Offers = map[string]any{"elicitation": struct{}{}, "roots": struct{}{}, "sampling": struct{}{}}

// Secret is a text in another user's session, which must not get out of it.
const Secret = "s3cr3t-0f-an0ther-u5er"

// ToLoopback makes a request one that a server received on 127.0.0.1:8080.
func ToLoopback(r *http.Request) *http.Request {
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
}

// Versions of the protocol.
const (
	Polling = "2025-11-25" // clients of this version poll
	Legacy  = "2025-06-18" // clients of this version do not
	Batches = "2025-03-26" // and these may send batches besides
)

// Request is a request for Client.Do. header are names and values in turn. A field with the value "" is not sent, although Do would add it.
func Request(t *testing.T, method, body string, header ...string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "", r)
	require.NoError(t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i < len(header); i += 2 {
		name := http.CanonicalHeaderKey(header[i])
		req.Header.Del(name)
		if header[i+1] == "" {
			req.Header[name] = nil
			continue
		}
		req.Header.Set(name, header[i+1])
	}
	return req
}

// Post sends a body and returns the whole body of the response.
func Post(t *testing.T, c *rejointest.Client, body string, header ...string) (string, *http.Response) {
	t.Helper()
	return ReadAll(t, c.Do(Request(t, http.MethodPost, body, header...)))
}

// ReadAll reads a response to its end and closes it.
func ReadAll(t *testing.T, res *http.Response) (string, *http.Response) {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	_ = res.Body.Close()
	return string(body), res
}

// Refusal checks that a response is a refusal, and returns its status, code, id and data.reason.
func Refusal(t *testing.T, body string, res *http.Response) string {
	t.Helper()
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Empty(t, res.Header.Get("Mcp-Session-Id"), "no session id on an error")
	return fmt.Sprintf("%d %s", res.StatusCode, MessageSummary(body))
}

// InSession is a POST in a session, to be served without a network.
func InSession(t *testing.T, session, body string, header ...string) *http.Request {
	t.Helper()
	r := Request(t, http.MethodPost, body, header...)
	r.Header.Set("Mcp-Session-Id", session)
	return r
}

// ModernListenBody is a subscriptions/listen request of the modern era.
var ModernListenBody = strings.Replace(ModernPing, `"ping"`, `"subscriptions/listen"`, 1)

// Messages of the modern era.
const (
	ModernNotification = `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	ModernPing         = `{"jsonrpc":"2.0","id":"mine","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
)

// ModernHeader is the header of such messages: names and values in turn.
var ModernHeader = []string{"Mcp-Protocol-Version", "2026-07-28"}

// ModernBody is a request of the modern era with all that it needs. params are members of its params and meta are members of their _meta, as
// JSON, each with a comma before it.
func ModernBody(method, params, meta string) string {
	const era = "io.modelcontextprotocol/"
	return `{"jsonrpc":"2.0","id":"mine","method":"` + method + `","params":{"_meta":{"` + era + `protocolVersion":"2026-07-28","` + era +
		`clientCapabilities":{}` + meta + `}` + params + `}}`
}

// ModernRequest is a POST of a ModernBody with the header fields that it needs. name is Mcp-Name; header is as for Request.
func ModernRequest(t *testing.T, method, name, params, meta string, header ...string) *http.Request {
	t.Helper()
	needed := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
	return Request(t, http.MethodPost, ModernBody(method, params, meta), append(needed, header...)...)
}
