package adoptions

import (
	"runtime"
	"strings"
	"testing/synctest"
	"time"
)

// Nothing of a session stays in the old owner when it has learned that it lost the session, nor in the adopter when the client has ended it.
func nothingLeft(w *world) {
	w.connect("")
	elapse(Lease)
	before := BubbleGoroutines()
	first := w.processes[0]
	for range 5 {
		session := w.open()
		for _, body := range []string{
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`,
			`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a:1"}}`,
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"away"}}`,
		} {
			w.raw(session, body)
		}
		w.Kill(0)
		w.use(1)
		w.raw(session, `{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"a:2"}}`)
		w.raw(session, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"away"}}`)
		w.Return(0)
		w.same("sessions of the old owner", []int{int(first.srv.Stats().Sessions), first.Sessions()}, []int{1, 1})
		w.use(1)
		w.delete(session)
		w.same("sessions of the adopter", []int{int(w.processes[1].srv.Stats().Sessions), w.processes[1].Sessions()}, []int{0, 0})
		w.use(0)
	}
	w.Delete()
	for _, p := range w.processes {
		p.forget()
	}
	<-time.After(time.Hour) // a stopped timer keeps its function until its time has come
	if sessions, calls, notes, _ := w.tracker.Remaining(); sessions+calls+notes > 0 {
		w.Errorf("%d sessions are left, %d calls and %d notifications", sessions, calls, notes)
	}
	if now := BubbleGoroutines(); now > before {
		w.Errorf("%d goroutines are left", now-before)
	}
}

// BubbleGoroutines counts the goroutines of the test's bubble, without those of net/http. It is called from within the bubble.
func BubbleGoroutines() (count int) {
	synctest.Wait()
	buf := make([]byte, 4<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ") // the first is the current one
	number, _, _ := strings.Cut(rest, "]")
	for _, stack := range all[1:] {
		head, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(head, "synctest bubble "+number+"]") && !strings.Contains(stack, "net/http.") {
			count++
		}
	}
	return count
}
