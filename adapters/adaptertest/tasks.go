package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// taskApp is an app of the modern era. Its calls become tasks, ask a question, and are run again with the answer, as those of SDKs. Each run
// waits, reports who has called, and returns it.
func (e *exam) taskApp(wait func(ctx context.Context, again bool)) rejoin.App {
	return bothEras{idle(), func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Answers json.RawMessage `json:"inputResponses"`
			}
		}
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &call) != nil {
			e.Errorf("the body of a modern call is %q, %v", body, err)
		}
		result := `{"supportedVersions":["2026-07-28"],"capabilities":{}}`
		if call.Method == "tools/call" {
			ctx, again := r.Context(), call.Params.Answers != nil
			h := rejoin.HandleFromContext(ctx)
			if err := h.CloseStream(0); err != nil {
				e.Errorf("CloseStream: %v", err)
			}
			wait(ctx, again)
			_ = h.Progress(1, 0, e.who(ctx))
			who, _ := json.Marshal(e.who(ctx) + " " + r.Header.Get(UserHeader) + " " + r.URL.Path)
			result = fmt.Sprintf(`{"resultType":"complete","content":%s}`, who)
			if !again {
				result = fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s:{"method":"elicitation/create"}}}`, who)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, call.ID, result)
	}}
}

// modernRequest is a request of a user in the modern era. more is members of its params.
func (u *user) modernRequest(method, name, more string) *http.Request {
	r := u.request(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`+more+`}}`)
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	r.Header.Set("Mcp-Name", name)
	return r
}

// taskState is the part of a task that the exam checks.
type taskState struct {
	TaskID, ResultType, Status, StatusMessage string
	InputRequests                             map[string]struct{}
	Result                                    struct{ Content string }
}

func (u *user) ask(r *http.Request) (t taskState, err error) {
	a, err := u.do(r)
	var m struct{ Result *taskState }
	if err != nil || a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &m) != nil || m.Result == nil {
		return t, fmt.Errorf("%s: %+v, %w", r.Header.Get("Mcp-Method"), a, err)
	}
	return *m.Result, nil
}

// callTask starts a call, which becomes a task.
func (u *user) callTask() error {
	t, err := u.ask(u.modernRequest("tools/call", "x", `,"name":"x"`))
	if err == nil && (t.ResultType != "task" || t.TaskID == "") {
		err = fmt.Errorf("the call did not become a task: %+v", t)
	}
	u.task = t.TaskID
	return err
}

func (u *user) getTask() *http.Request {
	return u.modernRequest("tasks/get", u.task, `,"taskId":"`+u.task+`"`)
}

// answerTask checks what the task asks, and answers it.
func (u *user) answerTask() error {
	t, err := u.ask(u.getTask())
	if err != nil {
		return err
	}
	if len(t.InputRequests) != 1 {
		return fmt.Errorf("the task does not ask: %+v", t)
	}
	err = u.wantOwn("its first progress", t.StatusMessage)
	for key := range t.InputRequests {
		answers, _ := json.Marshal(map[string]any{key: map[string]string{"action": "decline"}})
		_, failed := u.ask(u.modernRequest("tasks/update", u.task, `,"taskId":"`+u.task+`","inputResponses":`+string(answers)))
		err = errors.Join(err, u.wantRequest("its question", strings.TrimPrefix(key, "r1.")), failed)
	}
	return err
}

// finishTask checks the result of the task.
func (u *user) finishTask() error {
	t, err := u.ask(u.getTask())
	if err != nil {
		return err
	}
	return errors.Join(u.wantOwn("its progress", t.StatusMessage), u.wantRequest("its result", t.Result.Content))
}

func (u *user) wantRequest(what, text string) error {
	if want := u.who() + " " + u.name + " /" + u.tenant + "/mcp"; text != want {
		return fmt.Errorf("%s is %q, not %q", what, text, want)
	}
	return nil
}

