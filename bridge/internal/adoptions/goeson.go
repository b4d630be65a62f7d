package adoptions

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
)

// prepare sets what a session keeps.
func (w *world) prepare() {
	w.Helper()
	w.setLevel("warning").Result()
	for _, uri := range []string{"a:1", "a:2", "a:3"} {
		w.subscribe("subscribe", uri).Result()
	}
	w.subscribe("unsubscribe", "a:1").Result()
}

func goesOn(w *world) { sessionGoesOn(w, "2025-11-25") }

func goesOnOlder(w *world) { sessionGoesOn(w, "2025-03-26") }

// The log level, the subscriptions, and all that the SDK knows of the client go on, also at a second adoption.
func sessionGoesOn(w *world, version string) {
	w.connect(version)
	w.prepare()
	w.look(version, "warning", "error")
	for n := range 2 {
		w.Kill(n)
		next := w.use(n + 1)
		w.look(version, "warning", "error")
		listen := w.Listen()
		for _, uri := range []string{"a:1", "a:2", "a:3"} {
			next.Updated(uri)
			elapse(0)
		}
		next.AddTool("more")
		elapse(Lease) // SDKs delay list_changed
		w.same("the standalone stream", summaries(listen), []string{"updated a:2", "updated a:3", "list_changed"})
		tools := string(w.Start("tools/list", nil).Result())
		if !strings.Contains(tools, `"look"`) || !strings.Contains(tools, `"more"`) {
			w.Fatal(tools)
		}
		w.same("adopted", next.srv.Stats().Adopted, 1)
		listen.Cut()
	}
	// What changes at the adopter is kept too.
	w.setLevel("error").Result()
	w.subscribe("unsubscribe", "a:2").Result()
	w.subscribe("subscribe", "a:4").Result()
	w.Return(0)
	w.Kill(2)
	first := w.use(0)
	w.look(version, "error")
	listen := w.Listen()
	for _, uri := range []string{"a:1", "a:2", "a:3", "a:4"} {
		first.Updated(uri)
		elapse(0)
	}
	w.same("the standalone stream", summaries(listen), []string{"updated a:3", "updated a:4"})
}

// What was recorded is fetched from the adopter. Tools of the adopter poll.
func resultFetched(w *world) {
	w.connect("")
	call := w.CallTool("away", nil)
	call.WaitClosed()
	w.release <- struct{}{}
	elapse(0)
	w.Kill(0)
	w.use(1)
	call.Result()
	w.same("the result", summaries(call), []string{"result returned"})
	call = w.CallTool("away", nil)
	call.WaitClosed()
	w.release <- struct{}{}
	call.Result()
	w.same("a result of the adopter", summaries(call), []string{"result returned"})
	w.setLevel("debug").Result()
	began := time.Now()
	call = w.CallTool("slow", nil)
	call.WaitClosed()
	w.same("after CloseAfter", time.Since(began), Lease)
	w.release <- struct{}{}
	call.Result()
	w.same("its result", summaries(call), []string{"message slow", "result returned"})
}

// What ran is answered with owner_lost, and a question that was open is lost with it. The old owner cancels its tools when it learns it.
func ownerLost(w *world) {
	w.connect("")
	w.setLevel("debug").Result()
	call, away, asks := w.CallTool("wait", nil), w.CallTool("away", nil), w.CallTool("ask", nil)
	call.Cut()
	asks.Cut()
	w.Kill(0)
	second := w.use(1)
	w.same("the call", reason(call.Err()), rejoin.ReasonOwnerLost)
	w.same("the call that was away", reason(away.Err()), rejoin.ReasonOwnerLost)
	w.same("the call that asked", reason(asks.Err()), rejoin.ReasonOwnerLost)
	close(w.answer) // the adopter accepts the answer, and ignores it
	elapse(0)
	w.same("its messages", summaries(call), []string{"message waits", "error owner_lost"})
	w.CallTool("quick", nil).Result()
	if len(w.causes) > 0 {
		w.Fatalf("a tool of the old owner ended with %v before it knew", <-w.causes)
	}
	w.Return(0)
	for range 2 {
		select {
		case cause := <-w.causes:
			if !errors.Is(cause, rejoin.ErrMoved) {
				w.Errorf("a tool of the old owner ended with %v", cause)
			}
		default:
			w.Error("a tool of the old owner runs on")
		}
	}
	w.same("sessions of the old owner's SDK", w.processes[0].Sessions(), 0)
	w.same("sessions of the adopter's SDK", second.Sessions(), 1)
	w.CallTool("quick", nil).Result()
}

// The standalone stream goes on with the old cursor.
func standalone(w *world) {
	w.connect("")
	w.prepare()
	listen := w.Listen()
	w.processes[0].Updated("a:2")
	elapse(0)
	listen.Cut()
	w.processes[0].Updated("a:3")
	elapse(0)
	w.Kill(0)
	second := w.use(1)
	listen.Poll()
	w.same("what was recorded", summaries(listen), []string{"updated a:2", "updated a:3"})
	second.Updated("a:1")
	second.Updated("a:2")
	elapse(0)
	w.same("all", summaries(listen), []string{"updated a:2", "updated a:3", "updated a:2"})
	listen.Cut()
	second.Updated("a:3")
	elapse(0)
	listen.Poll()
	w.same("after a poll", summaries(listen), []string{"updated a:2", "updated a:3", "updated a:2", "updated a:3"})
}

// Whatever comes first at the adopter has its effect, also what changes the state that is being restored.
func firstRequests(w *world) {
	w.connect("")
	w.prepare()
	w.Kill(0)
	second := w.use(1)
	w.subscribe("unsubscribe", "a:2").Result()
	listen := w.Listen()
	for _, uri := range []string{"a:2", "a:3"} {
		second.Updated(uri)
		elapse(0)
	}
	w.same("unsubscribed", summaries(listen), []string{"updated a:3"})
	listen.Cut()
	w.Kill(1)
	third := w.use(2)
	w.setLevel("debug").Result()
	w.look("2025-11-25", "info", "warning", "error")
	listen = w.Listen()
	for _, uri := range []string{"a:2", "a:3"} {
		third.Updated(uri)
		elapse(0)
	}
	w.same("unsubscribed before", summaries(listen), []string{"updated a:3"})
}

// A client whose initialized did not arrive, or was not saved, goes on as others do.
func initialized(w *world) {
	w.connect("")
	const notification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"quick"}}`
	never, lost, saved := w.open(), w.open(), w.open()
	w.raw(saved, notification)
	elapse(Lease)
	w.processes[0].link.SetLink(clustertest.Refused)
	w.raw(lost, notification)
	w.Kill(0)
	w.use(1)
	if status, text, _ := w.raw(never, notification); status != http.StatusAccepted {
		w.Fatal(status, text)
	}
	elapse(Lease)
	for i, session := range []string{never, lost, saved} {
		for range 2 {
			if status, text, _ := w.raw(session, call); status != http.StatusOK || !strings.Contains(text, "done") {
				w.Fatal(i, status, text)
			}
		}
	}
	w.same("sessions", w.processes[1].Sessions(), 3)
	if !slices.Contains([]int{0, 4}, w.processes[0].Sessions()) { // it may not know
		w.Fatal(w.processes[0].Sessions())
	}
}
