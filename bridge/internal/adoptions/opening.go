package adoptions

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

const ping = `{"jsonrpc":"2.0","id":99,"method":"ping"}`

var errOpen = errors.New("the app cannot")

// However Open fails at an adoption, the client knows in time, the SDK keeps nothing, and the next process goes on with all that the session had. Only an
// *Error is final.
func openFails(w *world) {
	w.connect("2025-11-25")
	w.prepare()
	for name, fail := range map[string]func() error{
		"an error": func() error { return errOpen },
		"a panic":  func() error { panic("oops") },
		"Goexit": func() error {
			runtime.Goexit()
			return nil
		},
		"an *Error": func() error { return rejoin.Errorf(-32042, "no") },
	} {
		w.Use(0)
		session := w.open()
		w.raw(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		w.raw(session, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warning"}}`)
		w.Kill(0)
		second := w.use(1)
		second.setOpens(fail)
		began := time.Now()
		status, text, _ := w.raw(session, ping)
		want := http.StatusServiceUnavailable
		if name == "an *Error" {
			want = http.StatusNotFound
		}
		if status != want || time.Since(began) > 0 {
			w.Fatal(name, status, text, time.Since(began))
		}
		second.setOpens(nil)
		w.same("sessions of the SDK that could not open it", second.Sessions(), 0)
		third := w.use(2)
		status, text, _ = w.raw(session, ping)
		if want = http.StatusOK; name == "an *Error" {
			want = http.StatusNotFound
		}
		if status != want {
			w.Fatal(name, status, text)
		}
		if status == http.StatusOK {
			if !strings.Contains(third.saved(), "warning") {
				w.Fatal(name, third.saved())
			}
			w.delete(session)
		}
		w.same("sessions of the SDK", third.Sessions(), 0)
		w.Return(0)
	}
	w.Kill(0)
	w.use(2)
	w.look("2025-11-25", "warning", "error")
}

func openIsLateHere(w *world) { openIsLate(w, 1) }

func openIsLateElsewhere(w *world) { openIsLate(w, 2) }

// Open may take so long that its client is told to come back, and another attempt succeeds meanwhile, in the same process or in another one. What the first
// one opens then ends at once, and takes nothing from the second.
func openIsLate(w *world, heir int) {
	w.connect("2025-11-25")
	w.prepare()
	w.Kill(0)
	slow := w.use(1)
	goOn := make(chan struct{})
	slow.setOpens(func() error {
		<-goOn
		return nil
	})
	began := time.Now()
	call := w.Start("ping", nil)
	for call.Status() == 0 && time.Since(began) < Lease {
		elapse(100 * time.Millisecond)
	}
	w.same("status", call.Status(), http.StatusServiceUnavailable)
	w.same("after", time.Since(began), 5*time.Second)
	slow.setOpens(nil)
	next := w.use(heir)
	w.look("2025-11-25", "warning", "error")
	close(goOn)
	elapse(time.Second)
	w.look("2025-11-25", "warning", "error")
	listen := w.Listen()
	next.Updated("a:2")
	elapse(0)
	w.same("the standalone stream", summaries(listen), []string{"updated a:2"})
	w.same("sessions of the SDK", next.Sessions(), 1)
	w.same("sessions", next.srv.Stats().Sessions, 1)
	if heir != 1 {
		w.same("sessions of the SDK that was late", slow.Sessions(), 0)
	}
	w.Delete()
	w.same("sessions of the SDK", []int{slow.Sessions(), next.Sessions()}, []int{0, 0})
}
