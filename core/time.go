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
		return m.drop(i, out)
	case reached(m.overrunAt(s)):
		out = m.fail(i, Overran, out)
	case reached(m.abandonAt(s)):
		out = m.fail(i, Abandoned, out)
	case reached(m.closeAt(s)):
		out = m.letGoAt(i, 0, out)
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

func (m *Machine) closeAt(s *stream) instant {
	if s.conn == 0 || !m.resumable(s) || s.life != alive {
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
	at := m.dropAt(s)
	if s.life == alive {
		at = min(m.streamAt(s), m.closeAt(s), m.overrunAt(s), m.abandonAt(s))
	}
	if at == s.deadline {
		return
	}
	m.setTimer(i, at)
}
