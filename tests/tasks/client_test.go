package tasks_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// declared is what the _meta of a client that takes tasks has; answering also answers questions.
const (
	declared  = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	answering = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// world is a server whose tools a test controls, and a client of the modern era.
type world struct {
	*rejointest.Client
	t    *testing.T
	next func() *kit.ManualTool
	caps string
	last int
	user string
}

// begin opens a world with tasks after a second.
func begin(t *testing.T, cfg rejoin.Config) *world {
	t.Helper()
	app, next := kit.ManualTools()
	cfg.Eras = rejoin.EraBoth
	if cfg.Policy.TaskAfter == 0 {
		cfg.Policy.TaskAfter = time.Second
	}
	return &world{Client: kit.New(t, app, rejointest.Config{Server: cfg}), t: t, next: next, caps: answering}
}

// request is a modern request. params are its members beside _meta, beginning with a comma.
func (w *world) request(method, name, params string, header ...string) *http.Request {
	w.t.Helper()
	w.last++
	body := `{"jsonrpc":"2.0","id":` + strconv.Itoa(w.last) + `,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":` + w.caps + `,"progressToken":"t"}` + params + `}}`
	all := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "X-User", w.user}
	if name != "" {
		all = append(all, "Mcp-Name", name)
	}
	return kit.Request(w.t, http.MethodPost, body, append(all, header...)...)
}

// do sends a request and returns the status and the last message of the answer.
func (w *world) do(r *http.Request) (status int, answer map[string]any) {
	w.t.Helper()
	body, res := kit.ReadAll(w.t, w.Do(r))
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		events := strings.Split(strings.TrimSpace(body), "\n\n")
		_, body, _ = strings.Cut(events[len(events)-1], "data: ")
	}
	require.NoError(w.t, json.Unmarshal([]byte(body), &answer), body)
	return res.StatusCode, answer
}

// result is do for a request that succeeds.
func (w *world) result(r *http.Request) map[string]any {
	w.t.Helper()
	status, answer := w.do(r)
	require.Equal(w.t, http.StatusOK, status, answer)
	require.Contains(w.t, answer, "result")
	return answer["result"].(map[string]any)
}

// refused is do for a request that is refused. It returns the status and the code.
func (w *world) refused(r *http.Request) (status int, code float64) {
	w.t.Helper()
	status, answer := w.do(r)
	require.Contains(w.t, answer, "error")
	return status, answer["error"].(map[string]any)["code"].(float64)
}

// call begins a call.
func (w *world) call(header ...string) *http.Request {
	return w.request("tools/call", "x", `,"name":"x"`, header...)
}

// task makes a call a task by waiting. It returns the id and the running tool.
func (w *world) task() (id string, tool *kit.ManualTool) {
	w.t.Helper()
	result := w.result(w.call())
	require.Equal(w.t, "task", result["resultType"])
	require.Equal(w.t, "working", result["status"])
	return result["taskId"].(string), w.next()
}

func (w *world) get(id string) map[string]any {
	w.t.Helper()
	return w.result(w.request("tasks/get", id, `,"taskId":"`+id+`"`))
}

func (w *world) update(id, answers string) map[string]any {
	w.t.Helper()
	return w.result(w.request("tasks/update", id, `,"taskId":"`+id+`","inputResponses":`+answers))
}

func (w *world) cancel(id string) map[string]any {
	w.t.Helper()
	return w.result(w.request("tasks/cancel", id, `,"taskId":"`+id+`"`))
}

// settled is get when nothing is going on any more.
func (w *world) settled(id string) map[string]any {
	w.t.Helper()
	synctest.Wait()
	return w.get(id)
}
