package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// fuzzWorld is a server with sessions in several states, for fuzz targets that send one request. There is no network: the server is called directly, in
// virtual time.
type fuzzWorld struct {
	t       lean
	server  *rejoin.Server
	held    []*rejoin.Call // the calls of "hold", the oldest first
	members []*fuzzMember
	foreign *fuzzMember
	setting setting
	tokens  []string // for a strings.Replacer: {A} is a session's id, {A1.0} the first event id of its first stream
}

// setting has bits that change the server and the one request.
type setting uint8

const (
	noStandalone setting = 1 << iota
	draining
	noFlush  // the request's writer cannot flush
	modeSSE  // the Mode of the request's policy
	modeJSON // likewise
	eraBoth  // the modern era is offered, too
	eraEach  // the era is chosen by the client
)

// fuzzMember is a session, with its requests that are held.
type fuzzMember struct {
	user, version, id string
	session           *rejoin.Session
	running           []*heldCall
}

type heldCall struct {
	call   *rejoin.Call
	answer *fuzzAnswer
	cancel context.CancelFunc
}

// fuzzAnswer is the answer so far to a request that is served without a network.
type fuzzAnswer struct {
	*kit.Response
	polls bool // the session's client can poll
}

func (m *fuzzMember) polls() bool { return m.version == kit.Polling }

// newFuzzWorld opens four sessions. For this user: A, which can poll (stream 1: parked, 2: sealed, 3: running; and a backlog), B, which may send
// batches, and C, which can do neither. For another user: F, like A.
func newFuzzWorld(t *testing.T, what setting) *fuzzWorld {
	w := &fuzzWorld{t: lean{t}, setting: what}
	eras := rejoin.EraLegacy
	switch {
	case what&eraEach != 0:
		eras = rejoin.EraDefault
	case what&eraBoth != 0:
		eras = rejoin.EraBoth
	}
	w.server = kit.NewServer(t, kit.BothEras{Fake: &kit.Fake{OnRequest: w.request}, Handler: http.HandlerFunc(w.modern)}, rejoin.Config{
		Eras:         eras,
		MaxBodyBytes: 4096, Logger: kit.QuietLogger(), AllowedOrigins: []string{"https://good.example"},
		NoStandalone: what&noStandalone != 0,
		Principal:    func(r *http.Request) string { return r.Header.Get("User") },
		PolicyFor:    w.policy,
	})
	for _, m := range []struct{ name, user, version string }{{"A", "me", kit.Polling}, {"B", "me", kit.Batches}, {"C", "me", kit.Legacy}, {"F", "another", kit.Polling}} {
		w.open(m.name, m.user, m.version)
	}
	w.foreign = w.members[3]
	if what&(eraBoth|eraEach) != 0 {
		w.openTasks()
	}
	kit.Elapse(time.Second) // so that a change of a session's times is visible
	if what&draining != 0 {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		go func() { _ = w.server.Drain(ctx) }() // its error does not matter
		synctest.Wait()
	}
	return w
}

// policy changes the policy of the one request.
func (w *fuzzWorld) policy(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
	switch {
	case r.HTTP.Header.Get("Hold") != "":
		p.TaskAfter, p.AbandonAfter = 1, -1
	case r.HTTP.Header.Get("Thrown") == "":
	case w.setting&modeSSE != 0:
		p.Mode = rejoin.ModeSSE
	case w.setting&modeJSON != 0:
		p.Mode = rejoin.ModeJSON
	}
	return p
}

