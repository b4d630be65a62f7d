package longcalls

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// The handle of a modern call works in a tool of the SDK.
func handle(w *world) {
	var outcome []error
	w.serve(rejoin.Config{Policy: rejoin.Policy{TaskAfter: -1}}, map[string]Tool{"x": func(ctx context.Context, c Call) Outcome {
		h := rejoin.HandleFromContext(ctx)
		outcome = []error{
			c.Progress("one"), rejoin.HandleFromContext(ctx).Progress(2, 3, "two"), c.Progress("three"),
			rejoin.HandleFromContext(ctx).Notify("notifications/message", map[string]string{"level": "error", "data": "four"}), h.CloseStream(0),
		}
		before := h.Resumable()
		elapse(time.Second)
		outcome = append(outcome, h.Progress(5, 6, "five"), h.Notify("notifications/message", map[string]string{"level": "error", "data": "six"}), c.Log("seven"))
		return Outcome{Text: fmt.Sprint(before, h.Resumable(), h.Connected())}
	}})
	s := w.begin(w.call("x"))
	var got []string
	var id string
	for m, ok := s.next(); ok; m, ok = s.next() {
		got = append(got, m.Params.Message+m.Params.Data+m.Result.ResultType)
		id = m.Result.TaskID
	}
	w.same("the stream", got, []string{"one", "two", "three", "four", "task"})
	elapse(time.Second)
	result := w.get(id)
	w.same("the task", []string{result.StatusMessage, contentOf(result)}, []string{"five", "true true false"})
	if err := errors.Join(outcome...); err != nil {
		w.Error(err)
	}
	w.caps = nothing
	w.same("without tasks", w.result(w.call("x")).Content[0].Text, "false false true")
	if !errors.Is(errors.Join(outcome...), rejoin.ErrNotResumable) {
		w.Errorf("%v", outcome)
	}
}

// A tool can ask through its handle, which makes the task.
func handleAsks(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(ctx context.Context, _ Call) Outcome {
		var all [2]string
		for i := range all {
			var answer struct{ Content struct{ X string } }
			params := map[string]any{"message": fmt.Sprint("question ", i), "requestedSchema": map[string]any{"type": "object"}}
			if err := rejoin.HandleFromContext(ctx).Ask(ctx, "elicitation/create", params, &answer); err != nil {
				return Outcome{Text: err.Error()}
			}
			all[i] = answer.Content.X
		}
		return Outcome{Text: all[0] + all[1]}
	}})
	id := w.become("x")
	for i, key := range []string{"q1", "q2"} {
		got := w.get(id)
		w.same("the task", []string{got.Status, got.InputRequests[key].Params.Message}, []string{"input_required", fmt.Sprint("question ", i)})
		w.update(id, `{"`+key+`":`+fill(key)+`}`)
		w.update(id, `{"`+key+`":`+fill("again")+`}`)
	}
	w.same("the result", contentOf(w.get(id)), "q1q2")
	id = w.become("x")
	w.cancel(id)
	w.same("a cancelled one", w.get(id).Status, "cancelled")
	w.caps = declared
	w.same("who cannot answer", w.result(w.call("x")).Content[0].Text, "rejoin: the client offered no such capability: elicitation/create needs elicitation")
}

// The sessions of the SDKs cannot ask in the modern era: in a task their error is the same as in any call.
func elicits(w *world) {
	var outcomes []string
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		elapse(2 * time.Second)
		outcomes = append(outcomes, fmt.Sprint(c.Elicit()))
		return Outcome{Text: "x"}
	}})
	id := w.become("x")
	elapse(time.Second)
	w.same("the result", contentOf(w.get(id)), "x")
	w.caps = nothing
	w.result(w.call("x"))
	w.same("the error", outcomes[0], outcomes[1])
	if outcomes[0] == fmt.Sprint(nil) {
		w.Error("it can ask")
	}
}

