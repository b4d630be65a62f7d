package core

import "time"

// Snapshot is what another process needs to go on with a session: what its machine must know, but for what ends with the process. Requests that
// run are lost with it, and so are streams of which no id was issued. Restore makes a machine of it.
type Snapshot struct {
	Version    string // negotiated; "": none of Versions
	CanPoll    bool
	Standalone StreamID // the standalone stream from now on: a new id, because nothing may be appended to the old one
	// Older are the standalone streams that the session had before, oldest first. A client goes on from a cursor of one of them.
	Older   []OlderStream
	Streams []StreamSnapshot // request streams, oldest first. Only those of which an id may have been issued
}

// OlderStream is a standalone stream of an earlier process.
type OlderStream struct {
	ID   StreamID
	Last uint64 // its last event
}

// StreamSnapshot is one request stream.
type StreamSnapshot struct {
	ID StreamID
	// Requests are those of the POST, ID as written, but for cancelled ones. Seq is the number of the response, if it is recorded. In a sealed
	// stream Seq may be 0 where it is not known: then it is taken to be Last.
	Requests []Request
	Last     uint64 // its last event
	// Sealed says that it has ended: the last response is recorded. The owner of a stream that is not sealed was lost, and with it all requests
	// without a response.
	Sealed bool
	Retain time.Duration // how long it is kept after the restoration; not positive: as long as the session
}

// Snapshot returns what another process needs to go on with the session. Its Standalone is the stream of this machine, and not among Older: the
// caller moves it there and sets a new one, and corrects what did not reach its store. The session is open, and nothing is changed.
func (m *Machine) Snapshot() *Snapshot {
	snap := &Snapshot{CanPoll: m.canPoll, Standalone: m.standaloneID}
	if m.version > 0 {
		snap.Version = Versions[m.version-1].Name
	}
	if m.streamTable == nil {
		return snap
	}
	if m.dropped != nil {
		snap.Older = append(snap.Older, m.dropped.older...) // the caller may append to it
	}
	for _, l := range [...]list{m.fetched, m.unfetched} { // in the order in which they make room
		for i := l.head; i >= 0; i = m.streams[i].next {
			snap.add(&m.streams[i])
		}
	}
	for i := range m.streams[1:] {
		if s := &m.streams[i+1]; s.phase == streamRunning {
			snap.add(s)
		}
	}
	return snap
}

// add adds a stream that a client may come back for.
func (snap *Snapshot) add(s *stream) {
	if !s.idIssued() || s.cancelled {
		return
	}
	at := StreamSnapshot{ID: s.id, Last: s.seq, Sealed: s.phase == streamEnded && !s.orphaned, Retain: s.policy.Retain}
	for _, r := range s.requests() {
		switch {
		case r.state != settled || r.Seq > s.seq:
			at.Requests = append(at.Requests, Request{ID: r.ID})
		case r.Seq > 0: // not cancelled
			at.Requests = append(at.Requests, Request{ID: r.ID, Seq: r.Seq})
		}
	}
	snap.Streams = append(snap.Streams, at)
}

// Restore returns a session as another process left it: open, without connections, and with nothing known of its client's polls. Its streams have
// ended, and nothing is recorded on them; ids of their requests may be used again. Streams for which the limits of cfg leave no room, the
// first ones, are not restored: only their numbers are remembered, Index does not find them, and the driver deletes their logs. cfg is shared
// and must not change. The machine refers to what snap refers to, and changes nothing of it.
func Restore(cfg *Config, snap *Snapshot, now time.Time) Machine {
	m := Machine{cfg: cfg, standaloneID: snap.Standalone, base: now, phase: phaseOpen, version: place(snap.Version), canPoll: snap.CanPoll}
	if len(snap.Streams)+len(snap.Older) == 0 {
		return m
	}
	m.makeStreamTable()
	if len(snap.Older) > 0 {
		m.dropped = &droppedStreams{older: snap.Older}
	}
	for k := range snap.Streams {
		m.restore(&snap.Streams[k])
	}
	for m.overEndedLimit() {
		m.dropOldest(nil)
	}
	return m
}

// restore adds a stream that has ended.
func (m *Machine) restore(at *StreamSnapshot) {
	p := m.cfg.Policy
	p.Retain = at.Retain
	i := m.addStream(at.ID, &p)
	s := &m.streams[i]
	s.phase, s.seq, s.primed = streamEnded, at.Last, true
	rs := s.single[:]
	if len(at.Requests) != 1 {
		rs = make([]Request, len(at.Requests))
		s.batch = rs
	}
	for k, r := range at.Requests {
		rs[k] = Request{ID: r.ID, Seq: r.Seq, state: settled}
		switch {
		case r.Seq == 0 && at.Sealed:
			rs[k].Seq = at.Last
		case r.Seq == 0:
			rs[k].state = orphaned
		}
	}
	s.restored, s.orphaned = true, !at.Sealed
	m.enlist(i)
	m.schedule(i)
}

// Index returns the index of a stream of the machine, or -1.
func (m *Machine) Index(id StreamID) int32 {
	if m.streamTable == nil {
		if m.phase != phaseEnded && id == m.standaloneID {
			return standalone
		}
		return -1
	}
	return m.find(id)
}

// readOlder makes a connection that attach has made begin in older standalone streams, the first of which its cursor names. The primer repeats
// that cursor, so a client that is lost before any event comes back with the same position.
func (m *Machine) readOlder(s *stream, older []OlderStream, in *In, out []Out) []Out {
	if last := &out[len(out)-1]; last.Do == Primer {
		last.Index, last.Stream, last.Seq = -1, in.Stream, in.Seq
	}
	from := in.Seq
	for k := range older {
		if o := &older[k]; o.Last > from {
			s.readsOlder = true
			out = append(out, Out{Do: Older, Conn: in.Conn, Index: -1, Stream: o.ID, Seq: from, Last: o.Last})
		}
		from = 0
	}
	return out
}
