package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// tasks are the options of a world whose calls become tasks after a second.
func tasks() options {
	return options{
		policy: rejoin.Policy{TaskAfter: time.Second},
		config: func(c *rejoin.Config) {
			c.Eras = rejoin.EraBoth
			c.Principal = func(r *http.Request) string { return r.Header.Get("X-User") }
		},
	}
}

// modernRequest is a request of version 2026-07-28 of a client that takes tasks.
func modernRequest(t *testing.T, method, name, params string) *http.Request {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}` + params + `}}`
	return kit.Request(t, http.MethodPost, body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name, "Mcp-Session-Id", "")
}

// task makes a call at a process a task.
func (w *world) task(t *testing.T, n int) (id string, tool *kit.ManualTool) {
	t.Helper()
	res := kit.Serve(w.processes[n].Server, modernRequest(t, "tools/call", "x", `,"name":"x"`))
	tool = w.processes[n].next()
	elapse(time.Second)
	var got struct {
		Result struct {
			ResultType, TaskID string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(bodyOf(res)), &got), bodyOf(res))
	require.Equal(t, "task", got.Result.ResultType)
	return got.Result.TaskID, tool
}

// about sends a request about a task to a process.
func (w *world) about(t *testing.T, n int, method, id, params string) *kit.Response {
	t.Helper()
	return kit.Serve(w.processes[n].Server, modernRequest(t, method, id, `,"taskId":"`+id+`"`+params))
}

// state is what a process says of a task, in short.
func (w *world) state(t *testing.T, n int, id string) string {
	t.Helper()
	return stateOf(t, w.about(t, n, "tasks/get", id, ""))
}

func stateOf(t *testing.T, res *kit.Response) string {
	t.Helper()
	var got struct {
		Error  *rejoin.Error
		Result struct {
			Status, StatusMessage string
			Result                any
			Error                 *rejoin.Error
		}
	}
	require.NoError(t, json.Unmarshal([]byte(bodyOf(res)), &got), bodyOf(res))
	switch r := got.Result; {
	case got.Error != nil:
		return fmt.Sprint(res.Status, " ", got.Error.Code)
	case r.Error != nil:
		return r.Status + " " + r.Error.Reason()
	case r.Status == "completed":
		return fmt.Sprint(r.Status, " ", r.Result.(map[string]any)["structuredContent"])
	default:
		return strings.TrimSpace(r.Status + " " + r.StatusMessage)
	}
}

// done is a result.
func done(n int) any {
	return map[string]any{"content": []any{}, "structuredContent": map[string]any{"n": n}}
}

const unknownTask = "400 -32602"

// taskThrough is task for a call that one process forwards to another.
func (w *world) taskThrough(t *testing.T, by, n int) (id string, tool *kit.ManualTool) {
	t.Helper()
	res := kit.Serve(w.processes[by].Server, modernRequest(t, "tools/call", "x", `,"name":"x"`))
	tool = w.processes[n].next()
	elapse(time.Second)
	_, id, _ = strings.Cut(bodyOf(res), `"taskId":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id, tool
}

// send sends a request to a process, and waits for the answer alone.
func (w *world) send(n int, r *http.Request) *kit.Response {
	res := &kit.Response{Head: http.Header{}}
	stdadapter.New(w.processes[n].Server).ServeHTTP(res, r)
	return res
}

func taskRequest(t *testing.T, method, id string) *http.Request {
	t.Helper()
	return modernRequest(t, method, id, `,"taskId":"`+id+`"`)
}

// bodyOf is the body as far as it has come, without the framing of events.
func bodyOf(res *kit.Response) string {
	synctest.Wait()
	body := res.Body.String()
	if data := strings.LastIndex(body, "data: "); strings.Contains(res.Head.Get("Content-Type"), "event-stream") && res.Summary() != "open" && data >= 0 && strings.Count(body, "data: ") == 1 {
		return strings.TrimSpace(body[data+len("data: "):])
	}
	return body
}
