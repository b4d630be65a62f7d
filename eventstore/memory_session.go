package eventstore

import "sync"

// memorySession is a session's logs. It exists from the first handle on, and is charged while it holds a log.
type memorySession struct {
	store *Memory
	name  string

	// mu guards the session and all its logs. Nobody holds two of them.
	mu        sync.Mutex
	lost      error // why nothing works any more; nil while it does
	logs      registry[memoryLog]
	shelf     shelf
	principal string
	owner     *owner // self, or that of the principal while the session holds something
	self      owner
	held      int   // logs that are somewhere
	bytes     int64 // charged to those, without the session's own
	spare     int64 // what eviction could free of it
}

func (s *memorySession) log(k Key) *memoryLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.Principal != "" && s.held == 0 {
		s.principal = k.Principal
	}
	l := s.logs.find(k.Stream)
	if l == nil {
		l = &memoryLog{session: s, name: k.Stream, first: 1}
		s.logs.add(k.Stream, l)
	}
	if k.Backlog && !l.backlog {
		l.backlog = true
		l.settle(0)
	}
	return l
}

// end makes every handle of the session fail with why, and returns its memory.
func (s *memorySession) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return
	}
	s.lost = why
	logs := s.logs.held
	s.logs = registry[memoryLog]{}
	for _, l := range logs {
		l.clear()
		l.settle(0)
	}
}

// overhead is what the session itself is charged while it holds a log.
func (s *memorySession) overhead() int64 {
	return sessionCharge + heapSize(len(s.name))
}
