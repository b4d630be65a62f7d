package eventstore

import "sync"

// memorySession holds a session's logs. It exists from the first handle on, and is charged while it keeps a log.
type memorySession struct {
	store *Memory
	name  string

	// mu guards the session and all its logs. No goroutine holds the mu of two sessions.
	mu        sync.Mutex
	ended     error // what every operation returns after the end of the session or the store; nil before
	logs      registry[memoryLog]
	queues    evictionQueues
	principal string
	tenant    *tenant // own, or the principal's while the session keeps a log
	own       tenant
	keptLogs  int
	bytes     int64 // the charge of its logs, without the session's overhead
	evictable int64 // what eviction could free of that
}

// log returns the log that k names. The session's mu is held.
func (s *memorySession) log(k Key) *memoryLog {
	if k.Principal != "" && s.keptLogs == 0 {
		s.principal = k.Principal
	}
	l := s.logs.find(k.Stream)
	if l == nil {
		l = &memoryLog{session: s, name: k.Stream, first: 1}
		s.logs.add(k.Stream, l)
	}
	if k.Backlog && !l.backlog {
		l.backlog = true
		l.settle()
	}
	return l
}

// appender returns the tenant that an Append to the session is charged to, and what it holds. A session that holds nothing joins its
// principal only with its first event, but what the principal holds counts before. The session's mu is held, the store's is not.
func (s *memorySession) appender() (t *tenant, held int64) {
	if s.principal != "" && s.keptLogs == 0 {
		m := s.store
		m.mu.Lock()
		p := m.principals[s.principal]
		m.mu.Unlock()
		if p != nil {
			return p, p.bytes.Load()
		}
	}
	return s.tenant, s.charged()
}

// end makes every handle of the session fail with why, and returns its memory.
func (s *memorySession) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return
	}
	s.ended = why
	logs := s.logs.held
	s.logs = registry[memoryLog]{}
	var d totals
	for _, l := range logs {
		l.gone = true
		l.clear()
		l.reconcile(&d)
		if s.keptLogs%64 == 0 { // not only at the end, which may take long
			d.addTo(s.store)
			d = totals{}
		}
	}
}

// overhead is what the session itself is charged while it keeps a log.
func (s *memorySession) overhead() int64 {
	return sessionCharge + heapSize(len(s.name))
}
