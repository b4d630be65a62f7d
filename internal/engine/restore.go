package engine

import (
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Restored is a session as another process left it, and where its logs are. A log that is nil is asked of the store.
type Restored struct {
	Machine *core.Snapshot   // Standalone: see NewStandalone. It is kept, and not changed
	Streams []RestoredStream // those of Machine.Streams, in that order
	Older   []eventstore.Log // those of Machine.Older, in that order
}

// RestoredStream is what is kept of a request stream in addition to the machine.
type RestoredStream struct {
	Log       eventstore.Log
	Number    uint32 // in the session, from 1 on; 0: a new one
	Method    string // of the first request
	RequestID string // of the only one; "": a batch
}

// Restore makes a session that goes on from where another process left it, before anything else is called: in place of Init, and open. Nothing is
// appended to the logs, and only those of streams that there is no room for are dropped. The session has been heard.
func (s *Session) Restore(e *Engine, host Host, who Identity, from *Restored) {
	s.engine, s.host, s.id, s.principal, s.created, s.owner = e, host, who.ID, who.Principal, who.Created, who.Owner
	s.heard.Store(true)
	streams := s.restoredStreams(from)
	s.older = s.restoredOlder(from)
	var dropped []*stream
	s.mu.Lock()
	now := time.Now()
	s.ready, s.version, s.active = true, from.Machine.Version, now.Sub(who.Created)
	s.m = core.Restore(&e.cfg.Machine, from.Machine, now)
	s.streams = []*stream{{id: from.Machine.Standalone}}
	for _, st := range streams {
		index := int(s.m.Index(st.id))
		if index < 0 {
			st.dropped = true
			dropped = append(dropped, st)
			continue
		}
		for index >= len(s.streams) {
			s.streams = append(s.streams, nil)
		}
		s.streams[index] = st
		s.lastStream = max(s.lastStream, st.n)
	}
	s.arm(now)
	s.mu.Unlock()
	for _, st := range dropped {
		s.engine.aside(func() { s.dropLog(st.log) })
	}
}

// restoredStreams makes the request streams.
func (s *Session) restoredStreams(from *Restored) (streams []*stream) {
	next := uint32(1)
	for i := range from.Streams {
		next = max(next, from.Streams[i].Number+1)
	}
	for i := range from.Streams {
		at, more := &from.Machine.Streams[i], &from.Streams[i]
		st := &stream{
			id: at.ID, n: more.Number, batch: more.RequestID == "", method: more.Method, requestID: more.RequestID, log: more.Log, last: at.Last,
			stored: at.Last, events: uint32(at.Last), //nolint:gosec // far fewer
		}
		if st.n == 0 {
			st.n = next
			next++
		}
		if st.log == nil {
			st.log = s.logOf(st)
		}
		st.begun = true
		streams = append(streams, st)
	}
	return streams
}

// restoredOlder finds the logs of older standalone streams.
func (s *Session) restoredOlder(from *Restored) *[]olderLog {
	if len(from.Older) == 0 {
		return nil
	}
	older := make([]olderLog, len(from.Older))
	for i := range older {
		older[i] = olderLog{from.Machine.Older[i].ID, from.Older[i]}
		if older[i].log == nil {
			older[i].log = s.logOf(&stream{id: older[i].id})
		}
	}
	return &older
}
