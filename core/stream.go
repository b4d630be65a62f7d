package core

import "time"

// reader says who reads a stream.
type reader uint8

const (
	nobody    reader = iota
	undecided        // a POST waits; no head was sent
	attached         // a connection reads the log
)

// life says how far a stream has come.
type life uint8

const (
	unused life = iota
	alive       // requests are to be answered; the standalone stream always is
	ended       // kept for those who have not read it all
)

// stream is one log and what is known of its client.
type stream struct {
	id     StreamID
	policy *Policy // shared
	one    [1]Request
	batch  []Request // instead of one
	open   int32     // requests that are not answered
	held   int32     // of those, the ones whose response waits for the form of the answer

	empties   uint16 // polls in a row that came and went and brought nothing, as far as they matter
	life      life
	reader    reader
	jsonOnly  bool // its POST may not become a stream
	buffered  bool // … but one that ends at once: what is written leaves with the end of the response
	primed    bool // an id was written, so the client can come back
	stranded  bool // no id was ever written, and the connection is gone
	memory    bool // the store failed: no ids from here on
	failing   bool // an error was ordered in place of the response
	cancelled bool // ended by the client, without any response: nothing is left to fetch
	poll      bool // the connection came with a cursor
	parting   parting
	cut       bool // the connection need not write all, or nothing of the log
	in        listName
	timer     int32 // place in the heap, or -1
	prev      int32 // neighbours in its list
	next      int32

	conn    ConnID        // who reads, or waits undecided
	closing ConnID        // who was told to end, and has not yet
	upTo    uint64        // what closing was told to write up to
	nonce   uint64        // of the primer, while undecided
	seq     uint64        // last event
	sent    uint64        // last event that was written to a connection
	expired uint64        // last number of an Expire, which no event need have
	from    uint64        // where the connection began to read
	wrote   uint64        // last event that was written to it
	limit   time.Duration // what lies around the connection will cut it then; not positive: nothing will
	retry   time.Duration // what the client was told last

	began   instant // the stream was made
	since   instant // the connection began
	endedAt instant
	dueBack instant // the client was told to be back

	deadline instant
}

// begin makes an unused stream a new one, with a policy that nobody changes. It is large, so it is made where it stays.
func (s *stream) begin(id StreamID, p *Policy) {
	s.id, s.policy, s.life = id, p, alive
	s.deadline, s.timer, s.prev, s.next = never, -1, -1, -1
}

// empty counts a poll that brought nothing.
func (s *stream) empty() { s.empties = min(s.empties+1, maxEmpties) }

// requests are the members, whether there is one or a batch.
func (s *stream) requests() []Request {
	if s.batch != nil {
		return s.batch
	}
	return s.one[:]
}

// awaiting returns the request with that id if its response is still to be made.
func (s *stream) awaiting(id string) *Request {
	for k := range s.requests() {
		if r := &s.requests()[k]; r.ID == id && r.state == awaited {
			return r
		}
	}
	return nil
}

// awaitingKey is awaiting for what a client names in another message, perhaps in another spelling.
func (s *stream) awaitingKey(key string) *Request {
	for k := range s.requests() {
		if r := &s.requests()[k]; r.state == awaited && r.key() == key {
			return r
		}
	}
	return nil
}

// named reports whether a client may know an id of the stream: a primer or an event was ordered, and may have got through even
// if the connection was lost before it was reported as written.
func (s *stream) named() bool { return s.retry > 0 || s.seq > 0 }

// find returns the place of a stream, or -1.
func (m *Machine) find(id StreamID) int32 {
	if id == m.own {
		return standalone
	}
	if m.index == nil {
		for i := 1; i < len(m.streams); i++ {
			if s := &m.streams[i]; s.id == id && s.life != unused {
				return int32(i)
			}
		}
		return -1
	}
	if i, ok := m.index[id]; ok {
		return i
	}
	return -1
}

// fewStreams are found as fast without an index, which is large.
const fewStreams = 8

// enter puts a stream into the index, if there are so many that there is one.
func (m *Machine) enter(i int32) {
	switch {
	case m.index != nil:
		m.index[m.streams[i].id] = i
	case len(m.streams) > fewStreams:
		m.index = make(map[StreamID]int32)
		for at := range m.streams[1:] {
			if s := &m.streams[at+1]; s.life != unused {
				m.index[s.id] = int32(at + 1)
			}
		}
	}
}

// addStream makes a request stream and returns its place.
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
	m.streams[i].begin(id, m.keep(p))
	m.enter(i)
	return i
}

// drop forgets a request stream. Its numbers are remembered if a client may come back for it.
func (m *Machine) drop(i int32, out []Out) []Out {
	s := &m.streams[i]
	if s.named() && m.cfg.Remember > 0 {
		if m.dropped == nil {
			m.dropped = new(memory)
		}
		m.dropped.add(s, m.cfg.Remember, m.cfg.IDBytes)
	}
	out = append(out, Out{Do: DropLog, Index: i, Stream: s.id})
	m.unlist(i)
	m.unschedule(i)
	delete(m.index, s.id)
	*s = stream{timer: -1}
	m.free = append(m.free, i)
	return out
}

// finish ends a request stream whose requests are all answered or cancelled. Only where somebody could still fetch something
// is it kept.
func (m *Machine) finish(i int32, out []Out) []Out {
	s := &m.streams[i]
	s.life, s.endedAt = ended, m.now
	m.running--
	m.active = m.now
	if s.stranded || s.cancelled && s.conn == 0 && s.closing == 0 {
		return m.drop(i, out)
	}
	m.enlist(i)
	m.schedule(i)
	for m.tooManyEnded() {
		oldest := m.read.head
		if oldest < 0 {
			oldest = m.unread.head
		}
		out = m.drop(oldest, out)
	}
	return out
}

// tooManyEnded reports whether more is kept of ended streams than may be. The last one is kept, however long its ids are.
func (m *Machine) tooManyEnded() bool {
	n := m.read.n + m.unread.n
	return m.cfg.MaxEnded > 0 && n > m.cfg.MaxEnded || m.cfg.IDBytes > 0 && n > 1 && m.ids > m.cfg.IDBytes
}

// settle takes a request out of flight: its id may be used again.
func (m *Machine) settle(i int32, r *Request) {
	s := &m.streams[i]
	if r.state == held {
		s.held--
	}
	r.state = settled
	s.open--
	m.pending--
	if r.Ping {
		m.pings--
	}
	if j, ok := m.inflight[r.key()]; ok && j == i { // a stranded one's id may be another's by now
		delete(m.inflight, r.key())
	}
	r.Key = "" // what is remembered of it is its answer
}
