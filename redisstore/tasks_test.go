//go:build redis

package redisstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
)

// sendModern sends a request of version 2026-07-28 of a client that takes tasks.
func (r *replica) sendModern(t *testing.T, method, name, params string) *http.Response {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}` + params + `}}`
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(body))
	require.NoError(t, err)
	for field, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		if value != "" {
			q.Header.Set(field, value)
		}
	}
	res, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	return res
}

// modernAnswer is what the tests need of all answers.
type modernAnswer struct {
	Error  *rejoin.Error
	Result struct {
		ResultType, TaskID, Status, StatusMessage string
		Result                                    struct{ Content []struct{ Text string } }
		Error                                     *rejoin.Error
	}
}

// modern returns the answer to a request.
func (r *replica) modern(t *testing.T, method, name, params string) (got modernAnswer) {
	t.Helper()
	res := r.sendModern(t, method, name, params)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		_, last, _ := strings.Cut(string(text), "data: {")
		text = []byte("{" + strings.TrimSpace(last))
	}
	require.NoError(t, json.Unmarshal(text, &got), "%d %s", res.StatusCode, text)
	return got
}

// newTask makes a call in a process a task.
func (r *replica) newTask(t *testing.T) (id string, c *toolCall) {
	t.Helper()
	got := r.modern(t, "tools/call", "work", `,"name":"work"`)
	require.Equal(t, "task", got.Result.ResultType, "%+v", got)
	return got.Result.TaskID, r.next(t)
}

// about sends a request about a task, and returns what the answer says, in short.
func (r *replica) about(t *testing.T, method, id, params string) string {
	t.Helper()
	got := r.modern(t, method, id, `,"taskId":"`+id+`"`+params)
	switch task := got.Result; {
	case got.Error != nil:
		return fmt.Sprint("error ", got.Error.Code, " ", got.Error.Reason())
	case task.Error != nil:
		return task.Status + " " + task.Error.Reason()
	case task.Status == "completed":
		return task.Status + " " + task.Result.Content[0].Text
	default:
		return strings.TrimSpace(task.Status + " " + task.StatusMessage)
	}
}

func (r *replica) state(t *testing.T, id string) string {
	t.Helper()
	return r.about(t, "tasks/get", id, "")
}

// becomes polls a task until its state is as it must be. Meanwhile it may not be otherwise, except for the states that are given, and for answers
// that say that it cannot be told now.
func (r *replica) becomes(t *testing.T, id, want string, meanwhile ...string) {
	t.Helper()
	until(t, func() error {
		got := r.state(t, id)
		if got == want {
			return nil
		}
		if !strings.HasPrefix(got, "error -32000 ") {
			require.Contains(t, meanwhile, got)
		}
		return errors.New(got)
	})
}

// Any process serves any request about a task.
func TestATaskOnAnyProcess(t *testing.T) {
	all := startReplicas(t, redistest.New(t, redistest.Options{}), "tasks", 3)
	a, b, c := all[0], all[1], all[2]
	id, call := a.newTask(t)
	require.NoError(t, call.Progress(1, 2, "half"))
	for _, r := range all {
		require.Equal(t, "working half", r.state(t, id))
	}
	answered := make(chan error, 1)
	var answer struct{ Action string }
	go func() { answered <- call.Ask(call.ctx, "elicitation/create", map[string]any{"message": "?"}, &answer) }()
	until(t, func() error {
		if got := b.state(t, id); got != "input_required half" {
			return errors.New(got)
		}
		return nil
	})
	c.about(t, "tasks/update", id, `,"inputResponses":{"q1":{"action":"decline"}}`)
	require.NoError(t, soon(t, answered))
	require.Equal(t, "decline", answer.Action)
	call.returns(t, "done")
	for _, r := range []*replica{c, b, a} {
		r.becomes(t, id, "completed done", "working half")
	}
	require.Zero(t, adoptedBy(all...))
	require.Positive(t, b.Stats().Forwarded)
	require.Positive(t, c.Stats().Forwarded)
	require.Zero(t, b.Stats().Tasks+c.Stats().Tasks)
}

// A cancellation through another process reaches the tool, and every process says so.
func TestATaskIsCancelledElsewhere(t *testing.T) {
	all := startReplicas(t, redistest.New(t, redistest.Options{}), "tasks", 3)
	id, call := all[0].newTask(t)
	all[1].about(t, "tasks/cancel", id, "")
	soon(t, call.ctx.Done())
	require.ErrorIs(t, context.Cause(call.ctx), rejoin.ErrCancelled)
	for _, r := range all {
		require.Equal(t, "cancelled", r.state(t, id))
	}
	all[0].kill(t)
	all[2].becomes(t, id, "cancelled")
}

// A client hears of a task through another process than its owner.
func TestATaskIsListenedToElsewhere(t *testing.T) {
	all := startReplicas(t, redistest.New(t, redistest.Options{}), "tasks", 2)
	id, call := all[0].newTask(t)
	res := all[1].sendModern(t, "subscriptions/listen", "", `,"notifications":{"taskIds":["`+id+`"]}`)
	defer res.Body.Close()
	heard := make(chan string, 100)
	go func() {
		defer close(heard)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			heard <- lines.Text()
		}
	}()
	hears := func(text string) {
		t.Helper()
		for line := ""; !strings.Contains(line, text); line = soon(t, heard) {
		}
	}
	hears("acknowledged")
	require.NoError(t, call.Progress(1, 2, "half"))
	hears(`"statusMessage":"half"`)
	call.returns(t, "done")
	hears(`"status":"completed"`)
}

// A task that runs when its owner dies has failed in the promised time, in every process, and is adopted once.
func TestATaskOfADeadOwner(t *testing.T) {
	all := startReplicas(t, redistest.New(t, redistest.Options{}), "tasks", 3)
	id, _ := all[0].newTask(t)
	require.Equal(t, "working", all[1].state(t, id))
	all[0].kill(t)
	began := time.Now()
	all[1].becomes(t, id, "failed owner_lost", "working")
	require.Less(t, time.Since(began), inTime)
	require.Equal(t, "failed owner_lost", all[2].state(t, id))
	require.EqualValues(t, 1, adoptedBy(all[1:]...))
}

// A task that has ended is as it was after the death of its owner, and after that of the next one.
func TestAFinishedTaskOfADeadOwner(t *testing.T) {
	all := startReplicas(t, redistest.New(t, redistest.Options{}), "tasks", 3)
	id, call := all[0].newTask(t)
	call.returns(t, "done")
	all[0].becomes(t, id, "completed done", "working")
	all[0].kill(t)
	all[1].becomes(t, id, "completed done")
	require.Equal(t, "completed done", all[2].state(t, id))
	require.EqualValues(t, 1, adoptedBy(all[1]))
	all[1].kill(t)
	all[2].becomes(t, id, "completed done")
}

// A planned end waits for a task that runs. Then the next process has it.
func TestATaskOfAnOwnerThatDrains(t *testing.T) {
	all := startReplicas(t, redistest.New(t, redistest.Options{}), "tasks", 3)
	a, b, c := all[0], all[1], all[2]
	finished, ended := a.newTask(t)
	ended.returns(t, "earlier")
	a.becomes(t, finished, "completed earlier", "working")
	id, call := a.newTask(t)
	over := a.drain(t)
	for _, r := range all {
		require.Equal(t, "working", r.state(t, id))
	}
	call.returns(t, "done")
	require.NoError(t, soon(t, over))
	require.Equal(t, "completed done", b.state(t, id), "at once: no lease has to end")
	require.Equal(t, "completed done", c.state(t, id))
	require.Equal(t, "completed earlier", c.state(t, finished))
	require.EqualValues(t, 2, adoptedBy(b, c))
}

// An engine that comes back empty has lost no task whose owner lives: neither one that runs nor one that has ended.
func TestTasksOfAnEngineThatComesBackEmpty(t *testing.T) {
	engine := redistest.New(t, redistest.Options{})
	all := startReplicas(t, engine, "tasks", 2)
	finished, ended := all[0].newTask(t)
	ended.returns(t, "earlier")
	all[0].becomes(t, finished, "completed earlier", "working")
	id, call := all[0].newTask(t)
	require.NoError(t, engine.Kill())
	require.NoError(t, engine.Restart(t.Context()))
	recorded(t, engine, `"earlier"`) // the owner has restored it
	all[1].becomes(t, id, "working")
	call.returns(t, "done")
	all[1].becomes(t, id, "completed done", "working")
	all[0].kill(t)
	all[1].becomes(t, id, "completed done")
	all[1].becomes(t, finished, "completed earlier")
}

// keysOf are the keys of the engine that match a pattern.
func keysOf(t *testing.T, engine *redistest.Server, pattern string) []string {
	t.Helper()
	text, err := engine.Do(t.Context(), "KEYS", pattern)
	require.NoError(t, err)
	return strings.Fields(text)
}
