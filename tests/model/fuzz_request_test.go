package model_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// thrown is one arbitrary request. The value of a header field may contain placeholders of the world (see its tokens). "|" separates the values
// of several lines; "" leaves the field out.
type thrown struct {
	method, host, origin, contentType, accept, session, version, cursor, body string
	chunked                                                                   bool
	setting                                                                   uint8
}

func ordinary(method, body string) thrown {
	return thrown{method, "localhost", "", "application/json", "application/json, text/event-stream", "{A}", "", "", body, false, 0}
}

// fuzzSeeds returns the rows of the tables about refusals and cursors, and a request for each thing that the app does.
func fuzzSeeds() (all []thrown) {
	for _, row := range kit.Refusals {
		x := ordinary(row.Method, row.Body)
		if row.Method == "" {
			x.method = http.MethodPost
		}
		for i := 0; i < len(row.Header); i += 2 {
			*map[string]*string{
				"Origin": &x.origin, "Content-Type": &x.contentType, "Accept": &x.accept, "Mcp-Session-Id": &x.session, "Mcp-Protocol-Version": &x.version,
			}[row.Header[i]] = row.Header[i+1]
		}
		all = append(all, x)
	}
	for _, cursor := range []string{
		"", "{A1.0}", "{A1.1}", "{A2.0}", "{A2.1}", "{A3.0}", "{A3.1}", "{F1.1}", "{F2.0}", "{C1.0}", "garbage", "17", "{A1.1}.x", "{A1.1}9",
		"AAAAAAAAAAAAAAAAAAAAAA.0", "{A1.1}|{A1.0}", "|{A1.1}", " ",
	} {
		x := ordinary(http.MethodGet, "")
		x.cursor = cursor
		for _, what := range []setting{0, noStandalone, draining, noFlush} {
			x.session, x.setting = "{A}", uint8(what)
			all = append(all, x)
			x.session = "{C}"
			all = append(all, x)
		}
	}
	for _, method := range []string{"hold", "tell", "close", "ask", "later", "fail", "x", "ping"} {
		for _, session := range []string{"{A}", "{B}", "{C}", "{F}", "{A}|{F}", "{A}|{A}"} {
			x := ordinary(http.MethodPost, `{"jsonrpc":"2.0","id":"n","method":"`+method+`","params":{"_meta":{"progressToken":1}}}`)
			x.session = session
			for _, what := range []setting{0, draining, noFlush, modeSSE, modeJSON} {
				x.setting = uint8(what)
				all = append(all, x)
			}
			x.setting = 0
			x.accept = "text/event-stream"
			x.body = "[" + x.body + `,{"jsonrpc":"2.0","id":2,"method":"x"},{"jsonrpc":"2.0","method":"notifications/x"}]`
			all = append(all, x)
		}
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":3,"method":"hold"}`, `{"jsonrpc":"2.0","id":"x.1","result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","id":1,"method":"x"}]`, `[]`, `[1]`, `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1100) + `","method":"x"}`, `[{"jsonrpc":"2.0","id":1,"result":1}]`,
	} {
		x := ordinary(http.MethodPost, body)
		all = append(all, x)
		x.session, x.chunked = "{B}", true
		all = append(all, x)
	}
	again, lost, deleted, rebound := ordinary(http.MethodPost, kit.Initialize), ordinary(http.MethodPost, kit.Initialize), ordinary(http.MethodDelete, ""), ordinary(http.MethodPost, kit.Ping)
	again.session, lost.session = "", "{F}"
	for _, body := range []string{kit.ModernPing, kit.ModernNotification, kit.ModernListenBody, kit.Ping, kit.Initialize, "[" + kit.ModernPing + "]", kit.ModernPing[1:], strings.Replace(kit.ModernPing, "07-28", "13-99", 1)} {
		for _, version := range []string{"", "2026-07-28", "2025-11-25", "2999-01-01", "x", "2026-07-28|x"} {
			x := ordinary(http.MethodPost, body)
			x.version, x.cursor, x.setting = version, "{A1.1}", uint8(eraBoth)
			all = append(all, x)
			x.session, x.setting = "", uint8(eraBoth|draining)
			all = append(all, x)
		}
	}
	for _, extensions := range []string{`{"io.modelcontextprotocol/tasks":{}}`, `{"io.modelcontextprotocol\/tasks":null}`, `{}`, `[]`} {
		x := ordinary(http.MethodPost, strings.Replace(kit.ModernBody("server/discover", "", ""), `Capabilities":{`, `Capabilities":{"extensions":`+extensions, 1))
		x.setting = uint8(eraEach)
		all = append(all, x)
		x.session, x.setting = "", uint8(eraEach|draining)
		all = append(all, x)
	}
	modernGet := ordinary(http.MethodGet, "")
	modernGet.version, modernGet.setting = "2026-07-28", uint8(eraBoth)
	all = append(all, modernGet)
	late := again
	late.session, late.setting = "", uint8(draining)
	rebound.host, rebound.origin = "evil.example:80", "http://evil.example"
	all = append(all, taskSeeds()...)
	return append(all, again, late, lost, deleted, rebound)
}

// FuzzRequest sends one request to a server with running sessions. Any request is answered by the rules: a refusal is a JSON-RPC error that changes
// nothing; a stream is one that the session's client can read and resume; and a session of another user is neither revealed nor changed.
func FuzzRequest(f *testing.F) {
	for _, x := range fuzzSeeds() {
		f.Add(x.method, x.host, x.origin, x.contentType, x.accept, x.session, x.version, x.cursor, x.body, x.chunked, x.setting)
	}
	f.Fuzz(func(t *testing.T, method, host, origin, contentType, accept, session, version, cursor, body string, chunked bool, what uint8) {
		kit.Bubble(t, func(t *testing.T) {
			newFuzzWorld(t, setting(what)).throw(thrown{method, host, origin, contentType, accept, session, version, cursor, body, chunked, what})
		})
	})
}

func (w *fuzzWorld) throw(x thrown) {
	r := &http.Request{Method: x.method, Host: x.host, Header: http.Header{"User": {"me"}, "Thrown": {"yes"}}, Body: http.NoBody}
	tokens := strings.NewReplacer(w.tokens...)
	for name, value := range map[string]string{
		"Origin": x.origin, "Content-Type": x.contentType, "Accept": x.accept, "Mcp-Session-Id": x.session, "Mcp-Protocol-Version": x.version,
		"Last-Event-Id": x.cursor,
	} {
		if value != "" {
			r.Header[name] = strings.Split(tokens.Replace(value), "|")
		}
	}
	x.body = tokens.Replace(x.body)
	if w.setting&named != 0 {
		nameRequest(r, x.body)
	}
	if x.body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(x.body)), int64(len(x.body))
	}
	if x.chunked {
		r.ContentLength = -1
	}
	var m *fuzzMember // the session of the request, if there is one
	if i := slices.IndexFunc(w.members, func(m *fuzzMember) bool { return m.id == r.Header.Get("Mcp-Session-Id") }); i >= 0 && w.members[i].user == "me" {
		m = w.members[i]
	}
	stats, before := w.snapshot()
	a, cancel := w.serve(r, m != nil && m.polls())
	kit.Elapse(200 * time.Millisecond)
	text := a.text()
	if !strings.Contains(x.body+x.cursor+x.session, kit.Secret) {
		require.NotContains(w.t, text, kit.Secret)
	}
	modern, own := a.Status == http.StatusPartialContent, ""
	if a.Status < 400 && !modern {
		own = w.ownMethod(x)
	}
	require.False(w.t, a.Status < 400 && !modern && own == "" && w.setting&(eraBoth|eraEach) != 0 && core.IsModern(r.Header.Get("Mcp-Protocol-Version")), "it is for the modern handler")
	switch {
	case a.Status >= 400:
		w.refused(a, x.body)
	case modern:
		w.handed(a, x)
	case own != "":
		w.served(a, own, x.body)
	case a.streams():
		w.streamed(m, a, r.Header.Get("Last-Event-Id"))
	default:
		w.answered(m, a, x)
	}
	refused := a.Status >= 400
	if !refused && !modern && own == "" && m != nil && x.method == http.MethodPost {
		w.nothingTwice(m, []byte(x.body))
	}
	a.finish(w.t, cancel)
	statsNow, now := w.snapshot()
	for ref, info := range before {
		switch after := now[ref]; {
		case modern, own != "":
			require.Equal(w.t, info, after, "a modern request belongs to no session")
		case refused && info.Principal == "me":
			after.Active = info.Active // also a refused request of its user keeps the session alive
			require.Equal(w.t, info, after, "a refusal changes nothing")
		case info.Principal != "me":
			require.Equal(w.t, info, after, "another user's session")
		}
	}
	if own == "tasks/cancel" { // it is this user's
		statsNow.TasksRunning = stats.TasksRunning
	}
	if refused || modern || own != "" {
		require.Equal(w.t, stats, statsNow)
		for _, other := range w.members[:3] {
			w.proveAlive(other)
		}
	}
	w.proveAlive(w.foreign)
	w.foreignTaskLives()
}

// handed checks the answer of the modern handler: the door has accepted the request, and passed it on unchanged.
func (w *fuzzWorld) handed(a *fuzzAnswer, x thrown) {
	require.NotZero(w.t, w.setting&(eraBoth|eraEach))
	require.Zero(w.t, w.setting&draining)
	require.Equal(w.t, http.MethodPost, x.method)
	if m, err := jsonrpc.Parse([]byte(x.body), 300); err == nil && m.Kind == jsonrpc.Request && string(m.Method) == "server/discover" {
		require.Contains(w.t, a.text(), `"handed"`)
		require.True(w.t, w.setting&eraEach == 0 || mayProbe(x.body), "the probe of a client that declares no tasks is refused")
	} else {
		require.Equal(w.t, x.body, a.text())
	}
	require.Empty(w.t, a.Head.Get("X-Session"), "it sees neither session nor cursor")
	require.Empty(w.t, a.Head.Values("Mcp-Session-Id"))
	require.True(w.t, a.Ended)
	parseAll(w.t, []byte(x.body))
	require.True(w.t, core.IsModern(strings.Split(x.version, "|")[0]) || strings.Contains(x.body, "protocolVersion"))
}

// mayProbe reports whether a probe is served where the era is chosen by the client: its client declares tasks, or is one that never polls.
func mayProbe(body string) bool {
	at := func(path ...string) json.RawMessage {
		value := json.RawMessage(body)
		for _, name := range path {
			var members map[string]json.RawMessage
			if json.Unmarshal(value, &members) != nil {
				return nil
			}
			value = members[name]
		}
		return bytes.TrimSpace(value)
	}
	var name string
	_ = json.Unmarshal(at("params", "_meta", "io.modelcontextprotocol/clientInfo", "name"), &name) // "" if there is none
	declared := at("params", "_meta", "io.modelcontextprotocol/clientCapabilities", "extensions", "io.modelcontextprotocol/tasks")
	return bytes.HasPrefix(declared, []byte("{")) || slices.Contains([]string{"ai-sdk-mcp-client", "Java SDK MCP Client", "rmcp"}, name)
}

// refused checks a refusal.
func (w *fuzzWorld) refused(a *fuzzAnswer, sent string) {
	require.Contains(w.t, []int{400, 403, 404, 405, 406, 413, 415, 429, 503}, a.Status)
	require.Equal(w.t, "application/json", a.Head.Get("Content-Type"))
	require.Empty(w.t, a.Head.Values("Mcp-Session-Id"))
	require.True(w.t, a.Ended)
	require.Equal(w.t, a.Status == http.StatusServiceUnavailable || a.Status == http.StatusTooManyRequests, a.Head.Get("Retry-After") != "")
	require.Equal(w.t, a.Status == http.StatusMethodNotAllowed, a.Head.Get("Allow") != "")
	m, err := jsonrpc.Parse([]byte(a.text()), 300)
	require.NoError(w.t, err, a.text())
	require.Equal(w.t, jsonrpc.Failure, m.Kind)
	if id := string(m.ID); id != "null" {
		require.Contains(w.t, sent, id)
	}
	require.Contains(w.t, []string{"-32700", "-32600", "-32601", "-32602", "-32000", "-32001", "-32020", "-32021", "-32022"}, string(fieldOf(m.Err, "code")), a.text())
	require.Equal(w.t, a.Status == http.StatusNotFound, slices.Contains([]string{"-32001", "-32601"}, string(fieldOf(m.Err, "code"))))
}

func fieldOf(raw []byte, name string) []byte {
	v, _ := jsonrpc.Field(raw, name)
	return v
}

// streamed checks an answer that is a stream.
func (w *fuzzWorld) streamed(m *fuzzMember, a *fuzzAnswer, cursor string) {
	require.NotNil(w.t, m, "a stream belongs to a session")
	require.Empty(w.t, a.Head.Values("Mcp-Session-Id"))
	require.Equal(w.t, "no-cache, no-transform", a.Head.Get("Cache-Control"))
	if w.setting&noFlush == 0 {
		require.Equal(w.t, len(a.text()), a.Flushed, "all was flushed")
	} else {
		require.True(w.t, !m.polls() || a.Ended, "what cannot be flushed is short, where the client can come back")
	}
	got := readStream(w.t, a.text(), m.polls())
	require.False(w.t, m.polls() && got.stream == "", "no primer")
	if strings.HasPrefix(cursor, got.stream) && got.stream != "" && len(got.messages) > 0 {
		require.Equal(w.t, decimal(w.t, kit.EventID.FindStringSubmatch(cursor)[1])+1, got.messages[0].seq, "what comes first is what comes after the cursor")
	}
	if len(got.ids) == 0 {
		return
	}
	again, cancel := w.get(m, got.ids[len(got.ids)-1])
	require.Contains(w.t, []int{http.StatusOK, http.StatusNoContent}, again.Status, "each event id is a cursor: %s", again.text())
	again.finish(w.t, cancel)
}

// answered checks an answer that is neither a refusal nor a stream.
func (w *fuzzWorld) answered(m *fuzzMember, a *fuzzAnswer, x thrown) {
	text := a.text()
	switch a.Status {
	case 0:
		require.False(w.t, a.Ended)
		require.Equal(w.t, http.MethodPost, x.method)
		require.Contains(w.t, x.body, `"`)
	case http.StatusAccepted:
		require.Equal(w.t, http.MethodPost, x.method)
		require.Empty(w.t, text)
	case http.StatusNoContent:
		require.Empty(w.t, text)
		require.Equal(w.t, x.method == http.MethodGet, a.Head.Get("Content-Type") == "text/event-stream")
		if x.method == http.MethodDelete {
			after, _ := w.post(m, kit.Ping)
			require.Equal(w.t, http.StatusNotFound, after.Status)
		}
	default:
		require.Equal(w.t, http.StatusOK, a.Status)
		require.Equal(w.t, "application/json", a.Head.Get("Content-Type"))
		require.Equal(w.t, http.MethodPost, x.method)
		w.replied([]byte(x.body), []byte(text), a.Head)
	}
}