// request is the app's.
func (w *fuzzWorld) request(c *rejoin.Call) {
	h := c.Handle()
	done := func() { _ = c.Reply(json.RawMessage(`"done"`)) }
	switch c.Method() {
	case "initialize":
		w.initialize(c)
	case "hold":
		w.held = append(w.held, c)
	case "tell":
		_ = h.Notify("notifications/told", nil)
		done()
	case "close":
		_ = h.Notify("notifications/told", nil)
		_ = h.CloseStream(0)
		_ = h.Notify("notifications/told", nil)
		done()
	case "ask":
		h.Session().AskFunc(c.Context(), "roots/list", nil, func(json.RawMessage, error) { done() })
	case "later":
		go func() {
			kit.Elapse(150 * time.Millisecond) // after StreamAfter
			done()
		}()
	case "fail":
		_ = c.Fail(rejoin.Errorf(7, "no"))
	default:
		done()
	}
}

// modern is the handler of the modern era. It returns the request that it got, with a status that nothing else has. A server/discover gets an
// answer, because the server reads that. The calls of the world's tasks are held.
func (w *fuzzWorld) modern(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // it is in memory
	if r.Header.Get("Hold") != "" && unquoted(fieldOf(body, "method")) == "tools/call" {
		w.holdTask(rw, r, body)
		return
	}
	if m, err := jsonrpc.Parse(body, 300); err == nil && m.Kind == jsonrpc.Request && string(m.Method) == "server/discover" {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusPartialContent)
		_, _ = rw.Write(jsonrpc.AppendError(nil, m.ID, 206, "handed", nil))
		return
	}
	rw.Header().Set("X-Session", strings.Join(r.Header["Mcp-Session-Id"], "|")+strings.Join(r.Header["Last-Event-Id"], "|"))
	rw.WriteHeader(http.StatusPartialContent)
	_, _ = rw.Write(body)
}

// initialize answers with the client's version, if it is known.
func (w *fuzzWorld) initialize(c *rejoin.Call) {
	var p struct{ ProtocolVersion string }
	_ = json.Unmarshal(c.Params(), &p)
	if !slices.Contains([]string{kit.Polling, kit.Legacy, kit.Batches, "2024-11-05"}, p.ProtocolVersion) {
		p.ProtocolVersion = kit.Polling
	}
	_ = c.Reply(json.RawMessage(`{"protocolVersion":"` + p.ProtocolVersion + `","capabilities":{},"serverInfo":{"name":"w","version":"1"}}`))
}

func (w *fuzzWorld) open(name, user, version string) {
	m := &fuzzMember{user: user, version: version}
	a, _ := w.post(m, strings.Replace(kit.Initialize, kit.Polling, version, 1))
	m.id = a.Head.Get("Mcp-Session-Id")
	require.NotEmpty(w.t, m.id)
	w.members = append(w.members, m)
	w.tokens = append(w.tokens, "{"+name+"}", m.id)
	text := "hello"
	if user != "me" {
		text = kit.Secret
	}
	tell := func(k int) {
		r := m.running[k]
		require.NoError(w.t, r.call.Handle().Notify("notifications/told", map[string]string{"text": text}))
		synctest.Wait()
	}
	if m.polls() {
		parked, sealed := w.hold(m), w.hold(m)
		tell(0)
		require.NoError(w.t, parked.call.Handle().CloseStream(0))
		tell(0)
		tell(1)
		sealed.cancel()
		synctest.Wait()
		require.NoError(w.t, sealed.call.Reply(json.RawMessage(`"`+text+`"`)))
		m.session = parked.call.Handle().Session()
		for range 2 {
			require.NoError(w.t, m.session.Notify(context.Background(), "notifications/told", json.RawMessage(`{"text":"`+text+`"}`)))
		}
	}
	w.hold(m)
	tell(len(m.running) - 1)
	for i, r := range m.running {
		for j, id := range eventIDsIn(r.answer.text()) {
			w.tokens = append(w.tokens, fmt.Sprintf("{%s%d.%d}", name, i+1, j), id)
		}
	}
}

