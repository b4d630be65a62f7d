package engine

import (
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// stream is what the engine keeps of one stream in addition to the machine: its log, its readers, and the messages on their way to it.
// Guarded by the session's mutex.
type stream struct {
	id        core.StreamID
	n         uint32     // its number in the session; 0 is the standalone stream
	batch     bool       // answered by an array
	dropped   bool       // the machine has forgotten it
	lost      bool       // the store has lost some of it, and that was reported
	appending bool       // a sender is appending; what comes meanwhile waits in queue
	begun     bool       // the store knows it; in a cluster
	unnamed   bool       // the machine was told that it has no ids, because it is not begun
	away      bool       // the sender that is appending waits for a store that does not answer
	events    uint32     // that were appended
	requests  []*Request // until all are answered
	one       [1]*Request

	retain    time.Duration // how long it is kept after its end; in a cluster
	method    string        // of the first request
	requestID string        // its id, where it is the only one

	conn     *Conn         // that reads, or waits for a JSON answer
	closing  *Conn         // that was told to end, and still reads
	attached chan struct{} // closed when a connection begins to read; made when a caller waits for it

	named  string         // see naming
	single *[1][]byte     // for a batch of one event; for whose turn it is. Nil: there was none yet, or a store has failed and may still use it
	log    eventstore.Log // nil until the first event
	last   uint64         // the last sequence that was given
	stored uint64         // the last event that a reader can find
	bytes  int64

	pending *pending // nil: no message waits
}

// pending are the messages of a stream that wait to be appended.
type pending struct {
	queue      []Message     // for their turn
	queued     int           // bytes in it
	single     int           // so many of the first in queue are appended one by one
	held       []Message     // until the machine releases them
	quickUntil time.Duration // in the session's life: a sender that comes back before that is faster than the store; 0: none was
	crowd      chan struct{} // closed when a batch is taken; nil: no sender waits for that
}

// wait returns where messages wait.
func (st *stream) wait() *pending {
	if st.pending == nil {
		st.pending = new(pending)
	}
	return st.pending
}

// release returns the messages that the machine has held, which wait no longer.
func (st *stream) release() (held []Message) {
	if w := st.pending; w != nil {
		held, w.held = w.held, nil
	}
	return held
}

// request finds a request by its id.
func (st *stream) request(id string) *Request {
	for _, r := range st.requests {
		if r.id == id {
			return r
		}
	}
	return nil
}

// wake makes the readers look at the log again.
func (st *stream) wake() {
	if st.conn != nil {
		st.conn.wake()
	}
	if st.closing != nil {
		st.closing.wake()
	}
}

// announce tells those who wait for a reader.
func (st *stream) announce() {
	if st.attached != nil {
		close(st.attached)
		st.attached = nil
	}
}

// watch reports whether a connection reads, and otherwise returns what is closed when one does.
func (st *stream) watch(s *Session) (reading bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.conn != nil {
		return true, nil
	}
	if st.attached == nil {
		st.attached = make(chan struct{})
	}
	return false, st.attached
}

// naming makes the name of the stream's log, and in a cluster behind it what the next owner of the session gets to know of the stream. It is called by
// whose turn it is, before the requests of the stream have ended; the first time under the lock, if there is a connection.
func (st *stream) naming(session string, clustered bool) (name, about string) {
	if st.named == "" {
		var room [256]byte
		name := nameOf(session, st.id)
		text := append(room[:0], name[:]...)
		if clustered {
			text = st.appendAbout(text)
		}
		st.named = string(text)
	}
	return st.named[:streamNameLen], st.named[streamNameLen:]
}
