package longcalls

import (
	"context"
	"errors"
	"net/http"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// waiting is a tool that waits for the end of its context, and says what its cause was.
func waiting(cause *error) Tool {
	return func(ctx context.Context, _ Call) Outcome {
		*cause = waitDone(ctx)
		return Outcome{Fault: *cause}
	}
}

// A cancel ends the tool's context with the reason.
func cancelled(w *world) {
	var cause error
	w.serve(rejoin.Config{}, map[string]Tool{"x": waiting(&cause)})
	id := w.become("x")
	w.same("the task", w.get(id).Status, "working")
	w.cancel(id)
	w.cancel(id)
	if !errors.Is(cause, rejoin.ErrCancelled) {
		w.Errorf("the cause is %v", cause)
	}
	w.same("the task", w.get(id).Status, "cancelled")
}

// A tool that does not obey is counted, and what it answers later changes nothing. At the limit nothing new begins.
func runsOn(w *world) {
	release := make(chan struct{})
	w.serve(rejoin.Config{MaxSessions: 2}, map[string]Tool{"x": func(_ context.Context, c Call) Outcome {
		<-release
		_ = c.Progress("late")
		_ = c.Log("late")
		return Outcome{Text: "late"}
	}, "y": text("y", 0)})
	var tasks []string
	for range 2 {
		w.same("a quick call", w.result(w.call("y")).Content[0].Text, "y")
		tasks = append(tasks, w.become("x"))
		w.cancel(tasks[len(tasks)-1])
	}
	status, _ := w.do(w.call("y"))
	w.same("a call where two run on", status, http.StatusServiceUnavailable)
	w.same("the task", w.get(tasks[0]).Status, "cancelled")
	close(release)
	synctest.Wait()
	for _, id := range tasks {
		got := w.get(id)
		w.same("the task", []string{got.Status, got.StatusMessage}, []string{"cancelled", ""})
	}
	w.same("a quick call", w.result(w.call("y")).Content[0].Text, "y")
}

// A client that disconnects before the task ends the call, later it does not.
func leaves(w *world) {
	var cause error
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(ctx context.Context, c Call) Outcome {
		_ = c.Progress("begun")
		return waiting(&cause)(ctx, c)
	}})
	s := w.begin(w.call("x"))
	if _, ok := s.next(); !ok {
		w.Fatal("no progress")
	}
	elapse(time.Second / 2)
	s.close()
	if cause == nil {
		w.Fatal("the call goes on without its client")
	}
	cause = nil
	id := w.become("x")
	elapse(time.Minute)
	if cause != nil {
		w.Fatal(cause)
	}
	w.same("the task", w.get(id).Status, "working")
	w.cancel(id)
}

// AbandonAfter, MaxRuntime and the server's end have causes of their own, and the task says so.
func limits(w *world) {
	var cause error
	w.serve(rejoin.Config{Policy: rejoin.Policy{AbandonAfter: time.Minute, MaxRuntime: time.Hour}}, map[string]Tool{"x": waiting(&cause)})
	ends := func(what string, want error, end func(id string)) {
		cause = nil
		id := w.become("x")
		end(id)
		synctest.Wait()
		if !errors.Is(cause, want) {
			w.Errorf("%s: the cause is %v", what, cause)
		}
		w.same(what, w.get(id).Status, "failed")
	}
	ends("AbandonAfter", rejoin.ErrAbandoned, func(string) { elapse(time.Minute) })
	ends("MaxRuntime", rejoin.ErrMaxRuntime, func(id string) {
		for range 119 {
			elapse(time.Minute / 2)
			w.same("the task", w.get(id).Status, "working")
		}
		elapse(time.Minute / 2)
	})
	ends("Close", rejoin.ErrShutdown, func(string) { w.c.Server().Close() })
}

// A time limit of a middleware is the deadline of a call that cannot become a task, and its context ends as a context with a deadline does. It is
// no deadline of a call that can.
func deadlines(w *world) {
	type end struct {
		err, cause error
		at         time.Duration
		has        bool
	}
	ends := make(chan end, 1)
	began := time.Now()
	w.serve(rejoin.Config{}, map[string]Tool{"x": func(ctx context.Context, _ Call) Outcome {
		at, has := ctx.Deadline()
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		ends <- end{ctx.Err(), context.Cause(ctx), at.Sub(began), has}
		return Outcome{Text: "x"}
	}}, func(next http.Handler) http.Handler { return http.TimeoutHandler(next, 30*time.Second, "") })
	w.become("x")
	if got := <-ends; got.has || got.err != nil {
		w.Errorf("a task: %+v", got)
	}
	w.caps = nothing
	began = time.Now()
	s := w.begin(w.call("x"))
	s.close()
	if got := <-ends; got != (end{context.DeadlineExceeded, context.DeadlineExceeded, 30 * time.Second, true}) {
		w.Errorf("%+v", got)
	}
}
