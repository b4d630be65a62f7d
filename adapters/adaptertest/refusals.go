package adaptertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// maxBody is Config.MaxBodyBytes of the exam's server. It is small, so that a router's own limit would be noticed as well.
const maxBody = 64 << 10

const (
	notification = `{"jsonrpc":"2.0","method":"notifications/x"}`
	response     = `{"jsonrpc":"2.0","id":"s.1","result":{}}`
	unknownTool  = `{"jsonrpc":"2.0","id":"p","method":"no/such/method"}`
)

// exchange is one request and its answer. By default the request is a POST in the session of the exam's client. The answer is a JSON-RPC error
// if it has a code. It has no header fields but Content-Type and those named here.
type exchange struct {
	name   string
	method string
	body   string
	header []string // names and values in turn; value "": leave the field out. A name that comes twice makes two lines
	status int
	code   int    // of the error; 0: no error, and no body unless the status is 200
	id     string // of the error; "": null
	allow  string
	retry  string // Retry-After
	kind   string // Content-Type; "": that of JSON if there is a body
	owner  bool   // only the process that has the session answers so
}

// refused are requests that the server refuses, one of each kind that a router could answer itself or change the answer of.
var refused = []exchange{
	{name: "a foreign origin", body: ping, header: []string{"Origin", "https://evil.example"}, status: 403, code: -32600},
	{name: "a body over the limit", body: ping + strings.Repeat(" ", maxBody), status: 413, code: -32600, id: `"p"`},
	{name: "no type", body: ping, header: []string{"Content-Type", ""}, status: 415, code: -32600, id: `"p"`},
	{name: "a form", body: ping, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: -32600, id: `"p"`},
	{name: "a multipart form", body: ping, header: []string{"Content-Type", "multipart/form-data; boundary=x"}, status: 415, code: -32600, id: `"p"`},
	{name: "an Accept of neither", body: ping, header: []string{"Accept", "text/html"}, status: 406, code: -32600, id: `"p"`},
	{name: "initialize without JSON", body: initialize, header: []string{sessionHeader, "", "Accept", "text/event-stream"}, status: 406, code: -32600, id: "1"},
	{name: "no JSON", body: `{"id":"p",`, status: 400, code: -32700, id: `"p"`},
	{name: "nothing", status: 400, header: []string{"Content-Type", "application/json"}, code: -32700},
	{name: "an unknown version", body: ping, header: []string{"mcp-protocol-version", "x"}, status: 400, code: -32600, id: `"p"`},
	{name: "a modern version", body: ping, header: []string{"MCP-Protocol-Version", "2026-07-28"}, status: 400, code: -32600, id: `"p"`},
	{name: "no session", body: ping, header: []string{sessionHeader, ""}, status: 400, code: -32600, id: `"p"`},
	{name: "two sessions", body: ping, header: []string{sessionHeader, "x", sessionHeader, "y"}, status: 400, code: -32600, id: `"p"`},
	{name: "two sessions in one line", body: ping, header: []string{sessionHeader, "x, y"}, status: 400, code: -32600, id: `"p"`},
	{
		name: "two versions", body: ping, header: []string{"MCP-Protocol-Version", "2025-11-25", "MCP-Protocol-Version", "2025-06-18"},
		status: 400, code: -32600, id: `"p"`,
	},
	{name: "two versions in one line", body: ping, header: []string{"MCP-Protocol-Version", "2025-11-25, 2025-06-18"}, status: 400, code: -32600, id: `"p"`},
	{name: "an unknown session", body: ping, header: []string{sessionHeader, "nobody"}, status: 404, code: -32001},
	{name: "initialize in its own session", body: initialize, status: 400, code: -32600, id: "1", owner: true},
	{name: "a batch", body: "[" + ping + "]", status: 400, code: -32600},
	{name: "a notification to nobody", body: notification, header: []string{sessionHeader, "nobody"}, status: 404, code: -32001},

	{name: "a GET that takes no stream", method: "GET", header: []string{"Accept", "application/json"}, status: 406, code: -32600},
	{name: "a GET of an unknown version", method: "GET", header: []string{"MCP-PROTOCOL-VERSION", "x"}, status: 400, code: -32600},
	{name: "a GET with an unknown cursor", method: "GET", header: []string{"LAST-EVENT-ID", "garbage"}, status: 400, code: -32600},
	{name: "a GET with two cursors", method: "GET", header: []string{cursorHeader, "a", cursorHeader, "b"}, status: 400, code: -32600},
	{name: "a GET with two cursors in one line", method: "GET", header: []string{cursorHeader, "a, b"}, status: 400, code: -32600},
	{name: "a GET with two sessions", method: "GET", header: []string{sessionHeader, "x", sessionHeader, "y"}, status: 400, code: -32600},
	{name: "a GET of nobody's", method: "GET", header: []string{sessionHeader, "nobody"}, status: 404, code: -32001},
	{name: "a DELETE of nobody's", method: "DELETE", header: []string{sessionHeader, "nobody"}, status: 404, code: -32001},
	{name: "a DELETE without a session", method: "DELETE", header: []string{sessionHeader, ""}, status: 400, code: -32600},
	{name: "a preflight of a browser", method: "OPTIONS", header: []string{"Access-Control-Request-Method", "POST"}, status: 405, code: -32600, allow: allowed},
	{name: "HEAD", method: "HEAD", status: 405, code: -32600, allow: allowed},
	{name: "PUT", method: "PUT", body: ping, status: 405, code: -32600, allow: allowed},
	{name: "a verb that is overridden", method: "PUT", header: []string{"X-HTTP-Method-Override", "POST"}, body: ping, status: 405, code: -32600, allow: allowed},
}