// hold starts a request that is answered only by the test.
func (w *fuzzWorld) hold(m *fuzzMember) *heldCall {
	n := len(w.held)
	a, cancel := w.post(m, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"hold"}`, len(m.running)+1))
	require.Len(w.t, w.held, n+1)
	r := &heldCall{w.held[n], a, cancel}
	m.running = append(m.running, r)
	return r
}

func (w *fuzzWorld) post(m *fuzzMember, body string) (*fuzzAnswer, context.CancelFunc) {
	h := http.Header{"User": {m.user}, "Content-Type": {"application/json"}}
	if m.id != "" {
		h["Mcp-Session-Id"] = []string{m.id}
	}
	return w.serve(&http.Request{Method: http.MethodPost, Header: h, Host: "localhost", Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, m.polls())
}

// get polls.
func (w *fuzzWorld) get(m *fuzzMember, cursor string) (*fuzzAnswer, context.CancelFunc) {
	h := http.Header{"User": {m.user}, "Mcp-Session-Id": {m.id}}
	if cursor != "" {
		h["Last-Event-Id"] = []string{cursor}
	}
	return w.serve(&http.Request{Method: http.MethodGet, Header: h, Host: "localhost", Body: http.NoBody}, m.polls())
}

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}

// serve serves a request, and returns when all goroutines of the bubble are blocked.
func (w *fuzzWorld) serve(r *http.Request, polls bool) (*fuzzAnswer, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.LocalAddrContextKey, loopback))
	r.URL = &url.URL{Path: "/mcp"}
	r = r.WithContext(ctx)
	if r.Header.Get("Thrown") == "" || w.setting&noFlush == 0 {
		return &fuzzAnswer{kit.Serve(w.server, r), polls}, cancel
	}
	res := &kit.Response{Head: http.Header{}}
	go func() {
		w.server.Serve(struct{ http.ResponseWriter }{res}, r)
		res.Mu.Lock()
		defer res.Mu.Unlock()
		res.Ended = true
	}()
	synctest.Wait()
	return &fuzzAnswer{res, polls}, cancel
}

// text returns what was written so far.
func (a *fuzzAnswer) text() string {
	synctest.Wait()
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Body.String()
}

// streams reports whether the answer is a stream.
func (a *fuzzAnswer) streams() bool {
	return a.Status == http.StatusOK && a.Head.Get("Content-Type") == "text/event-stream"
}

// finish disconnects the client, if it is still connected. The server must notice.
func (a *fuzzAnswer) finish(t require.TestingT, cancel context.CancelFunc) {
	cancel()
	synctest.Wait()
	a.Mu.Lock()
	defer a.Mu.Unlock()
	require.True(t, a.Ended, "the handler has not returned")
}

// snapshot is the state that is visible from outside, without the count of refusals.
func (w *fuzzWorld) snapshot() (rejoin.Stats, map[rejoin.SessionRef]rejoin.SessionInfo) {
	synctest.Wait()
	stats := w.server.Stats()
	stats.Refused = 0
	all := map[rejoin.SessionRef]rejoin.SessionInfo{}
	for info := range w.server.Sessions() {
		all[info.Ref] = info
	}
	return stats, all
}

// proveAlive answers the held calls of a session, and checks that their clients get the answers.
func (w *fuzzWorld) proveAlive(m *fuzzMember) {
	for i, r := range m.running {
		a, cancel := r.answer, context.CancelFunc(nil)
		want := 2
		if a.Ended { // parked or sealed
			cursor := eventIDsIn(a.text())
			a, cancel = w.get(m, cursor[len(cursor)-1])
			want = []int{3, 2}[i]
		}
		if r.call.Context().Err() == nil {
			require.NoError(w.t, r.call.Reply(json.RawMessage(`"done"`)))
		}
		got := readStream(w.t, a.text(), m.polls())
		require.Equal(w.t, http.StatusOK, a.Status)
		require.True(w.t, a.Ended, "a stream ends with its response")
		last := got.messages[len(got.messages)-1]
		require.EqualValues(w.t, want, last.seq)
		require.Equal(w.t, fmt.Sprint(i+1), last.responseTo)
		if cancel != nil {
			cancel()
		}
	}
}
