package cluster

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// world is all that a Memory knows between two calls of Forget.
type world struct {
	logs    *eventstore.Memory
	members members
	since   time.Time

	// lost counts the sessions that were removed. A handle that found its log before a session's object was made may have found a
	// log of an earlier object, which is dropped.
	lost atomic.Uint64

	// mu is locked inside a session's mu, never around it, and only for a short time.
	mu       sync.Mutex
	sessions map[string]*holding
	peak     int        // the most that sessions had since it was made: a map does not shrink by itself
	order    []*holding // the same, in any order
	hand     int        // where in order the next sweep goes on
}

func newWorld(cfg eventstore.MemoryConfig) *world {
	return &world{logs: eventstore.NewMemory(cfg), sessions: make(map[string]*holding), since: time.Now()}
}

// lock returns the object of a session, locked, or nil if there is none that lives. known is what the caller thinks it is, or nil.
func (w *world) lock(name string, known *holding) *holding {
	now := time.Now()
	for s := known; ; s = nil {
		if s == nil {
			w.mu.Lock()
			s = w.sessions[name]
			w.mu.Unlock()
		}
		if s == nil {
			return nil
		}
		s.mu.Lock()
		if !s.gone && now.Before(s.expires) {
			return s
		}
		s.remove()
		s.mu.Unlock()
	}
}

// lockOrAdd is lock for a session that is added if there is none. The caller fills a new one before it unlocks it.
func (w *world) lockOrAdd(name string) (s *holding, added bool) {
	w.sweep()
	for {
		if s := w.lock(name, nil); s != nil {
			return s, false
		}
		s := &holding{world: w, name: name}
		s.mu.Lock()
		if w.add(s) {
			return s, true
		}
	}
}

// add reports false if the name is taken.
func (w *world) add(s *holding) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sessions[s.name] != nil {
		return false
	}
	w.sessions[s.name] = s
	w.peak = max(w.peak, len(w.sessions))
	s.place = len(w.order)
	w.order = append(w.order, s)
	s.born = w.lost.Load()
	return true
}

// forget removes s, which is in the world. It replaces a map and a slice that have become much too large.
func (w *world) forget(s *holding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost.Add(1)
	delete(w.sessions, s.name)
	end := len(w.order) - 1
	last := w.order[end]
	w.order[s.place], last.place = last, s.place
	w.order[end] = nil
	w.order = w.order[:end]
	if n := len(w.sessions); w.peak > 64 && n <= w.peak/4 {
		sessions := make(map[string]*holding, n)
		maps.Copy(sessions, w.sessions)
		w.sessions, w.peak = sessions, n
		w.order = append(make([]*holding, 0, n), w.order...)
	}
}

// sweep looks at two sessions, the next ones in turn, and removes those that have expired. It runs before one is added, so there are
// never many more than live.
func (w *world) sweep() {
	for range 2 {
		w.mu.Lock()
		if len(w.order) == 0 {
			w.mu.Unlock()
			return
		}
		w.hand = (w.hand + 1) % len(w.order)
		s := w.order[w.hand]
		w.mu.Unlock()
		s.mu.Lock()
		if !time.Now().Before(s.expires) {
			s.remove()
		}
		s.mu.Unlock()
	}
}
