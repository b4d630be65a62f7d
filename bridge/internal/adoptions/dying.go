package adoptions

import (
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// inTime is how long a call may take to end after its owner is lost: two leases, a retry and 5 s.
const inTime = 2*Lease + 1200*time.Millisecond + 5*time.Second

// The process that adopts the session dies too: while Open runs, just after it, or when it has answered. The next one has all that the first owner had, in
// time, and both SDKs end what they have of the session, should they be alive after all.
func adopterDies(w *world) {
	w.connect("2025-11-25")
	w.prepare()
	first, second, third := w.processes[0], w.processes[1], w.processes[2]
	die := func() { second.link.SetLink(clustertest.Refused) }
	for name, opens := range map[string]func() error{
		"while Open runs": func() error {
			die()
			<-time.After(time.Second)
			return nil
		},
		"while Open fails": func() error {
			die()
			return errOpen
		},
		"just after Open": func() error {
			time.AfterFunc(1, die)
			return nil
		},
		"when it has answered": func() error { return nil },
	} {
		done := w.CallTool("wait", nil)
		done.Cut()
		w.release <- struct{}{}
		elapse(0)
		running := w.CallTool("wait", nil)
		running.Cut()
		w.Kill(0)
		w.use(1)
		second.setOpens(opens)
		w.Start("ping", nil)
		elapse(2 * time.Second)
		die()
		began := time.Now()
		w.use(2)
		untilOver(w, running, began)
		w.same(name+": the call", reason(running.Err()), rejoin.ReasonOwnerLost)
		done.Result()
		w.same(name+": the result", summaries(done), []string{"message waits", "result waited"})
		w.look("2025-11-25", "warning", "error")
		second.setOpens(nil)
		w.Return(0)
		w.Return(1)
		w.Log("a tool has ended: ", <-w.causes)
		w.same(name+": sessions of the SDKs", []int{first.Sessions(), second.Sessions(), third.Sessions()}, []int{0, 0, 1})
		w.Kill(2) // the first one is its owner again
		w.use(0)
		w.look("2025-11-25", "warning", "error")
		w.Return(2)
		w.same(name+": sessions of the SDKs", []int{first.Sessions(), second.Sessions(), third.Sessions()}, []int{1, 0, 0})
	}
}

// untilOver polls until a call is over.
func untilOver(w *world, call *rejointest.Call, began time.Time) {
	w.Helper()
	for {
		call.Poll()
		if messages := summaries(call); len(messages) > 0 && messages[len(messages)-1] == "error owner_lost" {
			return
		}
		if time.Since(began) > inTime || call.Status() != http.StatusOK {
			w.Fatal(time.Since(began), call)
		}
		elapse(time.Second)
	}
}

// Each of many calls ends once: with its result, if it was recorded, or with owner_lost.
func manyParked(w *world) {
	const calls = 64
	w.connect("2025-11-25")
	w.setLevel("debug").Result()
	var all []*rejointest.Call
	for range calls {
		call := w.CallTool("wait", nil)
		call.Cut()
		all = append(all, call)
	}
	for range calls / 2 {
		w.release <- struct{}{}
	}
	elapse(0)
	w.Kill(0)
	w.use(1)
	got := map[string]int{}
	for _, call := range all {
		call.PollFrom(call.IDs()[0])
		elapse(100 * time.Millisecond)
		messages := summaries(call)
		w.same("messages", []any{len(messages), messages[0]}, []any{2, "message waits"})
		got[messages[1]]++
	}
	w.same("calls", got, map[string]int{"result waited": calls / 2, "error owner_lost": calls / 2})
	w.same("adopted", w.processes[1].srv.Stats().Adopted, 1)
	w.Return(0)
	for range calls / 2 {
		w.Log("a tool has ended: ", <-w.causes)
	}
}
