// Package exampletest is the test of all router examples, from a client's point of view. It uses real sockets and the real clock, and waits
// for events, with one deadline for all.
package exampletest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	deadline = 30 * time.Second

	ada   = "token-of-ada"
	grace = "token-of-grace"
	root  = "token-of-root"

	origin = "http://localhost:6274"
)

// Run starts an example by its run function, calls its tool, polls, sends requests as an admin and as a web page, and ends it.
func Run(t *testing.T, run func(ctx context.Context, ln net.Listener) error) {
	t.Helper()
	site, stop, wait := start(t, run)
	t.Run("strangers are turned away", site.strangers)
	t.Run("web pages are let in by CORS", site.webPages)
	t.Run("a call is closed and polled to its result", site.polledCall)
	t.Run("a session answers only to its user", site.foreignSession)
	t.Run("an admin lists sessions and closes a stream", site.admin)

	last := open(t, site, grace)
	standalone := last.listen(t)
	stop()
	standalone.toEnd(t)
	wait()
	_, err := new(net.Dialer).DialContext(site.ctx, "tcp", strings.TrimPrefix(site.url, "http://"))
	require.Error(t, err, "it still listens after its end")
}

// start starts an example on a port of its own. stop tells it to end. wait waits for its end, which must be clean.
func start(t *testing.T, run func(ctx context.Context, ln net.Listener) error) (started *site, stop, wait func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serving, stop := context.WithCancel(ctx)
	t.Cleanup(stop)
	ended := make(chan error, 1)
	go func() { ended <- run(serving, ln) }()
	wait = func() {
		t.Helper()
		select {
		case err := <-ended:
			require.NoError(t, err, "no client has anything left to fetch, so it ends cleanly")
		case <-ctx.Done():
			t.Fatal("it did not end")
		}
	}
	return &site{ctx: ctx, url: "http://" + ln.Addr().String()}, stop, wait
}

func (site *site) strangers(t *testing.T) {
	for _, at := range []struct{ method, path, token string }{
		{http.MethodPost, "/mcp", ""},
		{http.MethodPost, "/mcp", "token-of-nobody"},
		{http.MethodGet, "/mcp", ""},
		{http.MethodDelete, "/mcp/", ""},
		{http.MethodGet, "/admin/sessions", ""},
		{http.MethodGet, "/admin/sessions", ada},
		{http.MethodPost, "/admin/close", ada},
	} {
		res := site.do(t, request{method: at.method, path: at.path, token: at.token, body: initialize})
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusUnauthorized, res.StatusCode, "%s %s with token %q", at.method, at.path, at.token)
		require.Equal(t, "Bearer", res.Header.Get("WWW-Authenticate"))
	}
}

func (site *site) webPages(t *testing.T) {
	preflight := func(from, method string) *http.Response {
		return site.do(t, request{method: http.MethodOptions, path: "/mcp", header: map[string]string{
			"Origin":                         from,
			"Access-Control-Request-Method":  method,
			"Access-Control-Request-Headers": strings.Join(askedFor, ","),
		}})
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		res := preflight(origin, method)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 2, res.StatusCode/100, "a preflight has no token and needs none: %s", res.Status)
		require.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
		require.Contains(t, res.Header.Get("Access-Control-Allow-Methods"), method)
		require.Subset(t, names(res.Header.Get("Access-Control-Allow-Headers")), askedFor)
		require.Contains(t, names(strings.Join(res.Header.Values("Vary"), ",")), "origin")
	}
	send := func(method, token, session, body string) (int, http.Header) {
		res := site.do(t, request{method: method, path: "/mcp", token: token, body: body, header: map[string]string{
			"Origin": origin, "Mcp-Session-Id": session, "Mcp-Protocol-Version": protocol,
		}})
		require.NoError(t, res.Body.Close())
		return res.StatusCode, res.Header
	}
	id := ""
	for _, test := range []struct {
		what, method, token, body string
		status                    int
	}{
		{"initialize", http.MethodPost, ada, initialize, http.StatusOK}, // rejoin and CORS agree on the origins
		{"a call's stream", http.MethodPost, ada, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet","arguments":{"seconds":0.2}}}`, http.StatusOK},
		{"the standalone stream", http.MethodGet, ada, "", http.StatusOK},
		{"no token", http.MethodPost, "", initialize, http.StatusUnauthorized},
		{"another's session", http.MethodPost, grace, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, http.StatusNotFound},
		{"no JSON", http.MethodPost, ada, "{", http.StatusBadRequest},
		{"the end", http.MethodDelete, ada, "", http.StatusNoContent},
	} {
		status, head := send(test.method, test.token, id, test.body)
		require.Equal(t, test.status, status, test.what)
		require.Equal(t, []string{origin}, head.Values("Access-Control-Allow-Origin"), "%s: the page may read it", test.what)
		exposed := names(strings.Join(head.Values("Access-Control-Expose-Headers"), ","))
		require.Subset(t, exposed, []string{"mcp-session-id", "www-authenticate", "retry-after"}, test.what)
		require.Contains(t, names(strings.Join(head.Values("Vary"), ",")), "origin", test.what)
		if id == "" {
			id = head.Get("Mcp-Session-Id")
		}
	}
	for _, from := range []string{"http://evil.example", "null", "http://localhost:6275"} { // rejoin and CORS both refuse them
		res := preflight(from, http.MethodPost)
		require.NoError(t, res.Body.Close())
		require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"), from)
		res = site.do(t, request{method: http.MethodPost, path: "/mcp", token: ada, body: initialize, header: map[string]string{"Origin": from}})
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusForbidden, res.StatusCode, from)
		require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"), from)
	}
}

