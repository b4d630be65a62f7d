package core

import "time"

// reader says who reads a stream.
type reader uint8

const (
	readerNone      reader = iota
	readerUndecided        // a POST waits for its answer; no head was sent
	readerAttached         // a connection reads the log
)

// streamPhase says how far a stream has come.
type streamPhase uint8

const (
	streamUnused  streamPhase = iota
	streamRunning             // requests are to be answered; the standalone stream always runs
	streamEnded               // kept for clients that have not read all of it
)

// stream is one log and what is known of its client.
type stream struct {
	id         StreamID
	policy     *Policy // shared, never changed
	single     [1]Request
	batch      []Request // instead of single
	unanswered int32     // requests that are not answered
	held       int32     // unanswered requests whose response is held

	emptyPolls  uint16 // polls in a row that came, went and brought nothing; at most maxEmptyPolls
	phase       streamPhase
	reader      reader
	jsonOnly    bool // the POST must be answered by plain JSON
	buffered    bool // the writer cannot flush, so the POST may be answered only by JSON or by a stream that ends at once
	primed      bool // an id was written, so the client can come back
	stranded    bool // the connection is gone and no id was ever written
	inMemory    bool // the store failed: events have no ids from here on
	failing     bool // an error was ordered in place of the response
	cancelled   bool // the client cancelled it, and there is no response: nothing is left to fetch
	resumed     bool // the connection came with a cursor
	readsOlder  bool // the connection reads older standalone streams before
	restored    bool // another process has made it
	orphaned    bool // the process that owned it was lost: no number of it is given any more
	mayEndEarly bool // the connection need not write up to closingSeq: its time is over, or it cannot read on
	poll        pollState
	inList      listName
	heapIndex   int32 // index in the heap of deadlines, or -1
	prev        int32 // neighbours in its list
	next        int32

	conn        ConnID        // reads, or waits undecided
	closing     ConnID        // was told to end and has not ended yet
	closingSeq  uint64        // the event up to which closing was told to write
	nonce       uint64        // of the primer, while undecided
	seq         uint64        // the last event
	written     uint64        // the last event that was written to any connection
	expireSeq   uint64        // the highest number that no event has: of an Expire, or of a response that was discarded
	connFrom    uint64        // the position after which the connection began to read
	connWritten uint64        // the last event that was written to the connection
	connLimit   time.Duration // an outer limit ends the connection after this time; not positive: none does
	retry       time.Duration // the retry that the client was told last

	created   instant
	connSince instant // when the connection began
	endedAt   instant
	dueBack   instant // when the client was told to be back

	deadline instant
}

// reset turns an unused stream into a new one. Nothing may change the policy. A stream is large, so it is made where it stays.
func (s *stream) reset(id StreamID, p *Policy) {
	s.id, s.policy, s.phase = id, p, streamRunning
	s.deadline, s.heapIndex, s.prev, s.next = never, -1, -1, -1
}

// countEmptyPoll counts a poll that brought nothing.
func (s *stream) countEmptyPoll() { s.emptyPolls = min(s.emptyPolls+1, maxEmptyPolls) }

// requests returns the requests of the POST, whether it is one or a batch.
func (s *stream) requests() []Request {
	if s.batch != nil {
		return s.batch
	}
	return s.single[:]
}

// awaiting returns the request with that id if its response is still to be made, else nil.
func (s *stream) awaiting(id string) *Request {
	for k := range s.requests() {
		if r := &s.requests()[k]; r.ID == id && r.state == awaited {
			return r
		}
	}
	return nil
}

// awaitingKey is like awaiting, for an id from another message, which may spell it differently.
func (s *stream) awaitingKey(key string) *Request {
	for k := range s.requests() {
		if r := &s.requests()[k]; r.state == awaited && r.key() == key {
			return r
		}
	}
	return nil
}

// idIssued reports whether the client may know an id of the stream: a primer or an event was ordered. It may have reached the client even
// if the connection was lost before Written was reported.
func (s *stream) idIssued() bool { return s.retry > 0 || s.seq > 0 || s.orphaned }

