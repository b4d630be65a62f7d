package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// rowWorld is a server with one client, whose tools the test controls.
type rowWorld struct {
	t      *testing.T
	c      *rejointest.Client
	next   func() *kit.ManualTool
	opened *int // how often App.Open was called
	seen   map[string]bool
}

// countedOpens counts the calls of App.Open.
type countedOpens struct {
	rejoin.App
	n int
}

func (a *countedOpens) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	a.n++
	return a.App.Open(r, s, state)
}

func (a *countedOpens) Modern() http.Handler {
	if modern, ok := a.App.(rejoin.ModernApp); ok {
		return modern.Modern()
	}
	return nil
}

func newWorld(t *testing.T, cfg rejointest.Config) *rowWorld {
	t.Helper()
	app, next := kit.ManualTools()
	counted := &countedOpens{App: app}
	cfg.Capabilities = kit.Offers
	return &rowWorld{t, rejointest.New(t, counted, cfg), next, &counted.n, map[string]bool{}}
}

// call calls a tool.
func (w *rowWorld) call() (*rejointest.Call, *kit.ManualTool) {
	w.t.Helper()
	call := w.c.CallTool("x", nil)
	return call, w.next()
}

// request is a request in the session. header are names and values in turn, as for kit.Request; a name that comes twice has two lines.
func (w *rowWorld) request(method, body string, header ...string) *http.Request {
	w.t.Helper()
	r := kit.Request(w.t, method, body, header...)
	lines := http.Header{}
	for i := 0; i < len(header); i += 2 {
		lines.Add(header[i], header[i+1])
	}
	for name, values := range lines {
		if len(values) > 1 {
			r.Header[name] = values
		}
	}
	return r
}

// traceLeft is everything that a request can leave behind.
type traceLeft struct {
	stats    rejoin.Stats
	sessions []rejoin.SessionInfo
	opened   int
	running  []string
	kind     string
}

// trace returns what has been left so far. It looks for goroutines only if kind is new, because that takes long.
func (w *rowWorld) trace(kind string) traceLeft {
	found := traceLeft{sessions: kit.Sessions(w.c.Server()), opened: *w.opened, kind: kind}
	found.stats = w.c.Server().Stats()
	if !w.seen[kind] {
		found.running = kit.Goroutines()
	}
	for i := range found.sessions {
		found.sessions[i].Active = time.Time{} // every request of a session changes it
	}
	return found
}

// untouched checks that a request has changed nothing but the count of refusals.
func (w *rowWorld) untouched(before traceLeft, refused int64) {
	w.t.Helper()
	after := w.trace(before.kind)
	w.seen[before.kind] = true
	before.stats.Refused += refused
	for _, s := range []*rejoin.Stats{&before.stats, &after.stats} { // these say why
		s.Away, s.Forwarded, s.Unreachable, s.OwnerLost, s.Foreign, s.Misdirected, s.Unsearched = 0, 0, 0, 0, 0, 0, 0
	}
	require.Equal(w.t, before.stats, after.stats, before.kind)
	require.ElementsMatch(w.t, before.sessions, after.sessions, before.kind)
	require.Equal(w.t, before.opened, after.opened, "%s: the app was asked for a session", before.kind)
	require.LessOrEqual(w.t, len(after.running), len(before.running), "%s: %s", before.kind, strings.Join(after.running, "\n\n"))
}

// ends sends a request whose answer must end soon. A stream fails the test.
func (w *rowWorld) ends(req *http.Request) (string, *http.Response) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
	defer cancel()
	return kit.ReadAll(w.t, w.c.Do(req.WithContext(ctx)))
}

// refuses checks that a request is refused, and that nothing is left of it. want is the status, the code, the id and data.reason; says is in the
// message; head are the header fields besides Content-Type. It returns the body.
func (w *rowWorld) refuses(req *http.Request, want, says string, head ...string) string {
	w.t.Helper()
	return w.refusesBy(1, req, want, says, head...)
}

