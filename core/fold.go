package core

// work is what a machine needs while something happens. Most sessions of a server are idle at any moment: such a one has none, and the
// next input that needs it makes it anew.
type work struct {
	streams  []stream // the standalone stream is the first; places of dropped ones are free
	free     []int32
	index    map[StreamID]int32 // request streams; nil: there are few
	inflight map[string]int32   // by Request.key
	timers   []int32            // heap of streams by deadline
	read     list               // ended streams that were written out, oldest first
	unread   list               // ended streams that were not
	ids      int                // bytes of the ids of those
	last     *Policy            // the policy that was kept last
	dropped  *memory            // nil: nothing yet
}

// sleepsThrough reports whether an input changes nothing of the streams of an idle session.
func (m *Machine) sleepsThrough(in *In) bool {
	switch in.Op {
	case Opened, Touch:
		return true
	case Tick:
		return m.idleAt() > m.now
	default:
		return false
	}
}

// unfold makes what an idle session does without.
func (m *Machine) unfold() {
	m.work = &work{streams: make([]stream, 1), read: emptyList, unread: emptyList}
	m.streams[standalone].begin(m.own, &m.cfg.Policy)
}

// fold gives back what is not needed where nothing runs, and more where no request stream is left. It is not for each call: the next one takes it anew.
func (m *Machine) fold() {
	if m.work == nil || m.phase != open {
		return
	}
	if m.pending == 0 {
		m.inflight = nil
	}
	if len(m.streams)-1 > len(m.free) {
		return
	}
	s := &m.streams[standalone]
	if m.conns == 0 && s.unused() && s.policy == &m.cfg.Policy && m.dropped == nil {
		m.work = nil
		return
	}
	if cap(m.streams) > 1 {
		m.streams = append(make([]stream, 0, 1), *s)
	}
	m.free, m.index, m.last = nil, nil, nil
	if len(m.timers) == 0 {
		m.timers = nil
	}
}

// unused reports whether nothing has ever happened to the standalone stream that has to be known later.
func (s *stream) unused() bool {
	return s.conn == 0 && s.closing == 0 && !s.named() && !s.memory
}

// keep returns a copy of a policy that nobody changes. Nearly all streams have the server's, and most others that of the one before.
func (m *Machine) keep(p *Policy) *Policy {
	switch {
	case *p == m.cfg.Policy:
		return &m.cfg.Policy
	case m.last == nil || *p != *m.last:
		m.last = new(Policy)
		*m.last = *p
	}
	return m.last
}