// accepted are requests that the server accepts, and whose answers a router could change.
var accepted = []exchange{
	{name: "a ping", body: ping, status: 200},
	{name: "a body at the limit", body: ping + strings.Repeat(" ", maxBody-len(ping)), status: 200},
	{name: "a type with parameters", body: ping, header: []string{"content-type", "Application/JSON; charset=utf-8"}, status: 200},
	{name: "the same session twice", body: ping, header: []string{sessionHeader, "own", sessionHeader, "own"}, status: 200},
	{name: "the same session twice in one line", body: ping, header: []string{sessionHeader, "own, own"}, status: 200},
	{name: "the same version twice in one line", body: ping, header: []string{"MCP-Protocol-Version", "2025-11-25, 2025-11-25"}, status: 200},
	{name: "a session in other case", body: ping, header: []string{"mcp-session-id", "own"}, status: 200},
	{name: "a cursor on a POST", body: ping, header: []string{cursorHeader, "garbage"}, status: 200},
	{name: "a tool's error", body: unknownTool, status: 200, code: rejoin.CodeMethodNotFound, id: `"p"`},
	{name: "a notification", body: notification, status: 202},
	{name: "a response", body: response, status: 202, header: []string{"Accept", "text/html"}},
}

// Every refusal is the server's own, in every header field and byte, wherever the server is mounted.
func refusals(e *exam) {
	mounts := []func(*rejoin.Server) http.Handler{e.mount("/mcp")}
	if e.Lend != nil {
		mounts = append(mounts, e.lend)
	}
	for _, mount := range mounts {
		for _, slash := range []string{"", "/"} {
			c, s := e.newClient(rejoin.Config{Eras: rejoin.EraLegacy, MaxBodyBytes: maxBody}, mount)
			for _, x := range refused {
				if x.owner && e.across {
					continue
				}
				e.try(c, "/mcp"+slash, s, x)
			}
			if stats := c.Server().Stats(); !e.across && (stats.Refused != int64(len(refused)) || stats.Sessions != 1 || stats.Streams != 1 || stats.Connections != 0) {
				e.Errorf("after %d refusals: %+v", len(refused), stats)
			}
			for range 2 {
				e.try(c, "/mcp"+slash, s, accepted[0]) // and the session is still there, for each process
			}
		}
	}
	if !e.across { // each server has room of its own, and drains alone
		e.full()
		e.draining()
	}
}

func (e *exam) lend(s *rejoin.Server) http.Handler { return e.Lend(e, s, "/mcp", "/admin", admin) }

// A client that is refused for want of room, or because the server drains, is told when to come back.
func (e *exam) full() {
	c, s := e.newClient(rejoin.Config{MaxSessions: 1, NoStandalone: true}, e.mount("/mcp"))
	none := []string{sessionHeader, ""}
	e.try(c, "/mcp", s, exchange{name: "one session too many", body: initialize, header: none, status: 503, code: -32000, id: "1", retry: "1"})
	e.try(c, "/mcp", s, exchange{name: "a GET where there is none", method: "GET", status: 405, code: -32600, allow: "POST, DELETE"})
}

func (e *exam) draining() {
	c, s := e.newClient(rejoin.Config{}, e.mount("/mcp"))
	if err := c.Server().Drain(e.Context()); err != nil {
		e.Errorf("Drain: %v", err)
	}
	for _, x := range []exchange{
		{name: "initialize while draining", body: initialize, header: []string{sessionHeader, ""}, status: 503, code: -32000, id: "1", retry: "1"},
		{name: "a request while draining", body: ping, status: 503, code: -32000, id: `"p"`, retry: "1"},
		{name: "a GET while draining", method: "GET", status: 503, code: -32000, retry: "1"},
		{name: "a notification while draining", body: notification, status: 202},
		{name: "a DELETE while draining", method: "DELETE", status: 204},
		{name: "a second DELETE", method: "DELETE", status: 404, code: -32001},
	} {
		e.try(c, "/mcp", s, x)
	}
}

