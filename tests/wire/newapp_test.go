package wire_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// serving is a client of a server of both eras whose app is NewApp of a Handler that answers every request.
func serving(t *testing.T) *rowWorld {
	t.Helper()
	counted := &countedOpens{App: rejoin.NewApp(kit.Info, func(context.Context, *rejoin.Request) (any, error) { return struct{}{}, nil })}
	c := rejointest.New(t, counted, rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth}})
	return &rowWorld{t: t, c: c, opened: &counted.n, seen: map[string]bool{}}
}

// modernCall is a complete modern request, changed in its header (names and values in turn; "": none) and in its body (what is there and what
// replaces it, in turn).
func (w *rowWorld) modernCall(method, name, params string, header, change []string) *http.Request {
	w.t.Helper()
	fields := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
	for i := 0; i < len(header); i += 2 {
		fields[header[i]] = header[i+1]
	}
	var all []string
	for field, value := range fields {
		all = append(all, field, value)
	}
	body := kit.ModernBody(method, params, "")
	changed := strings.NewReplacer(change...).Replace(body)
	require.Equal(w.t, len(change) > 0, changed != body, "the change has an effect")
	return w.request(http.MethodPost, changed, all...)
}

const (
	versionMember      = `"io.modelcontextprotocol/protocolVersion":"2026-07-28",`
	capabilitiesMember = `"io.modelcontextprotocol/clientCapabilities":{}`
	wrongHeader        = `400 error(-32020,"mine")`
	wrongParams        = `400 error(-32602,"mine")`
)

// What NewApp refuses in the modern era, before its Handler is asked.
var newAppRows = []row{
	{"a complete request is answered", func(t *testing.T) {
		w := serving(t)
		w.answers(w.modernCall("tools/list", "", "", nil, nil))
		w.answers(w.modernCall("tools/list", "", "", []string{"Mcp-Method", "  tools/list "}, nil))
		w.answers(w.modernCall("tools/list", "", "", []string{"Accept", ""}, nil))
		w.answers(w.modernCall("server/discover", "", "", nil, nil))
		w.answers(w.request(http.MethodPost, kit.Ping))
	}},
	{"a notification is accepted and has no effect", func(t *testing.T) {
		w := serving(t)
		w.accepts(w.request(http.MethodPost, kit.ModernNotification, kit.ModernHeader...), http.StatusAccepted)
		w.accepts(w.request(http.MethodPost, aNotification, kit.ModernHeader...), http.StatusAccepted)
	}},
	{"an answer of the client is refused: the server asks nothing", func(t *testing.T) {
		w := serving(t)
		w.refuses(w.request(http.MethodPost, anAnswer, kit.ModernHeader...), `400 error(-32600,"nobody.1")`, "asks nothing")
	}},
	{"Accept must allow one form, and a stream for a subscription", func(t *testing.T) {
		w := serving(t)
		w.refuses(w.modernCall("tools/list", "", "", []string{"Accept", "text/html"}, nil), `406 error(-32600,"mine")`, "Accept")
		w.refuses(w.modernCall("subscriptions/listen", "", "", []string{"Accept", "application/json"}, nil), `406 error(-32600,"mine")`, "text/event-stream")
	}},
	{"the version must be in header and body, and be the same", func(t *testing.T) {
		w := serving(t)
		w.refuses(w.modernCall("tools/list", "", "", []string{"Mcp-Protocol-Version", ""}, nil), wrongHeader, "Mcp-Protocol-Version is missing")
		w.refuses(w.modernCall("tools/list", "", "", []string{"Mcp-Protocol-Version", "2026-07-29"}, nil), wrongHeader, "Mcp-Protocol-Version differs")
		w.refuses(w.modernCall("tools/list", "", "", nil, []string{versionMember, ""}), wrongParams, "protocolVersion")
		w.refuses(w.modernCall("tools/list", "", "", nil, []string{`"2026-07-28"`, "1"}), wrongParams, "protocolVersion")
		w.refuses(w.modernCall("tools/list", "", "", nil, []string{`"2026-07-28"`, `"v999.0.0"`}), wrongHeader, "Mcp-Protocol-Version differs")
		w.refuses(w.request(http.MethodPost, kit.Ping, kit.ModernHeader...), wrongParams, "protocolVersion")
	}},
	{"a later version is refused with those that are served", func(t *testing.T) {
		w := serving(t)
		says := w.refuses(w.modernCall("tools/list", "", "", []string{"Mcp-Protocol-Version", "2027-01-01"}, []string{"2026-07-28", "2027-01-01"}),
			`400 error(-32022,"mine")`, "unknown protocol version")
		require.Contains(t, says, saysAll)
		require.Contains(t, says, `"requested":"2027-01-01"`)
	}},
	{"what this era does not have is an unknown method: 404, with the id", func(t *testing.T) {
		w := serving(t)
		for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"} {
			w.refuses(w.modernCall(method, "", "", nil, nil), `404 error(-32601,"mine")`, "has no method")
		}
	}},
	{"Mcp-Method must be the method", func(t *testing.T) {
		w := serving(t)
		w.refuses(w.modernCall("tools/list", "", "", []string{"Mcp-Method", ""}, nil), wrongHeader, "Mcp-Method is missing")
		for _, method := range []string{"tools/call", "TOOLS/LIST", "=?base64?dG9vbHMvbGlzdA==?="} {
			w.refuses(w.modernCall("tools/list", "", "", []string{"Mcp-Method", method}, nil), wrongHeader, "Mcp-Method differs")
		}
		r := w.modernCall("tools/list", "", "", nil, nil)
		r.Header["Mcp-Method"] = []string{"tools/list", "tools/call"}
		w.refuses(r, wrongHeader, "Mcp-Method differs")
		r = w.modernCall("tools/list", "", "", nil, nil)
		r.Header["Mcp-Method"] = []string{"tools/list", "tools/list"}
		w.answers(r)
	}},
	{"Mcp-Name must be the name or the URI, as it is or in base64", func(t *testing.T) {
		w := serving(t)
		for method, field := range map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} {
			params := `,"` + field + `":"a,b"`
			w.answers(w.modernCall(method, "a,b", params, nil, nil))
			w.answers(w.modernCall(method, "=?base64?YSxi?=", params, nil, nil))
			w.refuses(w.modernCall(method, "", params, nil, nil), wrongHeader, "Mcp-Name is missing")
			for _, name := range []string{"a", "=?base64?YQ==?=", "YSxi", "=?base64?YSxi", "A,B"} {
				w.refuses(w.modernCall(method, name, params, nil, nil), wrongHeader, "Mcp-Name differs")
			}
			for _, name := range []string{"=?base64?YSxi=?=", "=?base64?YS!i?="} {
				w.refuses(w.modernCall(method, name, params, nil, nil), wrongHeader, "base64")
			}
			for _, none := range []string{"", `,"` + field + `":1`} {
				w.refuses(w.modernCall(method, "a", none, nil, nil), wrongParams, field)
			}
		}
		w.answers(w.modernCall("tools/call", "=?base64?w7w=?=", `,"name":"ü"`, nil, nil))
		w.answers(w.modernCall("tools/call", "=?base64??=", `,"name":""`, nil, nil))
	}},
	{"the client must say what it can", func(t *testing.T) {
		w := serving(t)
		for _, member := range []string{`"x":1`, strings.Replace(capabilitiesMember, "{}", "null", 1), strings.Replace(capabilitiesMember, "{}", "[]", 1)} {
			w.refuses(w.modernCall("tools/list", "", "", nil, []string{capabilitiesMember, member}), wrongParams, "clientCapabilities")
		}
	}},
}
