package redisstore

import (
	"sync"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/internal/weakmap"
)

// registry finds sessions and logs of which there are handles: a drop ends all handles that were given out before, used or not. What has no
// handle costs nothing.
type registry struct {
	mu       sync.Mutex
	sessions weakmap.Map[session]
}

// session is a session of which there are handles.
type session struct {
	key      string
	dropping sync.RWMutex // locked by a DropSession

	mu   sync.Mutex
	logs weakmap.Map[log]
}

// log is what all handles of a log share.
type log struct {
	session *session
	name    string
	gone    atomic.Bool   // it was dropped
	acked   atomic.Uint64 // the last event that its client has
	short   atomic.Bool   // its client should acknowledge
	chunk   atomic.Uint64 // the first event of the chunk in which the last Read has ended: a hint for the next one

	dropping sync.RWMutex // locked by a Drop
}

func (r *registry) session(name, key string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions.Find(name)
	if s == nil {
		s = &session{key: key}
		r.sessions.Add(name, s)
	}
	return s
}

func (r *registry) log(name, key, stream string) *log {
	s := r.session(name, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs.Find(stream)
	if l == nil {
		l = &log{session: s, name: stream}
		s.logs.Add(stream, l)
	}
	return l
}

// dropped ends the handles of a log.
func (l *log) dropped() {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	l.gone.Store(true)
	s.logs.Remove(l.name, l)
}

// dropped ends the handles of all logs of a session.
func (s *session) dropped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs.All(func(_ string, l *log) { l.gone.Store(true) })
	s.logs = weakmap.Map[log]{}
}

// wasDropped waits for drops that are under way, and reports whether the log was dropped: an append beside a drop may come after it in the
// engine, where nothing is left of the log. It waits as long as the call of the drop takes.
func (l *log) wasDropped() bool {
	l.dropping.RLock()
	defer l.dropping.RUnlock()
	l.session.dropping.RLock()
	defer l.session.dropping.RUnlock()
	return l.gone.Load()
}

// acknowledge notes that the client has event seq.
func (l *log) acknowledge(seq uint64) {
	for {
		was := l.acked.Load()
		if seq <= was || l.acked.CompareAndSwap(was, seq) {
			return
		}
	}
}
