package longcalls

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// contentOf is the text of the result of a task.
func contentOf(t task) string {
	var result task
	if json.Unmarshal(t.Result, &result) != nil || len(result.Content) != 1 {
		return fmt.Sprintf("status %s, result %s, error %v", t.Status, t.Result, t.Error)
	}
	return result.Content[0].Text
}

// Messages before the task stream at once. In the task, progress is its statusMessage, and log messages go nowhere.
func messages(w *world) {
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		for i := range 4 {
			if err := c.Progress(fmt.Sprint("progress ", i)); err != nil {
				return Outcome{Fault: err}
			}
			if err := c.Log(fmt.Sprint("log ", i)); err != nil {
				return Outcome{Fault: err}
			}
			elapse(400 * time.Millisecond) // at 0, 400 ms and 800 ms there is no task
		}
		elapse(time.Minute)
		return Outcome{Text: "done"}
	}})
	began := time.Now()
	s := w.begin(w.call("x"))
	for i := range 3 {
		for _, want := range []string{fmt.Sprint("progress ", i), fmt.Sprint("log ", i)} {
			m, _ := s.next()
			w.same("a message", m.Params.Message+m.Params.Data, want)
			w.same("its time", time.Since(began), time.Duration(i)*400*time.Millisecond)
		}
	}
	m, _ := s.next()
	id := w.made(m.Result)
	w.same("the time of the task", time.Since(began), time.Second)
	if m, more := s.next(); more {
		w.Errorf("after the task: %+v", m)
	}
	elapse(time.Second)
	got := w.get(id)
	w.same("the task", []string{got.Status, got.StatusMessage}, []string{"working", "progress 3"})
	elapse(time.Minute)
	got = w.get(id)
	w.same("the task", []string{got.Status, got.StatusMessage, contentOf(got)}, []string{"completed", "progress 3", "done"})
}

// What a tool sends before it makes the task is before the task.
func messagesJustBefore(w *world) {
	w.serve(rejoin.Config{Policy: rejoin.Policy{TaskAfter: -1}}, map[string]Tool{"x": func(ctx context.Context, c Call) Outcome {
		for i := range 5 {
			_ = c.Log(fmt.Sprint("log ", i)) // the test sees whether it came
		}
		if err := rejoin.HandleFromContext(ctx).CloseStream(0); err != nil {
			return Outcome{Fault: err}
		}
		return Outcome{Fault: waitDone(ctx)}
	}})
	for range 20 {
		s := w.begin(w.call("x"))
		var got []string
		for m, ok := s.next(); ok; m, ok = s.next() {
			got = append(got, m.Params.Data+m.Result.ResultType)
			if m.Result.TaskID != "" {
				w.cancel(m.Result.TaskID)
			}
		}
		w.same("the stream", got, []string{"log 0", "log 1", "log 2", "log 3", "log 4", "task"})
	}
}

// Behind a middleware that holds the response back, and would end it soon, a tool that has sent messages becomes a task.
func messagesHeldBack(w *world) {
	for name, text := range map[string]string{"silent": "", "talks": "progress"} {
		w.serve(rejoin.Config{Policy: rejoin.Policy{TaskAfter: time.Hour}}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
			if text != "" {
				_ = c.Progress(text) // the test sees whether it came
			}
			elapse(time.Minute)
			return Outcome{Text: "done"}
		}}, func(next http.Handler) http.Handler { return http.TimeoutHandler(next, 30*time.Second, "") })
		began := time.Now()
		s := w.begin(w.call("x"))
		var got []string
		var id string
		for m, ok := s.next(); ok; m, ok = s.next() {
			got = append(got, m.Params.Message+m.Result.ResultType)
			id = m.Result.TaskID
		}
		want := []string{"task"}
		if text != "" {
			want = []string{text, "task"}
		}
		w.same(name, got, want)
		if d := time.Since(began); d < 20*time.Second || d >= 30*time.Second {
			w.Errorf("%s: it took %v", name, d)
		}
		elapse(time.Minute)
		w.same(name, contentOf(w.get(id)), "done")
	}
}

// A tool that sends without a pause is not disturbed by the task that it becomes, and nothing is doubled, lost or out of order before it.
func manyMessages(w *world) {
	const all = 3000
	w.serve(rejoin.Config{Policy: rejoin.Policy{TaskAfter: time.Millisecond}}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		for i := range all {
			if err := c.Progress(fmt.Sprint(i)); err != nil {
				return Outcome{Fault: err}
			}
			if i%1000 == 999 {
				elapse(time.Millisecond)
			}
		}
		return Outcome{Text: "done"}
	}})
	s := w.begin(w.call("x"))
	var id string
	n := 0
	for m, ok := s.next(); ok; m, ok = s.next() {
		if m.Result.raw != nil {
			id = w.made(m.Result)
			continue
		}
		w.same("a message", m.Params.Message, fmt.Sprint(n))
		if id != "" {
			w.Error("after the task")
		}
		n++
	}
	if n < 1000 || n >= all {
		w.Errorf("%d messages before the task", n)
	}
	elapse(time.Second)
	got := w.get(id)
	w.same("the task", []string{got.StatusMessage, contentOf(got)}, []string{fmt.Sprint(all - 1), "done"})
	synctest.Wait()
}
