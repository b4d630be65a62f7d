package core

// streamTable is what a machine keeps of its streams. Most sessions of a server are idle at any moment and hold nothing here: an idle
// session has no streamTable, and the next input that needs one makes it.
type streamTable struct {
	streams      []stream // the standalone stream is the first; dropped ones leave free places
	free         []int32
	byID         map[StreamID]int32 // request streams; nil: there are few
	inflight     map[string]int32   // by Request.key
	timers       []int32            // heap of streams by deadline
	fetched      list               // ended streams that were fully written to a client, in that order
	unfetched    list               // other ended streams, oldest first
	endedIDBytes int                // bytes of the request ids of both
	lastPolicy   *Policy            // the policy that was copied last
	dropped      *droppedStreams    // nil: none was dropped yet
}

// needsStreams reports whether an input may change the streams of an idle session.
func (m *Machine) needsStreams(in *In) bool {
	switch in.Op {
	case Opened, Touch, Delete, HandOver:
		return false
	case Tick:
		return m.idleAt() <= m.now
	default:
		return true
	}
}

// makeStreamTable makes the streamTable of a session that was idle.
func (m *Machine) makeStreamTable() {
	m.streamTable = &streamTable{streams: make([]stream, 1), fetched: emptyList, unfetched: emptyList}
	m.streams[standalone].reset(m.standaloneID, &m.cfg.Policy)
}

// shrink frees memory that is not needed while no request runs, and more if there is no request stream. It is not called after each call,
// because the next call would have to allocate again.
func (m *Machine) shrink() {
	if m.streamTable == nil || m.phase != phaseOpen {
		return
	}
	if m.unanswered == 0 {
		m.inflight = nil
	}
	if len(m.streams)-1 > len(m.free) {
		return
	}
	s := &m.streams[standalone]
	if m.conns == 0 && s.pristine() && s.policy == &m.cfg.Policy && m.dropped == nil {
		m.streamTable = nil
		return
	}
	if cap(m.streams) > 1 {
		m.streams = append(make([]stream, 0, 1), *s)
	}
	m.free, m.byID, m.lastPolicy = nil, nil, nil
	if len(m.timers) == 0 {
		m.timers = nil
	}
}

// pristine reports whether the standalone stream is as it was when it was made, as far as that matters later.
func (s *stream) pristine() bool {
	return s.conn == 0 && s.closing == 0 && !s.idIssued() && !s.inMemory
}

// sharedPolicy returns a copy of a policy that nothing changes. Streams with equal policies share it: nearly all streams have the server's
// policy, and most others have the same as the stream before.
func (m *Machine) sharedPolicy(p *Policy) *Policy {
	switch {
	case *p == m.cfg.Policy:
		return &m.cfg.Policy
	case m.lastPolicy == nil || *p != *m.lastPolicy:
		m.lastPolicy = new(Policy)
		*m.lastPolicy = *p
	}
	return m.lastPolicy
}
