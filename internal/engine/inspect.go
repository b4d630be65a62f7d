package engine

import (
	"time"

	"github.com/rejoin-mcp/rejoin/core"
)

// Snapshot is a session as it stands.
type Snapshot struct {
	Ready   bool   // initialize was answered with a result
	Version string // negotiated
	Polls   bool   // its client is let go where a policy or a tool asks for it
	Active  time.Time
	Streams []StreamSnapshot // the standalone stream first
}

// StreamSnapshot is a stream as it stands.
type StreamSnapshot struct {
	Number    uint32 // in the session; 0 is the standalone stream
	Method    string // of its first request
	RequestID string // "": the standalone stream, or a batch
	State     core.State
	Since     time.Time
	Events    int
	Bytes     int64
	Via       string // the process that its connection came through; "": none
}

// Snapshot looks at the session. Not ok: it has ended.
func (s *Session) Snapshot() (at Snapshot, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != core.NoReason {
		return at, false
	}
	at = Snapshot{Ready: s.ready, Version: s.version, Polls: s.m.CanPoll(), Active: s.created.Add(s.active)}
	for i, st := range s.streams {
		if st == nil {
			continue
		}
		info := s.m.Inspect(int32(i))
		stream := StreamSnapshot{
			Number: st.n, Method: st.method, RequestID: st.requestID, State: info.State, Since: info.Since, Events: int(st.events), Bytes: st.bytes,
		}
		if st.conn != nil {
			stream.Via = st.conn.via
		}
		at.Streams = append(at.Streams, stream)
	}
	return at, true
}

// Load is how much of something a session has.
type Load struct {
	Streams, Connections, Parked int
	Running                      int  // requests that were not answered
	Unfetched                    int  // responses that were not written to a client
	Stored                       bool // another process can serve them
}

// Load counts. Not ok: the session has ended.
func (s *Session) Load() (l Load, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != core.NoReason {
		return l, false
	}
	l = Load{Connections: len(s.conns), Running: s.m.Running(), Unfetched: s.m.Unfetched(), Stored: s.owner != nil && s.isStored()}
	for i, st := range s.streams {
		if st == nil {
			continue
		}
		l.Streams++
		if i != 0 && st.conn == nil && s.m.Inspect(int32(i)).State == core.Parked {
			l.Parked++
		}
	}
	return l, true
}

// Find returns the name of the stream of that number.
func (s *Session) Find(number uint32) (id core.StreamID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st != nil && st.n == number {
			return st.id, true
		}
	}
	return id, false
}

// Attached returns the names of the streams that a connection reads.
func (s *Session) Attached() (ids []core.StreamID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st != nil && st.conn != nil {
			ids = append(ids, st.id)
		}
	}
	return ids
}
