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

// Requests of sessions.
const (
	Ping       = `{"jsonrpc":"2.0","id":"mine","method":"ping"}`
	Initialize = `{"jsonrpc":"2.0","id":"mine","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + Capabilities + `,"clientInfo":{"name":"t","version":"1"}}}`
)

// Capabilities are what the client of Initialize offers.
const Capabilities = `{"elicitation":{},"roots":{},"sampling":{}}`

// Offers are the capabilities of a client that may be asked, for a rejointest.Config without OnRequest.
var Offers = map[string]any{"elicitation": struct{}{}, "roots": struct{}{}, "sampling": struct{}{}}

// Secret marks what belongs to another user's session.
const Secret = "s3cr3t-0f-an0ther-u5er"

// ToLoopback makes a request one that came to this address of this machine.
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

// Request is a request for Client.Do. header are names and values in turn; a name with a value "" is left out of what Do fills in.
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

// Post sends a body and returns the whole answer, and its head.
func Post(t *testing.T, c *rejointest.Client, body string, header ...string) (string, *http.Response) {
	t.Helper()
	return ReadAll(t, c.Do(Request(t, http.MethodPost, body, header...)))
}

// ReadAll reads an answer to its end.
func ReadAll(t *testing.T, res *http.Response) (string, *http.Response) {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	_ = res.Body.Close()
	return string(body), res
}

// Refusal is a refusal's status, code, id and data.reason.
func Refusal(t *testing.T, body string, res *http.Response) string {
	t.Helper()
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Empty(t, res.Header.Get("Mcp-Session-Id"), "no session id on an error")
	return fmt.Sprintf("%d %s", res.StatusCode, Shape(body))
}

// InSession is a POST of a session, to be served without a network.
func InSession(t *testing.T, session, body string, header ...string) *http.Request {
	t.Helper()
	r := Request(t, http.MethodPost, body, header...)
	r.Header.Set("Mcp-Session-Id", session)
	return r
}

// ModernListenBody asks for a stream of the modern era.
var ModernListenBody = strings.Replace(ModernPing, `"ping"`, `"subscriptions/listen"`, 1)

// ModernNotification and ModernPing are messages of the modern era.
const (
	ModernNotification = `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	ModernPing         = `{"jsonrpc":"2.0","id":"mine","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
)

// ModernHeader is what goes with them: names and values in turn.
var ModernHeader = []string{"Mcp-Protocol-Version", "2026-07-28"}