// find returns the index of a stream, or -1.
func (m *Machine) find(id StreamID) int32 {
	if id == m.standaloneID {
		return standalone
	}
	if m.byID == nil {
		for i := 1; i < len(m.streams); i++ {
			if s := &m.streams[i]; s.id == id && s.phase != streamUnused {
				return int32(i)
			}
		}
		return -1
	}
	if i, ok := m.byID[id]; ok {
		return i
	}
	return -1
}

// maxUnindexed is how many streams are found by a scan. For so few the map byID, which is large, would not be faster.
const maxUnindexed = 8

// addToIndex puts a stream into byID, and makes byID when there are many streams.
func (m *Machine) addToIndex(i int32) {
	switch {
	case m.byID != nil:
		m.byID[m.streams[i].id] = i
	case len(m.streams) > maxUnindexed:
		m.byID = make(map[StreamID]int32)
		for at := range m.streams[1:] {
			if s := &m.streams[at+1]; s.phase != streamUnused {
				m.byID[s.id] = int32(at + 1)
			}
		}
	}
}

// addStream makes a request stream and returns its index.
func (m *Machine) addStream(id StreamID, p *Policy) int32 {
	if m.inflight == nil {
		m.inflight = make(map[string]int32)
	}
	var i int32
	if n := len(m.free); n > 0 {
		i, m.free = m.free[n-1], m.free[:n-1]
	} else {
		i = int32(len(m.streams))     //nolint:gosec // a session has at most MaxInFlight + MaxEnded of them
		if int(i) == cap(m.streams) { // a stream is large, and most sessions have few
			m.streams = append(make([]stream, 0, i+1+i/2), m.streams...)
		}
		m.streams = append(m.streams, stream{})
	}
	m.streams[i].reset(id, m.sharedPolicy(p))
	m.addToIndex(i)
	return i
}

// drop deletes a request stream. Its numbers are remembered if the client may come back for it.
func (m *Machine) drop(i int32, out []Out) []Out {
	s := &m.streams[i]
	if s.idIssued() && m.cfg.Remember > 0 {
		if m.dropped == nil {
			m.dropped = new(droppedStreams)
		}
		m.dropped.add(s, m.cfg.Remember, m.cfg.IDBytes)
	}
	out = append(out, Out{Do: DropLog, Index: i, Stream: s.id})
	m.unlist(i)
	m.unschedule(i)
	delete(m.byID, s.id)
	*s = stream{heapIndex: -1}
	m.free = append(m.free, i)
	return out
}

// endStream ends a request stream whose requests are all answered or cancelled. The stream is kept only if a client can still fetch
// something of it.
func (m *Machine) endStream(i int32, out []Out) []Out {
	s := &m.streams[i]
	s.phase, s.endedAt = streamEnded, m.now
	m.running--
	m.lastActive = m.now
	if s.stranded || s.cancelled && s.conn == 0 && s.closing == 0 {
		return m.drop(i, out)
	}
	m.enlist(i)
	m.schedule(i)
	for m.overEndedLimit() {
		out = m.dropOldest(out)
	}
	return out
}

// dropOldest drops the ended stream that makes room first.
func (m *Machine) dropOldest(out []Out) []Out {
	oldest := m.fetched.head
	if oldest < 0 {
		oldest = m.unfetched.head
	}
	return m.drop(oldest, out)
}

// overEndedLimit reports whether more is kept of ended streams than the limits allow. One stream may always be kept, however long its ids
// are.
func (m *Machine) overEndedLimit() bool {
	n := m.fetched.n + m.unfetched.n
	return m.cfg.MaxEnded > 0 && n > m.cfg.MaxEnded || m.cfg.IDBytes > 0 && n > 1 && m.endedIDBytes > m.cfg.IDBytes
}

// settle takes a request out of flight. Its id may be used again.
func (m *Machine) settle(i int32, r *Request) {
	s := &m.streams[i]
	if r.state == held {
		s.held--
	}
	r.state = settled
	s.unanswered--
	m.unanswered--
	if r.Ping {
		m.pings--
	}
	if j, ok := m.inflight[r.key()]; ok && j == i { // a newer request may have the id of a stranded one
		delete(m.inflight, r.key())
	}
	r.Key = "" // not needed for what is remembered of the request
}