// replied checks that each request of a body has a response, and that initialize returns a session id.
func (w *fuzzWorld) replied(body, text []byte, header http.Header) {
	ask, tell := parseAll(w.t, body), parseAll(w.t, text)
	require.Equal(w.t, jsonrpc.IsBatch(body), jsonrpc.IsBatch(text))
	var want, got []string
	opens := false
	for _, m := range ask {
		if m.Kind == jsonrpc.Request {
			want = append(want, string(m.ID))
			opens = string(m.Method) == "initialize"
		}
	}
	for _, m := range tell {
		require.Contains(w.t, []jsonrpc.Kind{jsonrpc.Result, jsonrpc.Failure}, m.Kind)
		got = append(got, string(m.ID))
	}
	require.ElementsMatch(w.t, want, got)
	require.Equal(w.t, opens, header.Get("Mcp-Session-Id") != "")
	for _, c := range []byte(header.Get("Mcp-Session-Id")) {
		require.True(w.t, c >= 0x21 && c <= 0x7e)
	}
}

// nothingTwice checks that an accepted body has no request whose id was in flight.
func (w *fuzzWorld) nothingTwice(m *fuzzMember, body []byte) {
	ids := []string{"1"}
	if m.polls() {
		ids = append(ids, "3") // 2 is answered already
	}
	for _, one := range parseAll(w.t, body) {
		if one.Kind == jsonrpc.Request && string(one.Method) != "initialize" {
			require.NotContains(w.t, ids, string(jsonrpc.Key(one.ID)), "in flight")
			ids = append(ids, string(jsonrpc.Key(one.ID)))
		}
	}
}

// parseAll parses a message or a batch.
func parseAll(t require.TestingT, body []byte) []jsonrpc.Message {
	if jsonrpc.IsBatch(body) {
		all, err := jsonrpc.ParseBatch(nil, bytes.Clone(body), 300)
		require.NoError(t, err)
		return all
	}
	m, err := jsonrpc.Parse(bytes.Clone(body), 300)
	require.NoError(t, err)
	return []jsonrpc.Message{m}
}
