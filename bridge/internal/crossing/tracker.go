package crossing

import (
	"net/http"
	"runtime"
	"sync"
	"testing/synctest"
	"weak"

	"github.com/rejoin-mcp/rejoin"
)

// Tracker has weak pointers to all sessions, calls, notifications and modern requests. Nothing may keep them.
type Tracker struct {
	mu       sync.Mutex
	sessions []weak.Pointer[rejoin.Session]
	calls    []weak.Pointer[rejoin.Call]
	notes    []weak.Pointer[rejoin.Notification]
	requests []weak.Pointer[http.Request]
	handles  []weak.Pointer[rejoin.Handle]
}

func track[T any](t *Tracker, all *[]weak.Pointer[T], v *T) {
	t.mu.Lock()
	defer t.mu.Unlock()
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

// App returns an app that tracks all that app gets.
func (t *Tracker) App(app rejoin.App) rejoin.ModernApp { return &trackedApp{app, t} }

// Remaining counts those that are left after garbage collections. Call it in a bubble.
func (t *Tracker) Remaining() (sessions, calls, notes, requests int) {
	for range 10 { // pools need two collections, and what a cleanup releases needs another one
		runtime.GC()
		synctest.Wait()
		sessions, calls, notes, requests = alive(t.sessions), alive(t.calls), alive(t.notes), max(alive(t.requests), alive(t.handles))
		if sessions+calls+notes+requests == 0 {
			break
		}
	}
	return sessions, calls, notes, requests
}

// trackedApp tracks all that its app gets.
type trackedApp struct {
	rejoin.App
	tracker *Tracker
}

// Modern implements rejoin.ModernApp. It is nil if the app has none.
func (a *trackedApp) Modern() http.Handler {
	app, ok := a.App.(rejoin.ModernApp)
	if !ok || app.Modern() == nil {
		return nil
	}
	h := app.Modern()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		track(a.tracker, &a.tracker.requests, r)
		track(a.tracker, &a.tracker.handles, rejoin.HandleFromContext(r.Context()))
		h.ServeHTTP(w, r)
	})
}

func (a *trackedApp) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	if c, ok := r.Context().Value(clientKey{}).(*client); ok {
		c.opened.Store(s)
	}
	track(a.tracker, &a.tracker.sessions, s)
	inner, err := a.App.Open(r, s, state)
	return &trackedSession{inner, a.tracker}, err
}

type trackedSession struct {
	rejoin.AppSession
	tracker *Tracker
}

func (s *trackedSession) Request(c *rejoin.Call) {
	track(s.tracker, &s.tracker.calls, c)
	s.AppSession.Request(c)
}

func (s *trackedSession) Notification(n *rejoin.Notification) {
	track(s.tracker, &s.tracker.notes, n)
	s.AppSession.Notification(n)
}

// objects returns the number of objects in the heap after a collection.
func objects() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapObjects) //nolint:gosec // it fits
}
