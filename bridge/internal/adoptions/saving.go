package adoptions

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
)

// changes are the requests whose answers promise something.
func (w *world) changes() []func() *rejoin.Error {
	change := func(method string, params map[string]string) func() *rejoin.Error {
		return func() *rejoin.Error {
			call := w.Start(method, params)
			if strings.Contains(summary(call.Messages()[0]), "error") {
				return call.Err()
			}
			call.Result()
			return nil
		}
	}
	return []func() *rejoin.Error{
		change("logging/setLevel", map[string]string{"level": "info"}),
		change("resources/subscribe", map[string]string{"uri": "a:1"}),
		change("resources/unsubscribe", map[string]string{"uri": "a:1"}),
		change("resources/subscribe", map[string]string{"uri": "a:2"}),
	}
}

// When the client has the answer, the engine has what it promises, with one write. What promises nothing writes nothing.
func promises(w *world) {
	w.connect("")
	first := w.processes[0]
	elapse(Lease)
	w.same("after initialized", w.recorded(), first.saved())
	before := first.saved()
	for i, change := range w.changes() {
		saves := first.link.Count("save", "put")
		if err := change(); err != nil {
			w.Fatal(i, err)
		}
		w.same("what is recorded", w.recorded(), first.saved())
		w.same("writes", first.link.Count("save", "put")-saves, 1)
		if first.saved() == before {
			w.Fatal(i, "nothing has changed")
		}
		before = first.saved()
	}
	calls := first.link.Count()
	w.CallTool("quick", nil).Result()
	w.Start("tools/list", nil).Result()
	w.same("calls of the engine", first.link.Count(), calls)
	w.open()
	w.same("after initialize", w.recorded(), first.saved())
}

var errSave = errors.New("the engine refuses")

func refuseSaves(c clustertest.Call) error {
	if c.Op == "save" || c.Op == "put" {
		return errSave
	}
	return nil
}

// If the engine does not take what an answer promises, the client gets an error. It has been done all the same: the SDK has it, and the engine gets
// it when it can, so they agree again. The client may repeat the request.
func saveFails(w *world) {
	w.connect("")
	elapse(Lease)
	first := w.processes[0]
	for i, change := range w.changes() {
		first.setScript(refuseSaves)
		err := change()
		if err == nil || reason(err) != rejoin.ReasonStore {
			w.Fatal(i, err)
		}
		first.setScript(nil)
		elapse(Lease)
		w.same("what is recorded", w.recorded(), first.saved())
		if err := change(); err != nil {
			w.Fatal("repeated", i, err)
		}
		w.same("what is recorded", w.recorded(), first.saved())
	}
	w.look("2025-11-25", "info", "warning", "error")
	listen := w.Listen()
	update := func(p *process) {
		for _, uri := range []string{"a:1", "a:2"} {
			p.Updated(uri)
			elapse(0)
		}
	}
	update(first)
	w.same("subscriptions", summaries(listen), []string{"updated a:2"})
	listen.Cut()
	w.Kill(0)
	second := w.use(1)
	w.look("2025-11-25", "info", "warning", "error")
	listen = w.Listen()
	update(second)
	w.same("subscriptions of the adopter", summaries(listen), []string{"updated a:2"})
}

// If the owner ends before the engine could take it, it has not been done: the adopter has the state before. Here, too, the client repeats it.
func saveFailsForGood(w *world) {
	w.connect("")
	w.setLevel("error").Result()
	elapse(Lease)
	recorded := w.recorded()
	first := w.processes[0]
	first.setScript(refuseSaves)
	for i, change := range w.changes() {
		if err := change(); err == nil || reason(err) != rejoin.ReasonStore {
			w.Fatal(i, err)
		}
	}
	w.Kill(0)
	second := w.use(1)
	w.same("the state", w.recorded(), recorded)
	w.look("2025-11-25", "error")
	for i, change := range w.changes() {
		if err := change(); err != nil {
			w.Fatal(i, err)
		}
	}
	w.same("the state", w.recorded(), second.saved())
	w.look("2025-11-25", "info", "warning", "error")
}

// What could not be saved keeps no later call from its result: neither the initialized of a client, which promises nothing, nor what another call
// was refused for.
func othersGoOn(w *world) {
	w.connect("")
	first := w.processes[0]
	for i, refuse := range []func() *rejoin.Error{
		func() *rejoin.Error { return nil }, // initialized was not saved yet
		func() *rejoin.Error { return w.setLevel("error").Err() },
	} {
		first.setScript(refuseSaves)
		if err := refuse(); err != nil && reason(err) != rejoin.ReasonStore {
			w.Fatal(i, err)
		}
		for range 3 {
			call := w.CallTool("quick", nil)
			w.same("another call", summaries(call), []string{"result done"})
			elapse(time.Second)
		}
		first.setScript(nil)
		elapse(Lease)
		w.same("what is recorded", w.recorded(), first.saved())
	}
}

// A session that cannot be recorded is not opened, and the SDK does not keep it.
func notRecorded(w *world) {
	w.connect("")
	first := w.processes[0]
	first.setScript(refuseSaves)
	status, text, head := w.raw("", initialize)
	if status != http.StatusServiceUnavailable || head.Get("Mcp-Session-Id") != "" || head.Get("Retry-After") == "" {
		w.Fatal(status, text, head)
	}
	first.setScript(nil)
	w.same("sessions", first.Sessions(), 1)
	w.open()
	w.same("sessions", first.Sessions(), 2)
}