// askedFor are the header fields that clients send, as a browser names them in a preflight.
var askedFor = []string{
	"accept", "authorization", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id",
}

// names splits a list of header names, in lower case.
func names(list string) []string {
	all := strings.Split(strings.ToLower(list), ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// polledCall sends requests of other users through the same routes while the call runs, because routers reuse their contexts.
func (site *site) polledCall(t *testing.T) {
	s, other := open(t, site, ada), open(t, site, grace)
	first := s.call(t, "0.2")
	first.toEnd(t)
	require.Nil(t, first.result, "the client is let go before the result")
	require.NotEmpty(t, first.cursor, "a client without an event id cannot come back")
	require.Positive(t, first.retry)
	for range 20 {
		res := other.do(t, http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "")
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	text, steps := s.poll(t, first)
	require.Equal(t, "Hello, Ada!", text)
	require.Equal(t, []int{0, 1, 2, 3}, steps, "progress comes once each, in order")
	s.end(t)
	other.end(t)
}

func (site *site) foreignSession(t *testing.T) {
	s := open(t, site, ada)
	thief := &session{site, grace, s.id}
	res := thief.do(t, http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "")
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusNotFound, res.StatusCode)
	s.end(t)
}

func (site *site) admin(t *testing.T) {
	require.Empty(t, list(t, site), "sessions that were ended are gone")
	s := open(t, site, ada)
	call := s.call(t, "3600")
	call.toEnd(t)
	poll := s.stream(t, http.MethodGet, "", call.cursor)
	poll.next(t) // the client has polled

	sessions := list(t, site)
	require.Len(t, sessions, 1)
	require.Equal(t, "Ada", sessions[0].User)
	require.NotEqual(t, s.id, sessions[0].Ref, "what opens a session is not shown")
	ref := ""
	for _, at := range sessions[0].Streams {
		if at.Method == "tools/call" {
			require.Equal(t, "live", at.State)
			ref = at.Ref
		}
	}
	require.NotEmpty(t, ref, "the call is listed: %+v", sessions)

	res := site.do(t, request{method: http.MethodPost, path: "/admin/close?stream=" + ref, token: root})
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusNoContent, res.StatusCode)
	poll.toEnd(t)
	require.Nil(t, poll.result, "the client is let go, the call goes on")

	res = site.do(t, request{method: http.MethodPost, path: "/admin/close?stream=nonesuch", token: root})
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusNotFound, res.StatusCode)
	s.end(t)
	require.Empty(t, list(t, site))
}

// listed is a session in the admin's list.
type listed struct {
	Ref     string `json:"ref"`
	User    string `json:"user"`
	Streams []struct {
		Ref    string `json:"ref"`
		Method string `json:"method"`
		State  string `json:"state"`
	} `json:"streams"`
}

func list(t *testing.T, site *site) (sessions []listed) {
	t.Helper()
	res := site.do(t, request{method: http.MethodGet, path: "/admin/sessions", token: root})
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, res.Header.Get("Content-Type"), "application/json")
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &sessions), "%s", body)
	require.NotNil(t, sessions, "no sessions are an empty list: %s", body)
	return sessions
}
