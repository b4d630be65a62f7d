package wire_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const (
	takesTasks = `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	undeclared = `400 error(-32021,"mine")`
)

// ofTask is a request about a task of a client that takes tasks, changed as by modernCall.
func (w *rowWorld) ofTask(method, id, params string, header, change []string) *http.Request {
	w.t.Helper()
	return w.modernCall(method, id, `,"taskId":"`+id+`"`+params, header, append([]string{capabilitiesMember, takesTasks}, change...))
}

// startTask begins a call that is a task at once, and returns its id.
func (w *rowWorld) startTask() string {
	w.t.Helper()
	body, res := w.ends(w.modernCall("tools/call", "x", `,"name":"x"`, nil, []string{capabilitiesMember, takesTasks}))
	require.Equal(w.t, http.StatusOK, res.StatusCode)
	_, id, _ := strings.Cut(body, `"taskId":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// What is refused of requests about tasks.
var taskRows = []row{
	{"a task that there is not", func(t *testing.T) {
		w := serving(t)
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			w.refuses(w.ofTask(method, "x.y", "", nil, nil), wrongParams, "no such task")
		}
		w.refuses(w.ofTask("tasks/update", "x.y", `,"inputResponses":{}`, nil, nil), wrongParams, "no such task")
	}},
	{"what is said of tasks before they are looked up", func(t *testing.T) {
		w := serving(t)
		for _, method := range []string{"tasks/result", "tasks/list", "tasks/"} {
			w.refuses(w.modernCall(method, "", "", nil, nil), `404 error(-32601,"mine")`, "no such method")
		}
		w.refuses(w.modernCall("tasks/get", "x", `,"taskId":"x"`, nil, nil), undeclared, "io.modelcontextprotocol/tasks")
		w.refuses(w.modernCall("tasks/get", "x", `,"taskId":"x"`, nil, []string{capabilitiesMember, `"io.modelcontextprotocol/clientCapabilities":{"tasks":{}}`}),
			undeclared, "tasks/get")
		w.refuses(w.ofTask("tasks/get", "x", "", []string{"Mcp-Name", ""}, nil), wrongHeader, "Mcp-Name is missing")
		w.refuses(w.ofTask("tasks/get", "x", "", []string{"Mcp-Name", "z"}, nil), wrongHeader, "Mcp-Name differs")
		w.refuses(w.ofTask("tasks/get", "x", "", []string{"Mcp-Method", "tools/call"}, nil), wrongHeader, "Mcp-Method differs")
		w.refuses(w.ofTask("tasks/get", "x", "", []string{"Accept", "text/html"}, nil), `406 error(-32600,"mine")`, "Accept")
		for _, id := range []string{"", `,"taskId":7`, `,"taskId":null`} {
			w.refuses(w.modernCall("tasks/get", "x", id, nil, []string{capabilitiesMember, takesTasks}), wrongParams, "taskId")
		}
		for _, answers := range []string{"", `,"inputResponses":[]`, `,"inputResponses":null`, `,"inputResponses":"x"`} {
			w.refuses(w.ofTask("tasks/update", "x", answers, nil, nil), wrongParams, "inputResponses")
		}
	}},
	{"a subscription to tasks", func(t *testing.T) {
		w := serving(t)
		ids := func(value string) string { return `,"notifications":{"taskIds":` + value + `}` }
		listen := func(value string, header []string) *http.Request {
			return w.modernCall("subscriptions/listen", "", ids(value), header, []string{capabilitiesMember, takesTasks})
		}
		w.refuses(w.modernCall("subscriptions/listen", "", ids(`["x"]`), nil, nil), undeclared, "taskIds")
		w.refuses(listen(`"x"`, nil), wrongParams, "notifications.taskIds")
		w.refuses(listen(`[1]`, nil), wrongParams, "notifications.taskIds")
		w.refuses(listen(`["x"]`, []string{"Accept", "application/json"}), `406 error(-32600,"mine")`, "text/event-stream")
		w.refuses(listen(`["x"]`, []string{"Mcp-Method", ""}), wrongHeader, "Mcp-Method")
	}},
	{"a tool that needs tasks", func(t *testing.T) {
		app, _ := kit.ManualTools()
		counted := &countedOpens{App: app}
		c := rejointest.New(t, counted, rejointest.Config{Server: rejoin.Config{
			Eras: rejoin.EraBoth, Tasks: rejoin.Tasks{Required: func(tool string) bool { return tool == "long" }},
		}})
		w := &rowWorld{t: t, c: c, opened: &counted.n, seen: map[string]bool{}}
		says := w.refuses(w.modernCall("tools/call", "long", `,"name":"long"`, nil, nil), undeclared, "the tool long needs the extension")
		require.NotEmpty(t, says)
		w.refuses(w.modernCall("tools/call", "long", `,"name":"long"`, []string{"Mcp-Name", "x"}, nil), wrongHeader, "Mcp-Name differs")
	}},
	{"a result that the store does not return", func(t *testing.T) {
		store := kit.NewLossyStore()
		app, next := kit.ManualTools()
		counted := &countedOpens{App: app}
		c := rejointest.New(t, counted, rejointest.Config{Server: rejoin.Config{
			Eras: rejoin.EraBoth, Store: store, Policy: rejoin.Policy{TaskAfter: time.Millisecond},
		}})
		w := &rowWorld{t: t, c: c, opened: &counted.n, seen: map[string]bool{}}
		id := w.startTask()
		next().Returns(nil)
		store.Fail(errors.New("no disk"))
		body, res := w.ends(w.ofTask("tasks/get", id, "", nil, nil))
		require.Equal(t, `503 error(-32000,"mine") store`, kit.Refusal(t, body, res), body)
		kit.RequireHead(t, res.Header, append([]string{"Content-Type", "application/json"}, retryLater...)...)
		requireError(t, body, "ask again")
	}},
}