// What a tool returns as questions is asked in the task, round by round. Each run gets the answers of its own round, and the last state.
func rounds(w *world) {
	var runs atomic.Int32
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		runs.Add(1)
		elapse(2 * time.Second)
		switch c.State {
		case "":
			return Outcome{Asks: map[string]string{"a.b": "first", "c": "second"}, State: "one"}
		case "one":
			return Outcome{Asks: map[string]string{"c": "third"}, State: "two " + c.Answers["a.b"] + c.Answers["c"]}
		}
		return Outcome{Text: fmt.Sprint(c.State, " ", c.Answers["c"], " ", len(c.Answers))}
	}})
	id := w.become("x")
	elapse(time.Second)
	got := w.get(id)
	w.same("the task", got.Status, "input_required")
	w.same("it asks", []any{len(got.InputRequests), got.InputRequests["r1.a.b"].Params.Message, got.InputRequests["r1.c"].Params.Message}, []any{2, "first", "second"})
	w.same("the method", got.InputRequests["r1.c"].Method, "elicitation/create")
	w.same("the state", got.RequestState, "")
	w.update(id, `{"r1.c":`+fill("C")+`}`)
	got = w.get(id)
	w.same("the rest", []any{got.Status, len(got.InputRequests), got.InputRequests["r1.a.b"].Params.Message}, []any{"input_required", 1, "first"})
	w.update(id, `{"r1.a.b":`+fill("A")+`,"r1.c":`+fill("repeated")+`}`)
	w.same("the second run", []any{w.get(id).Status, runs.Load()}, []any{"working", 2})
	w.update(id, `{"r1.a.b":`+fill("late")+`}`)
	elapse(2 * time.Second)
	got = w.get(id)
	w.same("it asks again", []any{len(got.InputRequests), got.InputRequests["r2.c"].Params.Message}, []any{1, "third"})
	w.update(id, `{"r2.c":`+fill("D")+`}`)
	elapse(2 * time.Second)
	w.same("the result", contentOf(w.get(id)), "two AC D 1")
	w.same("runs", runs.Load(), 3)
}

// A question before the task is the SDK's own. The call that brings the answers becomes the task.
func asksBefore(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		switch c.State {
		case "":
			return Outcome{Asks: map[string]string{"c": "first"}, State: "one"}
		case "one":
			elapse(2 * time.Second)
			return Outcome{Asks: map[string]string{"c": "second"}, State: "two " + c.Answers["c"]}
		}
		return Outcome{Text: fmt.Sprint(c.State, " ", c.Answers["c"])}
	}})
	first := w.result(w.call("x"))
	w.same("the first round", []string{first.ResultType, first.TaskID, first.InputRequests["c"].Params.Message, first.RequestState},
		[]string{"input_required", "", "first", "one"})
	id := w.made(w.result(w.request("tools/call", "x", `,"name":"x","arguments":{},"requestState":"one","inputResponses":{"c":`+fill("C")+`}`)))
	elapse(time.Second)
	w.same("it asks", w.get(id).InputRequests["r1.c"].Params.Message, "second")
	w.update(id, `{"r1.c":`+fill("D")+`}`)
	w.same("the result", contentOf(w.get(id)), "two C D")
}

// A tool that returns only a state is called again a poll later.
func busy(w *world) {
	var runs atomic.Int32
	w.serve(rejoin.Config{Tasks: rejoin.Tasks{PollInterval: 5 * time.Second}}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		run := runs.Add(1)
		if run == 1 {
			elapse(2 * time.Second)
		}
		if run < 4 {
			return Outcome{State: fmt.Sprint("busy ", run)}
		}
		return Outcome{Text: c.State}
	}})
	id := w.become("x")
	elapse(time.Second + 15*time.Second - time.Nanosecond)
	w.same("the task", []any{w.get(id).Status, runs.Load()}, []any{"working", 3})
	elapse(time.Nanosecond)
	w.same("the result", contentOf(w.get(id)), "busy 3")
	w.same("runs", runs.Load(), 4)
	runs.Store(0)
	id = w.become("x")
	elapse(2 * time.Second)
	w.cancel(id)
	elapse(time.Minute)
	w.same("the runs of a cancelled one", runs.Load(), 1)
}

// A question that the client has not said to answer fails the call.
func cannotAnswer(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(context.Context, Call) Outcome {
		elapse(2 * time.Second)
		return Outcome{Asks: map[string]string{"k": "m"}}
	}})
	w.caps = declared
	id := w.become("x")
	elapse(time.Second)
	got := w.get(id)
	w.same("the task", []any{got.Status, got.Error.Code}, []any{"failed", -32021})
	synctest.Wait()
}