// refusesBy is refuses where the server of the client has counted so many refusals: none where it has passed on that of another process.
func (w *rowWorld) refusesBy(counted int64, req *http.Request, want, says string, head ...string) string {
	w.t.Helper()
	what := req.Method + ": " + want
	before := w.trace(what)
	body, res := w.ends(req)
	if res.StatusCode == http.StatusRequestEntityTooLarge {
		kit.Elapse(time.Second) // net/http waits a little before it closes the connection of a client that still sends
	}
	require.Equal(w.t, want, kit.Refusal(w.t, body, res), "%s: %s", what, body)
	kit.RequireHead(w.t, res.Header, append([]string{"Content-Type", "application/json"}, head...)...)
	requireError(w.t, body, says)
	w.untouched(before, counted)
	return body
}

// requireError checks that a body is a JSON-RPC error and nothing else.
func requireError(t *testing.T, body, says string) {
	t.Helper()
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(body), &members))
	require.Len(t, members, 3, body)
	require.Equal(t, `"2.0"`, string(members["jsonrpc"]))
	require.NotEmpty(t, members["id"], "an id is there, if only null")
	var e struct{ Message string }
	require.NoError(t, json.Unmarshal(members["error"], &e))
	require.NotEmpty(t, e.Message)
	refusedWith.Store(e.Message, true)
	require.Contains(t, e.Message, says)
}

// accepts checks an answer without a body to a request that changes nothing visible.
func (w *rowWorld) accepts(req *http.Request, status int, head ...string) {
	w.t.Helper()
	before := w.trace(fmt.Sprint(req.Method, ": ", status))
	body, res := w.ends(req)
	require.Equal(w.t, status, res.StatusCode, body)
	require.Empty(w.t, body)
	kit.RequireHead(w.t, res.Header, head...)
	w.untouched(before, 0)
}

// answers checks a plain answer to a request.
func (w *rowWorld) answers(req *http.Request) {
	w.t.Helper()
	body, res := w.ends(req)
	require.Equal(w.t, http.StatusOK, res.StatusCode, body)
	require.Equal(w.t, "result", kit.MessageSummary(body))
	kit.RequireHead(w.t, res.Header, "Content-Type", "application/json")
	require.EqualValues(w.t, len(body), res.ContentLength)
}

// streams checks that a request is answered with a stream, returns the summary of what has come, and cuts the stream.
func (w *rowWorld) streams(req *http.Request) string {
	w.t.Helper()
	res := w.c.Do(req)
	kit.RequireStream(w.t, res)
	body := make([]byte, 64<<10)
	n, err := res.Body.Read(body)
	if n == 0 {
		require.NoError(w.t, err)
	}
	require.NoError(w.t, res.Body.Close())
	synctest.Wait()
	return kit.EventsSummary(string(body[:n]))
}

// lives checks that the session still works.
func (w *rowWorld) lives() {
	w.t.Helper()
	w.answers(w.request(http.MethodPost, kit.Ping))
	call, tool := w.call()
	tool.Returns("done")
	require.Equal(w.t, `"done"`, string(call.Result()))
}

const (
	aNotification = `{"jsonrpc":"2.0","method":"notifications/x"}`
	anAnswer      = `{"jsonrpc":"2.0","id":"nobody.1","result":{}}`
)

// verb is a request of each kind that belongs to a session.
type rowVerb struct{ name, method, body, id string }

var sessionVerbs = []rowVerb{
	{"a request", http.MethodPost, kit.Ping, `"mine"`},
	{"a notification", http.MethodPost, aNotification, "null"},
	{"an answer", http.MethodPost, anAnswer, `"nobody.1"`},
	{"a batch", http.MethodPost, "[" + kit.Ping + "]", "null"},
	{"a GET", http.MethodGet, "", "null"},
	{"a DELETE", http.MethodDelete, "", "null"},
}
