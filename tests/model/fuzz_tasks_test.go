package model_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// named is a setting: the request gets the header fields Mcp-Method and Mcp-Name that its body needs, as clients of the modern era send them.
const named setting = 1 << 7

// openTasks makes two tasks that run as long as the world: {T} of this user, and {U} of another one.
func (w *fuzzWorld) openTasks() {
	for _, task := range []struct{ name, user, text string }{{"{T}", "me", "hello"}, {"{U}", "another", kit.Secret}} {
		body := modernMessage(`"t"`, "tools/call", `"name":"x","text":"`+task.text+`",`)
		a, _ := w.serve(modernPost(body, task.user, "Hold", "yes"), false)
		kit.Elapse(2)
		synctest.Wait()
		name := unquoted(fieldOf(fieldOf(messagesIn(w.t, a.text())[1], "result"), "taskId"))
		require.NotEmpty(w.t, name)
		w.tokens = append(w.tokens, task.name, name)
	}
}

// holdTask is the tool of these tasks.
func (w *fuzzWorld) holdTask(rw http.ResponseWriter, r *http.Request, body []byte) {
	text, _ := jsonrpc.Field(body, "params", "text")
	rw.Header().Set("Content-Type", "text/event-stream")
	_, _ = rw.Write(sse.AppendEvent(nil, nil, []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"message":`+string(text)+`}}`)))
	<-r.Context().Done()
}

// modernMessage is a request of a client that takes tasks. params end with a comma.
func modernMessage(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
}

func modernPost(body, user string, header ...string) *http.Request {
	r := &http.Request{
		Method: http.MethodPost, Host: "localhost", URL: &url.URL{Path: "/mcp"}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		Header: http.Header{"User": {user}, "Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}},
	}
	nameRequest(r, body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// nameRequest sets the header fields that a modern request needs.
func nameRequest(r *http.Request, body string) {
	var m struct {
		Method string
		Params map[string]json.RawMessage
	}
	_ = json.Unmarshal([]byte(body), &m) // it may be anything
	r.Header["Mcp-Method"] = []string{m.Method}
	for _, field := range []string{"name", "taskId", "uri"} {
		if name, ok := jsonrpc.Unquote(m.Params[field]); ok {
			r.Header["Mcp-Name"] = []string{name}
		}
	}
}

// taskSeeds are requests about tasks, right and wrong ones.
func taskSeeds() (all []thrown) {
	var bodies []string
	for _, id := range []string{`"{T}"`, `"{U}"`, `"x.y"`, `7`, `"{T}x"`} {
		for _, method := range []string{"get", "cancel", "update", "result", ""} {
			bodies = append(bodies, modernMessage(`"n"`, "tasks/"+method, `"taskId":`+id+`,`))
		}
		bodies = append(bodies,
			modernMessage("5", "tasks/update", `"taskId":`+id+`,"inputResponses":{"q1":{"action":"accept"}},`),
			modernMessage("5", "subscriptions/listen", `"notifications":{"taskIds":[`+id+`,"z"]},`),
			modernMessage("5", "subscriptions/listen", `"notifications":{"taskIds":[`+id+`],"toolsListChanged":true},`),
		)
	}
	bodies = append(bodies, modernMessage("5", "server/discover", ""), modernMessage("5", "tools/call", `"name":"x",`), modernMessage("5", "tasks/list", ""),
		modernMessage(`"n"`, "tasks/get", `"taskId":"{T}",`)[:60], strings.Replace(modernMessage("1", "tasks/get", `"taskId":"{T}",`), `"id":1,`, "", 1))
	for i, body := range bodies {
		x := ordinary(http.MethodPost, body)
		x.session, x.version, x.setting = "", "2026-07-28", uint8(eraBoth|named)
		if i%2 == 1 {
			x.setting = uint8(eraEach | named)
		}
		all = append(all, x)
		for _, change := range []func(*thrown){
			func(x *thrown) { x.setting &^= uint8(named) }, func(x *thrown) { x.accept = "text/event-stream" }, func(x *thrown) { x.accept = "application/json" },
			func(x *thrown) { x.setting |= uint8(draining) }, func(x *thrown) { x.setting |= uint8(noFlush) }, func(x *thrown) { x.session = "{A}" },
			func(x *thrown) { x.version = "" }, func(x *thrown) { x.setting = 0 },
		} {
			if y := x; i < 8 || i%3 == len(all)%3 || i > 35 {
				change(&y)
				all = append(all, y)
			}
		}
	}
	return all
}

// ownMethod returns the method of a request of the modern era that the server answers itself, "" for any other.
func (w *fuzzWorld) ownMethod(x thrown) string {
	m, err := jsonrpc.Parse([]byte(x.body), 300)
	declared, _ := jsonrpc.Unquote(fieldOf(fieldOf(fieldOf([]byte(x.body), "params"), "_meta"), "io.modelcontextprotocol/protocolVersion"))
	if err != nil || w.setting&(eraBoth|eraEach) == 0 || m.Kind != jsonrpc.Request || !core.IsModern(strings.Split(x.version, "|")[0]) && !core.IsModern(declared) {
		return ""
	}
	switch method := string(m.Method); {
	case method == "server/discover", strings.HasPrefix(method, "tasks/"):
		return method
	case method == "subscriptions/listen":
		if _, ok := jsonrpc.Field(m.Params, "notifications", "taskIds"); ok {
			return method
		}
	}
	return ""
}

// served checks what the server answers itself: only about this user's task, and with the id of the request.
func (w *fuzzWorld) served(a *fuzzAnswer, method, body string) {
	require.Equal(w.t, http.StatusOK, a.Status)
	require.Empty(w.t, a.Head.Values("Mcp-Session-Id"))
	tokens := map[string]string{}
	for i := 0; i < len(w.tokens); i += 2 {
		tokens[w.tokens[i]] = w.tokens[i+1]
	}
	all := [][]byte{[]byte(a.text())}
	if a.streams() {
		all = messagesIn(w.t, a.text())
	}
	if len(all) == 0 {
		require.NotZero(w.t, w.setting&noFlush)
		return
	}
	id := fieldOf([]byte(body), "id")
	if method == "subscriptions/listen" {
		require.False(w.t, a.Ended)
		require.Equal(w.t, "notifications/subscriptions/acknowledged", unquoted(fieldOf(all[0], "method")))
		require.NotContains(w.t, string(all[0]), tokens["{U}"])
		for i, message := range all {
			subscription, _ := jsonrpc.Field(message, "params", "_meta", "io.modelcontextprotocol/subscriptionId")
			require.Equal(w.t, string(id), string(subscription))
			if i > 0 {
				require.Equal(w.t, tokens["{T}"], unquoted(fieldOf(fieldOf(message, "params"), "taskId")))
			}
		}
		return
	}
	require.True(w.t, a.Ended)
	require.Len(w.t, all, 1)
	if method == "server/discover" { // the app's answer, in a stream for a client that accepts nothing else
		require.Contains(w.t, string(all[0]), `"handed"`)
		return
	}
	m, err := jsonrpc.Parse(all[0], 300)
	require.NoError(w.t, err)
	require.Equal(w.t, jsonrpc.Result, m.Kind)
	require.Equal(w.t, string(id), string(m.ID))
	require.Equal(w.t, "complete", unquoted(fieldOf(m.Result, "resultType")))
	require.Contains(w.t, body, tokens["{T}"])
}

// foreignTaskLives checks that another user's task runs.
func (w *fuzzWorld) foreignTaskLives() {
	if w.setting&(eraBoth|eraEach) == 0 {
		return
	}
	body := strings.NewReplacer(w.tokens...).Replace(modernMessage("1", "tasks/get", `"taskId":"{U}",`))
	a, _ := w.serve(modernPost(body, "another"), false)
	require.Contains(w.t, a.text(), `"status":"working"`)
	require.Contains(w.t, a.text(), kit.Secret)
}

func unquoted(raw []byte) string {
	text, _ := jsonrpc.Unquote(raw)
	return text
}

// messagesIn are the messages in a stream.
func messagesIn(t require.TestingT, stream string) (all [][]byte) {
	var split sse.Splitter
	require.NoError(t, split.Write([]byte(stream), func(data []byte) { all = append(all, data) }))
	require.True(t, split.Between())
	return all
}
