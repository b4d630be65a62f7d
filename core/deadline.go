package core

import "time"

// tick does what has become due.
func (m *Machine) tick(out []Out) []Out {
	for m.streamTable != nil && len(m.timers) > 0 {
		i := m.timers[0]
		if m.streams[i].deadline > m.now {
			break
		}
		out = m.due(i, out)
	}
	if m.idleAt() <= m.now {
		return m.endSession(Idle, out)
	}
	m.shrink()
	return out
}

// due does one thing that has become due for a stream, and sets its next deadline.
func (m *Machine) due(i int32, out []Out) []Out {
	s := &m.streams[i]
	reached := func(at instant) bool { return at <= m.now }
	switch {
	case s.phase == streamEnded && reached(m.dropAt(s)):
		if m.pollMissedAt(s) != never { // Retain is shorter than the time a client may be late
			out = m.missPoll(i, out)
		}
		return m.drop(i, out)
	case reached(m.overrunAt(s)):
		out = m.fail(i, Overran, out)
	case reached(m.abandonAt(s)):
		out = m.fail(i, Abandoned, out)
	case reached(m.pollMissedAt(s)):
		out = m.missPoll(i, out)
	case reached(m.closeAt(s)):
		out = m.detachAtLimit(i, out)
	case reached(m.streamAt(s)):
		out = m.startSSE(i, out)
	}
	m.schedule(i)
	return out
}

// after returns from + d, or never if d is not positive or the sum would overflow.
func after(from instant, d time.Duration) instant {
	if d <= 0 || from > never-d {
		return never
	}
	return from + d
}

// streamAt is when an undecided POST becomes a stream.
func (m *Machine) streamAt(s *stream) instant {
	if s.reader != readerUndecided || s.jsonOnly || s.buffered {
		return never
	}
	return after(s.connSince, s.policy.StreamAfter)
}

// closeAt is when a connection has lasted as long as it may. That also holds for one that was told to end and is still writing.
func (m *Machine) closeAt(s *stream) instant {
	slow := s.closing != 0 && !s.mayEndEarly && (s.closingSeq > s.connFrom+1 || s.readsOlder)
	if s.conn == 0 && !slow || !m.resumable(s) {
		return never
	}
	return min(after(s.connSince, s.policy.CloseAfter), after(s.connSince, s.connLimit))
}

// overrunAt is when a request has run for MaxRuntime.
func (m *Machine) overrunAt(s *stream) instant {
	if s.phase != streamRunning || s.failing || s.id == m.standaloneID {
		return never
	}
	return after(s.created, s.policy.MaxRuntime)
}

// abandonAt is when the client of a request is overdue for AbandonAfter.
func (m *Machine) abandonAt(s *stream) instant {
	if s.phase != streamRunning || s.failing || s.conn != 0 || s.closing != 0 || s.id == m.standaloneID {
		return never
	}
	return after(s.dueBack, s.policy.AbandonAfter)
}

// dropAt is when an ended stream has been kept for Retain.
func (m *Machine) dropAt(s *stream) instant {
	if s.conn != 0 || s.closing != 0 {
		return never
	}
	return after(max(s.endedAt, s.dueBack), s.policy.Retain)
}

// idleAt is when the session ends because nothing has happened. It does not end while a request runs or a connection is left, and the time
// of a client that was told to stay away counts from when it is due back.
func (m *Machine) idleAt() instant {
	if m.running > 0 || m.conns > 0 {
		return never
	}
	return after(max(m.lastActive, m.dueBack), m.cfg.SessionIdleTTL)
}

// schedule sets the deadline of a stream. It is called after every change that a deadline depends on.
func (m *Machine) schedule(i int32) {
	s := &m.streams[i]
	at := m.closeAt(s)
	if s.phase == streamRunning {
		at = min(at, m.streamAt(s), m.overrunAt(s), m.abandonAt(s))
	} else {
		at = min(at, m.dropAt(s))
	}
	at = min(at, m.pollMissedAt(s))
	if at == s.deadline {
		return
	}
	m.setTimer(i, at)
}
