package core

import "time"

// tick does what has become due.
func (m *Machine) tick(out []Out) []Out {
	for m.work != nil && len(m.timers) > 0 {
		i := m.timers[0]
		if m.streams[i].deadline > m.now {
			break
		}
		out = m.due(i, out)
	}
	if m.idleAt() <= m.now {
		return m.end(Idle, out)
	}
	m.fold()
	return out
}

// due does what has become due for one stream, and sets its next deadline.
func (m *Machine) due(i int32, out []Out) []Out {
	s := &m.streams[i]
	reached := func(at instant) bool { return at <= m.now }
	switch {
	case s.life == ended && reached(m.dropAt(s)):
		if m.missAt(s) != never { // it is kept for less than clients may be late
			out = m.miss(i, out)
		}
		return m.drop(i, out)
	case reached(m.overrunAt(s)):
		out = m.fail(i, Overran, out)
	case reached(m.abandonAt(s)):
		out = m.fail(i, Abandoned, out)
	case reached(m.missAt(s)):
		out = m.miss(i, out)
	case reached(m.closeAt(s)):
		out = m.timeUp(i, out)
	case reached(m.streamAt(s)):
		out = m.goSSE(i, out)
	}
	m.schedule(i)
	return out
}

func after(from instant, d time.Duration) instant {
	if d <= 0 || from > never-d {
		return never
	}
	return from + d
}

func (m *Machine) streamAt(s *stream) instant {
	if s.reader != undecided || s.jsonOnly || s.buffered {
		return never
	}
	return after(s.since, s.policy.StreamAfter)
}

// closeAt is when a connection has lasted as long as it may, also one that was told to end and is still writing.
func (m *Machine) closeAt(s *stream) instant {
	slow := s.closing != 0 && !s.cut && s.upTo > s.from+1
	if s.conn == 0 && !slow || !m.resumable(s) {
		return never
	}
	return min(after(s.since, s.policy.CloseAfter), after(s.since, s.limit))
}

func (m *Machine) overrunAt(s *stream) instant {
	if s.life != alive || s.failing || s.id == m.own {
		return never
	}
	return after(s.began, s.policy.MaxRuntime)
}

func (m *Machine) abandonAt(s *stream) instant {
	if s.life != alive || s.failing || s.conn != 0 || s.closing != 0 || s.id == m.own {
		return never
	}
	return after(s.dueBack, s.policy.AbandonAfter)
}

// dropAt is when nobody is expected to come for an ended stream any more.
func (m *Machine) dropAt(s *stream) instant {
	if s.conn != 0 || s.closing != 0 {
		return never
	}
	return after(max(s.endedAt, s.dueBack), s.policy.Retain)
}

// idleAt is when the session is over for want of a sign of life: a request that runs or a connection that is open is one, and
// a client that was told to stay away is not missing before it is due back.
func (m *Machine) idleAt() instant {
	if m.running > 0 || m.conns > 0 {
		return never
	}
	return after(max(m.active, m.dueBack), m.cfg.SessionIdleTTL)
}

// schedule puts the deadline of a stream right, after anything about it has changed.
func (m *Machine) schedule(i int32) {
	s := &m.streams[i]
	at := m.closeAt(s)
	if s.life == alive {
		at = min(at, m.streamAt(s), m.overrunAt(s), m.abandonAt(s))
	} else {
		at = min(at, m.dropAt(s))
	}
	at = min(at, m.missAt(s))
	if at == s.deadline {
		return
	}
	m.setTimer(i, at)
}
