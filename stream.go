package rejoin

import (
	"strconv"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// stream is what the driver keeps of one stream beside the machine: its log, its readers, and the messages on their way to it.
// Guarded by the session's mutex.
type stream struct {
	id    core.StreamID
	n     uint32  // its number in the session; 0 is the standalone stream
	calls []*Call // until all are answered
	one   [1]*Call
	batch bool // answered by an array

	method  string // of the first request
	request string // its id, where it is the only one

	conn    *conn         // who reads, or waits for a JSON answer
	closing *conn         // who was told to end, and still reads
	changed chan struct{} // closed when somebody begins to read; made when somebody waits for it

	log       eventstore.Log // nil until the first event
	last      uint64         // the last sequence that was given
	stored    uint64         // the last event that a reader can find
	dropped   bool           // the machine has forgotten it
	lost      bool           // the store has lost some of it, and that was said
	appending bool           // somebody is appending; what comes meanwhile waits in queue
	queue     []message
	queued    int // bytes in it
	held      []message
	bytes     int64
	events    int
}

// Ref names a session or a stream in logs, metrics and admin routes. It is no secret: unlike session ids and
// event ids it opens nothing. URL-safe.
type Ref string

func (st *stream) ref(s *Session) Ref {
	return s.ref + "-" + Ref(strconv.FormatUint(uint64(st.n), 10))
}

// call finds the call of a request.
func (st *stream) call(id string) *Call {
	for _, c := range st.calls {
		if c.id == id {
			return c
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
	if st.changed != nil {
		close(st.changed)
		st.changed = nil
	}
}

// watch reports whether somebody reads, and otherwise returns what is closed when somebody does.
func (st *stream) watch(s *Session) (reading bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.conn != nil {
		return true, nil
	}
	if st.changed == nil {
		st.changed = make(chan struct{})
	}
	return false, st.changed
}
