package adoptions

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	crossedAtOnce = 4
	crossedRounds = 6
)

// Messages of all kinds cross the adoption of their session, which two processes begin at the same time, over rounds: each has its effect once, no call ends
// twice, and another user gets nothing. If one of them is DELETE, the session is over. Nothing is left in the SDKs.
func everythingCrosses(w *world) {
	w.connect("2025-11-25")
	w.Delete()
	elapse(3 * Lease)
	var objects uint64
	before := BubbleGoroutines()
	for round := range crossedRounds {
		var all []*crossed
		for i := range crossedAtOnce {
			all = append(all, w.newCrossed((round+i)%2 == 0))
		}
		for _, x := range all { // when no tool waits for its release any more
			w.running(x)
		}
		w.Kill(0)
		opened := w.processes[1].opened() + w.processes[2].opened()
		var wait sync.WaitGroup
		for _, x := range all {
			w.sendAll(x, &wait)
		}
		wait.Wait()
		w.same("opened", w.processes[1].opened()+w.processes[2].opened()-opened, crossedAtOnce)
		w.same("sessions of the SDKs", w.processes[1].Sessions()+w.processes[2].Sessions(), crossedAtOnce/2) // the rest is deleted
		elapse(time.Second)
		for n := 1; n < 3; n++ { // they are subscribed to the first before, and to the second meanwhile
			for _, uri := range []string{"a:1", "a:2"} {
				w.processes[n].Updated(uri)
				elapse(time.Second)
			}
		}
		for _, x := range all {
			w.checkCrossed(x)
		}
		w.Return(0)
		for range 2 * crossedAtOnce { // tools that ran and asked
			select {
			case cause := <-w.causes:
				w.Log("a tool has ended: ", cause)
			default:
			}
		}
		for _, x := range all {
			for n := 1; n < 3; n++ {
				message{"ann", x.id, http.MethodDelete, "", ""}.at(w.processes[n])
			}
		}
		elapse(time.Hour)
		for n, p := range w.processes {
			w.same("sessions", []int{n, int(p.srv.Stats().Sessions), p.Sessions()}, []int{n, 0, 0})
			p.forget()
		}
		if sessions, calls, notes, _ := w.tracker.Remaining(); sessions+calls+notes > 0 {
			w.Fatalf("%d sessions are left, %d calls and %d notifications", sessions, calls, notes)
		}
		if now := heapObjects(); round == crossedRounds/3 {
			objects = now
		} else if round == crossedRounds-1 && now > objects+crossedRounds*crossedAtOnce*50 {
			w.Errorf("%d objects are left", now-objects)
		}
	}
	if now := BubbleGoroutines(); now > before {
		w.Errorf("%d goroutines are left", now-before)
	}
}

func heapObjects() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapObjects
}

// checkCrossed looks at what the clients got of a session.
func (w *world) checkCrossed(x *crossed) {
	w.Helper()
	once := func(name, part string) {
		w.Helper()
		_, body, _ := x.answers["ann: "+name].got()
		if got := strings.Count(body, part); got != 1 {
			w.Fatalf("%s: %q comes %d times: %s", name, part, got, body)
		}
	}
	for name, a := range x.answers {
		status, body, ended := a.got()
		switch {
		case strings.HasPrefix(name, "bob"):
			if status != http.StatusNotFound || !ended {
				w.Fatal(name, status, body)
			}
		case x.deleted && status == http.StatusNotFound:
		case status/100 != 2:
			w.Fatal(name, status, body)
		}
	}
	if x.deleted {
		for n := 1; n < 3; n++ {
			a := message{"ann", x.id, http.MethodPost, ping, ""}.at(w.processes[n])
			elapse(0)
			if status, body, _ := a.got(); status != http.StatusNotFound {
				w.Fatal("after DELETE", status, body)
			}
		}
		return
	}
	once("done", `"id":1,`)
	once("done", "waited")
	once("running", `"id":2,`)
	once("running", "owner_lost")
	once("asks", `"id":3,`)
	once("asks", "owner_lost")
	once("call", "done")
	once("listen", `"uri":"a:1"`)
	once("listen", `"uri":"a:2"`)
}

// Many requests begin the adoption at two processes at once, over rounds, while Open takes a random time. One process opens the session, once.
func adoptersRace(w *world) {
	w.connect("2025-11-25")
	w.prepare()
	owner := 0
	for range 6 {
		w.Kill(owner)
		before := []int{w.processes[0].opened(), w.processes[1].opened(), w.processes[2].opened()}
		session := w.sessionID()
		var answers []*answer
		for i := range 20 {
			answers = append(answers, message{"", session, http.MethodPost, strings.Replace(ping, "99", fmt.Sprint("1", i), 1), ""}.at(w.processes[(owner+1+i%2)%3]))
		}
		elapse(Lease)
		served := 0
		next := -1
		for i, a := range answers {
			status, body, ended := a.got()
			if !ended {
				w.Fatal(status, body)
			} else if status == http.StatusOK && strings.Contains(body, `"result"`) {
				served++
				next = (owner + 1 + i%2) % 3
			}
		}
		w.same("served", served, 10)
		opened := 0
		for n, p := range w.processes {
			opened += p.opened() - before[n]
		}
		w.same("opened", opened, 1)
		w.use(next)
		w.look("2025-11-25", "warning", "error")
		w.Return(owner)
		for n, p := range w.processes {
			want := 0
			if n == next {
				want = 1
			}
			w.same("sessions of the SDK", []int{n, p.Sessions()}, []int{n, want})
		}
		owner = next
	}
}
