package longcalls

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// server/discover has the tasks that rejoin makes, and not those of older versions.
func discover(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": text("x", 2*time.Second)})
	for _, w.caps = range []string{nothing, answering} {
		got := w.result(w.request("server/discover", "", ""))
		var extensions map[string]json.RawMessage
		_ = json.Unmarshal(got.Capabilities["extensions"], &extensions)
		w.same("the extension", string(extensions["io.modelcontextprotocol/tasks"]), "{}")
		if tasks, has := got.Capabilities["tasks"]; has {
			w.Errorf("tasks of older versions: %s", tasks)
		}
		for _, part := range []string{`serverInfo":{`, `"tools"`, `"supportedVersions"`, `"2026-07-28"`} {
			if !strings.Contains(string(got.raw), part) {
				w.Errorf("%s lacks %s", got.raw, part)
			}
		}
	}
	id := w.become("x")
	for _, got := range []task{w.get(id), w.result(w.request("tasks/cancel", id, `,"taskId":"`+id+`"`))} {
		if !strings.Contains(string(got.raw), `"_meta":{"io.modelcontextprotocol/serverInfo":{`) {
			w.Errorf("no serverInfo in %s", got.raw)
		}
	}
}

// A subscription to tasks and to what the SDK has brings both, and each message has the id of the request.
func listens(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		for i := range 10 {
			elapse(2 * time.Second)
			_ = c.Progress(fmt.Sprint(i)) // the task shows it
		}
		elapse(2 * time.Second)
		return Outcome{Text: "done"}
	}})
	for _, listen := range []string{`"l"`, `17`, `1.5`, `9007199254740993`} {
		task := w.become("x")
		s := w.begin(w.requestWithID(listen, `"t"`, "subscriptions/listen", "",
			`,"notifications":{"toolsListChanged":true,"taskIds":["`+task+`","unknown"]}`))
		if s.events == nil {
			w.Fatalf("no stream: %d", s.res.StatusCode)
		}
		next := func() (m message) {
			w.Helper()
			m, ok := s.next()
			if !ok {
				w.Fatal("the stream has ended")
			}
			return m
		}
		m := next()
		var ack struct {
			ToolsListChanged bool
			TaskIDs          []string
		}
		_ = json.Unmarshal(m.Params.Notifications, &ack)
		w.same("acknowledged", []any{m.Method, ack.ToolsListChanged, ack.TaskIDs}, []any{"notifications/subscriptions/acknowledged", true, []string{task}})
		w.subscribed(m, listen)
		m = next()
		w.same("the present state", []string{m.Method, m.Params.TaskID, m.Params.Status}, []string{"notifications/tasks", task, "working"})
		for i := range 10 {
			m = next()
			w.same("a change", []string{m.Method, m.Params.Status}, []string{"notifications/tasks", "working"})
			w.subscribed(m, listen)
			w.addTool(fmt.Sprint("new ", listen, i))
			m = next()
			w.same("of the SDK", m.Method, "notifications/tools/list_changed")
			w.subscribed(m, listen)
		}
		m = next()
		w.same("the end", []string{m.Method, m.Params.Status}, []string{"notifications/tasks", "completed"})
		s.close()
	}
	s := w.begin(w.request("subscriptions/listen", "", `,"notifications":{"toolsListChanged":true,"taskIds":[]}`))
	if m, _ := s.next(); m.Method != "notifications/subscriptions/acknowledged" {
		w.Errorf("%+v", m)
	}
	s.close()
	synctest.Wait()
}

// subscribed checks the id of the subscription.
func (w *world) subscribed(m message, listen string) {
	w.Helper()
	if got := string(m.Params.Meta["io.modelcontextprotocol/subscriptionId"]); got != listen {
		w.Errorf("%s: the subscription is %s, not %s", m.Method, got, listen)
	}
}