// Two hundred users, each of another tenant, call a tool that becomes a task. Their requests end, and the router reuses its contexts for others.
// Then the tools read their values, ask, and read them again when they are run with the answers.
func ownTasks(e *exam) {
	first, second := make(chan struct{}), make(chan struct{})
	c := e.start(e.taskApp(func(ctx context.Context, again bool) {
		if again {
			until(ctx, second)
			return
		}
		until(ctx, first)
	}), e.tasks(rejoin.Policy{}))
	do := func(r *http.Request) (answer, error) { return e.send(c, r), nil }
	all := make([]*user, users)
	for i := range all {
		all[i] = newUser(i, do)
		if err := all[i].callTask(); err != nil {
			e.Fatalf("%s: %v", all[i].who(), err)
		}
	}
	others := func() {
		for i := range users {
			_, _ = do(newUser(users+i, do).request(http.MethodPost, ping)) // refused: no session
		}
	}
	faults := map[*user]error{}
	each := func(step func(*user) error) {
		synctest.Wait()
		for _, u := range all {
			if err := step(u); err != nil && faults[u] == nil {
				faults[u] = err
			}
		}
	}
	others()
	close(first)
	each((*user).answerTask)
	others()
	close(second)
	each((*user).finishTask)
	e.report(faults)
	unknown := newUser(0, do)
	unknown.task = "unknown"
	want := e.send(c, unknown.getTask())
	for i, u := range all {
		thief := u.getTask()
		thief.Header.Set(UserHeader, all[(i+1)%users].name)
		if a := e.send(c, thief); a.status != http.StatusBadRequest || a.body != want.body {
			e.Fatalf("another user asks for the task of %s: %+v", u.who(), a)
		}
	}
}

// The same test from two hundred goroutines, for the race detector.
func ownTasksAtOnce(e *exam) {
	e.start(e.taskApp(func(ctx context.Context, _ bool) {
		elapse(time.Duration(len(e.who(ctx))) * time.Millisecond)
	}), e.tasks(rejoin.Policy{}))
	e.usersAtOnce(func(u *user) error {
		err := u.callTask()
		for _, step := range []func() error{u.answerTask, u.finishTask} {
			if err == nil {
				elapse(time.Second)
				err = step()
			}
		}
		return err
	})
}

// A call becomes a task however outer middleware wraps the response writer, also if it can neither flush nor be unwrapped.
func tasksBehind(e *exam) {
	for name, mw := range map[string][]func(http.Handler) http.Handler{
		"nothing":                             nil,
		"nothing but the interface":           {wrap(asPlain)},
		"only Flush":                          {wrap(asFlushing)},
		"only FlushError":                     {wrap(asErring)},
		"only Unwrap":                         {wrap(asUnwrapping)},
		"Flush and Unwrap around only Unwrap": {wrap(asUnwrapping), wrap(asBoth)},
		"a time limit":                        {func(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Minute/2, "") }},
	} {
		cfg := e.tasks(rejoin.Policy{TaskAfter: time.Second}, mw...)
		c := e.start(bothEras{idle(), func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == "tools/call" {
				elapse(patience)
			}
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":"done"}}`)
		}}, cfg)
		u := newUser(0, func(r *http.Request) (answer, error) { return e.send(c, r), nil })
		began := time.Now()
		err := u.callTask()
		if d := time.Since(began); err != nil || d != time.Second {
			e.Errorf("behind a middleware that offers %s: after %v: %v", name, d, err)
		}
		elapse(patience)
		if t, err := u.ask(u.getTask()); err != nil || t.Result.Content != "done" {
			e.Errorf("behind a middleware that offers %s: the task is %+v, %v", name, t, err)
		}
	}
}

// tasks is the configuration of a server with tasks, under a path with a tenant.
func (e *exam) tasks(p rejoin.Policy, mw ...func(http.Handler) http.Handler) rejointest.Config {
	return rejointest.Config{
		Path: "/nobody/mcp", Header: http.Header{UserHeader: {"nobody"}},
		Server:  rejoin.Config{Eras: rejoin.EraBoth, Principal: e.principal, Policy: p, Tasks: rejoin.Tasks{MaxPerPrincipal: users}},
		Handler: e.mount("/{tenant}/mcp", mw...),
	}
}
