package crossing

import (
	"net/http"
	"runtime"
	"sync"
	"testing/synctest"
	"weak"

	"github.com/rejoin-mcp/rejoin"
)

// marks are weak pointers to what must go.
type marks struct {
	mu       sync.Mutex
	sessions []weak.Pointer[rejoin.Session]
	calls    []weak.Pointer[rejoin.Call]
	notes    []weak.Pointer[rejoin.Notification]
}

func mark[T any](m *marks, all *[]weak.Pointer[T], v *T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*all = append(*all, weak.Make(v))
}

func alive[T any](all []weak.Pointer[T]) (n int) {
	for _, p := range all {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

// left is what there still is of them, once garbage has been collected.
func (m *marks) left() (sessions, calls, notes int) {
	for range 10 { // pools let go with the second collection, and what a cleanup lets go goes after it has run
		runtime.GC()
		synctest.Wait()
		sessions, calls, notes = alive(m.sessions), alive(m.calls), alive(m.notes)
		if sessions+calls+notes == 0 {
			break
		}
	}
	return sessions, calls, notes
}

// marked is an app with marks on all that it is given.
type marked struct {
	rejoin.App
	marks *marks
}

func (a *marked) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	if c, ok := r.Context().Value(clientKey{}).(*client); ok {
		c.opened.Store(s)
	}
	mark(a.marks, &a.marks.sessions, s)
	inner, err := a.App.Open(r, s, state)
	return &markedSession{inner, a.marks}, err
}

type markedSession struct {
	rejoin.AppSession
	marks *marks
}

func (s *markedSession) Request(c *rejoin.Call) {
	mark(s.marks, &s.marks.calls, c)
	s.AppSession.Request(c)
}

func (s *markedSession) Notification(n *rejoin.Notification) {
	mark(s.marks, &s.marks.notes, n)
	s.AppSession.Notification(n)
}

// objects counts those of the heap, after a collection.
func objects() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapObjects) //nolint:gosec // less than a machine has
}
