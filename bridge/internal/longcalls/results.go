package longcalls

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// A tool that becomes a task has the same result as one that does not, byte for byte.
func results(w *world) {
	outcomes := map[string]Outcome{
		"text":       {Text: "<&>\u2028 é"},
		"structured": {Text: "{}", Structured: map[string]any{"a": 1.5, "b": []int{1}}},
		"is-error":   {Text: "no", IsError: true},
		"fault":      {Fault: errors.New("a protocol error")},
		"panic":      {Panic: "oh"},
	}
	tools := map[string]Tool{}
	for name, outcome := range outcomes {
		tools[name] = func(context.Context, Call) Outcome {
			elapse(2 * time.Second)
			return outcome
		}
	}
	w.serve(rejoin.Config{}, tools)
	for name, outcome := range outcomes {
		w.caps = nothing
		_, direct := w.do(w.call(name))
		w.caps = answering
		id := w.become(name)
		w.same(name, w.get(id).Status, "working")
		elapse(time.Second)
		got := w.get(id)
		if outcome.Fault == nil && outcome.Panic == nil {
			w.same(name, got.Status, "completed")
			w.same(name, got.Result, direct.Result.raw)
			w.same(name, direct.Result.IsError, outcome.IsError)
			continue
		}
		w.same(name, got.Status, "failed")
		w.same(name, got.Error, direct.Error)
		w.same(name, got.StatusMessage, direct.Error.Message)
		if got.Result != nil {
			w.Errorf("%s: a result: %s", name, got.Result)
		}
		if outcome.Panic != nil {
			w.same(name, got.Error.Message, w.sdk.Panic)
		}
	}
}

// What the SDK refuses at once is refused as ever.
func refused(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": text("x", 0)})
	status, m := w.do(w.call("unknown"))
	w.same("an unknown tool", []any{status, m.Error.Code}, []int{http.StatusBadRequest, rejoin.CodeInvalidParams})
	r := w.call("x")
	r.Header.Set("Mcp-Name", "y")
	status, m = w.do(r)
	w.same("another name", []any{status, m.Error.Code}, []int{http.StatusBadRequest, -32020})
	w.same("a quick call", w.result(w.call("x")).Content[0].Text, "x")
}

// Ids and progress tokens that the SDK cannot keep come back unchanged, from calls that become tasks and run again.
func ids(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		_ = c.Progress("first") // the client is there
		elapse(2 * time.Second)
		_ = c.Progress("second" + c.State) // in a task this is its statusMessage
		if c.State == "" {
			return Outcome{Asks: map[string]string{"k": "m"}, State: "s"}
		}
		elapse(time.Second)
		return Outcome{Text: c.Answers["k"]}
	}})
	for _, id := range []string{`1.5`, `9007199254740993`, `1e3`, `-0`, `"\u0061"`, `"a"`, `1`, `123456789012345678901234567890`} {
		s := w.begin(w.requestWithID(id, id, "tools/call", "x", `,"name":"x","arguments":{}`))
		m, _ := s.next()
		w.same("the progress of "+id, m.Params.Message, "first")
		m, _ = s.next()
		w.same("the id", string(m.ID), id)
		task := w.made(m.Result)
		elapse(time.Second)
		got := w.get(task)
		w.same(id, []string{got.Status, got.StatusMessage}, []string{"input_required", "second"})
		w.update(task, `{"r1.k":`+fill("yes")+`}`)
		elapse(2 * time.Second)
		w.same(id, w.get(task).StatusMessage, "seconds")
		elapse(time.Second)
		got = w.get(task)
		w.same(id, got.Status, "completed")
		w.same(id, contentOf(got), "yes")
	}
}

// values are those of a request, also in the runs that follow it.
func values(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(ctx context.Context, c Call) Outcome {
		before := c.Header
		elapse(2 * time.Second)
		srv := rejoin.ServerFromContext(ctx)
		if c.State == "" {
			return Outcome{Asks: map[string]string{"k": "m"}, State: before}
		}
		return Outcome{Text: fmt.Sprint(c.State, " ", c.Header, " ", srv != nil)}
	}})
	var tasks []string
	for i := range 10 {
		w.number = fmt.Sprint(i)
		tasks = append(tasks, w.become("x"))
	}
	w.number = "other"
	elapse(time.Second)
	for _, id := range tasks {
		w.update(id, `{"r1.k":`+fill("yes")+`}`)
	}
	elapse(2 * time.Second)
	for i, id := range tasks {
		w.same("the values", contentOf(w.get(id)), fmt.Sprint(i, " ", i, " ", true))
	}
}
