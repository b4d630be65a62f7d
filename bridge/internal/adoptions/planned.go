package adoptions

import (
	"context"
	"time"
)

// Each process in turn drains: a call that runs ends with its result, one that has ended and was not fetched is fetched from the next process, and all
// that a session keeps goes on there. Nothing of it stays behind.
func plannedEnds(w *world) {
	w.connect("")
	elapse(Lease) // all know each other
	w.prepare()
	for n := range 2 {
		old, next := w.processes[n], w.processes[n+1]
		parked := w.CallTool("away", nil)
		parked.WaitClosed()
		w.release <- struct{}{} // it has ended, and nothing of it is fetched
		elapse(0)
		running := w.CallTool("slow", nil)
		elapse(time.Second)
		drained := make(chan error, 1)
		go func() { drained <- old.srv.Drain(context.Background()) }()
		elapse(time.Minute)
		select {
		case err := <-drained:
			w.Fatal("a call runs, and the drain has ended: ", err)
		default:
		}
		w.same("quick", summaries(w.CallTool("quick", nil)), []string{"result done"})
		w.release <- struct{}{}
		elapse(0)
		if err := <-drained; err != nil {
			w.Fatal(err)
		}
		w.same("sessions", []int{int(old.srv.Stats().Sessions), old.Sessions()}, []int{0, 0})
		w.use(n + 1)
		running.Result()
		w.same("slow", summaries(running), []string{"message slow", "result returned"})
		parked.Result()
		w.same("away", summaries(parked), []string{"result returned"})
		w.look("2025-11-25", "warning", "error")
		listen := w.Listen()
		for _, uri := range []string{"a:1", "a:2", "a:3"} {
			next.Updated(uri)
			elapse(0)
		}
		w.same("the standalone stream", summaries(listen), []string{"updated a:2", "updated a:3"})
		w.same("adopted", next.srv.Stats().Adopted, 1)
		listen.Cut()
	}
	if len(w.causes) > 0 {
		w.Fatal("a tool was cancelled: ", <-w.causes)
	}
}
