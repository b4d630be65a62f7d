//go:build node

package conformance_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

const tasksExtension = "io.modelcontextprotocol/tasks"

// taskScenarios are what else may happen to a call of the modern era that takes longer than TaskAfter, which defaults to CloseAfter. The names
// are also the heads of columns.
func taskScenarios() []scenario {
	policy := rejoin.Policy{CloseAfter: 300 * time.Millisecond}
	work := reports(2*time.Second, nil)
	return []scenario{
		{name: "cut connections", ofTasks: true, policy: policy, run: work, front: cutting},
		{name: "a lost poll", ofTasks: true, policy: policy, run: work, front: losingAPoll},
		{name: "questions", ofTasks: true, policy: policy, run: asks, call: twice},
		{name: "cancel", ofTasks: true, policy: policy, run: untilStopped, meddle: cancels},
		{name: "resume", ofTasks: true, policy: policy, run: work, meddle: resumes},
	}
}

// losingAPoll starts a proxy that ends the first poll of a task, and does not pass it on.
func losingAPoll(t *testing.T, server string) (address string) {
	t.Helper()
	var lost atomic.Bool
	return startProxy(t, server, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Mcp-Method") == "tasks/get" && lost.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// asks is the tool "twice" of a server without an SDK.
func asks(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
	for range 2 {
		if err := sample.Work(ctx, beforeAsking); err != nil {
			return "", err
		}
		var answer struct{ Action string }
		if err := h.Ask(ctx, "elicitation/create", map[string]any{"mode": "form", "message": whoAsks, "requestedSchema": whoSchema}, &answer); err != nil {
			return "", err
		}
	}
	return "done", nil
}

func untilStopped(ctx context.Context, _ hand, _ json.RawMessage) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// awaitTask waits until the client has polled its task and has said which one it is.
func (e *encounter) awaitTask() (fault string) {
	polls := func(x *exchange) bool { return x.calls("tasks/get") && x.ended }
	if !e.wire.untilSent(toConnect, 1, polls) {
		return "is given no task"
	}
	if !e.locked(func() bool { return e.says("task") }) {
		return "does not say which task it waits for"
	}
	return ""
}

// cancels cancels the task.
func cancels(_ *testing.T, e *encounter) (fault string) {
	if fault := e.awaitTask(); fault != "" {
		return fault
	}
	return e.order("cancel work")
}

// resumes ends the client without warning and lets a new one go on with its task.
func resumes(t *testing.T, e *encounter) (fault string) {
	t.Helper()
	if fault := e.awaitTask(); fault != "" {
		return fault
	}
	task := e.texts("task", "work")[0]
	e.kill()
	e.update(func() { e.seen, e.over = nil, false })
	e.start(t)
	return e.order("resume work " + task)
}

// isTask reports whether the answer is a task.
func (e *exchange) isTask() bool {
	answers := []string{string(e.body)}
	if e.contentType() == "text/event-stream" {
		answers = nil
		for _, event := range events(e.body) {
			answers = append(answers, event.data)
		}
	}
	return slices.ContainsFunc(answers, func(text string) bool {
		var answer struct{ Result struct{ ResultType string } }
		_ = json.Unmarshal([]byte(text), &answer) // without a type if it is not a message
		return answer.Result.ResultType == "task"
	})
}

// scenariosOf are the scenarios in which a client takes part.
func scenariosOf(c customer, in setting) []scenario {
	if !c.tasks || in.eras != rejoin.EraBoth {
		return scenarios()
	}
	return slices.Concat(scenarios(), taskScenarios())
}