// Answers are the server's own in the same way. Those without a body have none, and a poll with nothing left to send gets 204.
func answers(e *exam) {
	for _, slash := range []string{"", "/"} {
		c, s := e.newClient(rejoin.Config{MaxBodyBytes: maxBody}, e.mount("/mcp"))
		path := "/mcp" + slash
		for _, x := range accepted {
			e.try(c, path, s, x)
		}
		stream := e.send(c, s.request(path, exchange{body: ping, header: []string{"accept", "text/event-stream"}}))
		e.wantStream(stream, "a ping whose client takes only a stream")
		at, ok := parseStream(stream.body)
		if !ok || len(at.messages) != 1 || at.cursor == "" {
			e.Errorf("a ping whose client takes only a stream: %q", stream.body)
		}
		e.try(c, path, s, exchange{
			name: "a poll with nothing left", method: "GET", header: []string{"last-event-id", at.cursor}, status: 204, kind: "text/event-stream",
		})
		e.try(c, path, s, exchange{name: "a DELETE", method: "DELETE", header: []string{cursorHeader, "garbage"}, status: 204})
		e.try(c, path, s, exchange{name: "a second DELETE", method: "DELETE", status: 404, code: -32001})
		e.try(c, path, s, exchange{name: "a poll of an ended session", method: "GET", header: []string{cursorHeader, at.cursor}, status: 404, code: -32001})
	}
}

// sessionID is the session of the exam's client.
type sessionID string

// newClient returns a client of a server that is mounted by mount, and the client's session.
func (e *exam) newClient(cfg rejoin.Config, mount func(*rejoin.Server) http.Handler) (*rejointest.Client, sessionID) {
	e.Helper()
	var session sessionID
	empty := app(func(context.Context, *rejoin.Request) (any, error) {
		return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "there is nothing here")
	})
	c := e.start(empty, rejointest.Config{Server: cfg, Handler: func(srv *rejoin.Server) http.Handler {
		next := mount(srv)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if id := r.Header.Get(sessionHeader); session == "" {
				session = sessionID(id) // first set by the client's initialized notification
			}
			next.ServeHTTP(w, r)
		})
	}})
	return c, session
}

func (s sessionID) request(path string, x exchange) *http.Request {
	method := x.method
	if method == "" {
		method = http.MethodPost
	}
	r := request(method, path, x.body)
	for i := 0; i < len(x.header); i += 2 {
		delete(r.Header, http.CanonicalHeaderKey(x.header[i]))
	}
	for i := 0; i < len(x.header); i += 2 {
		name, value := x.header[i], x.header[i+1]
		if canonical := http.CanonicalHeaderKey(name); value == "" || name != canonical {
			r.Header[canonical] = nil // nil stops the client from adding its own
		}
		if value == "own" || value == "own, own" {
			value = strings.ReplaceAll(value, "own", string(s))
		}
		if value != "" {
			r.Header[name] = append(r.Header[name], value) // in the given spelling
		}
	}
	return r
}

// try sends a request and compares its whole answer.
func (e *exam) try(c *rejointest.Client, path string, s sessionID, x exchange) {
	e.Helper()
	r := s.request(path, x)
	a := e.send(c, r)
	kind := x.kind
	if kind == "" && (x.code != 0 || x.status == http.StatusOK) {
		kind = "application/json"
	}
	bad := func(format string, args ...any) {
		e.Helper()
		e.Errorf("%s: %s %s: %s: %+v", x.name, r.Method, path, fmt.Sprintf(format, args...), a)
	}
	if a.status != x.status {
		bad("the status is not %d", x.status)
	}
	for name, want := range map[string]string{
		"Content-Type": kind, "Allow": x.allow, "Retry-After": x.retry, sessionHeader: "", "Location": "", "Content-Encoding": "",
		"Cache-Control": "", "X-Accel-Buffering": "", "X-Content-Type-Options": "",
	} {
		if got := strings.Join(a.header.Values(name), "; "); got != want {
			bad("%s is %q, not %q", name, got, want)
		}
	}
	if n := a.header.Get("Content-Length"); n != "" && r.Method != http.MethodHead && n != strconv.Itoa(len(a.body)) {
		bad("Content-Length is %s", n)
	}
	switch {
	case r.Method == http.MethodHead, x.code == 0 && x.status != http.StatusOK:
		if a.body != "" {
			bad("there is a body")
		}
	case x.code == 0:
		if a.body != pong {
			bad("the body is not the answer")
		}
	default:
		e.wantError(a.body, x, bad)
	}
}

// wantError checks that a body is one JSON-RPC error.
func (e *exam) wantError(body string, x exchange, bad func(string, ...any)) {
	e.Helper()
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	in := json.NewDecoder(strings.NewReader(body))
	in.DisallowUnknownFields()
	id := x.id
	if id == "" {
		id = "null"
	}
	switch err := in.Decode(&m); {
	case err != nil || in.More() || m.Version != "2.0" || m.Error == nil:
		bad("the body is not a JSON-RPC error")
	case m.Error.Code != x.code || m.Error.Message == "":
		bad("the code is not %d, or there is no message", x.code)
	case string(m.ID) != id:
		bad("the id is not %s", id)
	}
}
