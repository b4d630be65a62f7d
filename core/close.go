package core

import "time"

// resumable reports whether the client of a stream can be sent away: it polls, and what it missed can be found again.
func (m *Machine) resumable(s *stream) bool {
	return m.trusted() && !s.memory && !s.jsonOnly && !s.stranded
}

// Resumable reports whether Close can work for a stream.
func (m *Machine) Resumable(id StreamID) bool {
	if m.work == nil {
		return m.phase != over && id == m.own && m.trusted()
	}
	i := m.find(id)
	return i >= 0 && m.streams[i].life == alive && m.resumable(&m.streams[i])
}

// letGo closes the connection of a stream at the app's wish. A client that is away already stays away.
func (m *Machine) letGo(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	switch {
	case i < 0 || m.streams[i].life != alive:
		return append(out, Out{Do: Refuse, Reason: Ended})
	case m.streams[i].reader == nobody:
		return out
	case !m.resumable(&m.streams[i]):
		return append(out, Out{Do: Refuse, Reason: NotResumable})
	}
	return m.letGoAt(i, in.Dur, out)
}

// letGoAt closes the connection that a stream has.
func (m *Machine) letGoAt(i int32, override time.Duration, out []Out) []Out {
	s := &m.streams[i]
	if s.reader == undecided {
		out = m.goSSE(i, out)
	}
	if s.poll && s.seq == s.from {
		s.empty()
	}
	return m.endConn(i, s.seq, m.retryOf(s, override), NoReason, out)
}

// press makes the client of a request acknowledge what it has read, so that the store may give it up: it is let go for as short a time as
// possible, and comes back with a cursor. One that cannot be let go has nothing to acknowledge with; what was written to its connection
// may go. Of the standalone stream the oldest events may go anyway.
func (m *Machine) press(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	if i <= standalone {
		return out
	}
	s := &m.streams[i]
	switch {
	case s.life != alive || s.reader != attached || s.wrote == s.from || in.Conn != 0 && in.Conn != s.conn:
		return out
	case m.resumable(s):
		return m.letGoAt(i, minRetry, out)
	}
	return append(out, Out{Do: Yield, Index: i, Stream: s.id, Seq: s.wrote})
}

// endConn tells the reader of a stream to write up to seq and end. Nobody reads from here on.
func (m *Machine) endConn(i int32, seq uint64, retry time.Duration, why Reason, out []Out) []Out {
	s := &m.streams[i]
	out = append(out, Out{Do: End, Conn: s.conn, Index: i, Stream: s.id, Seq: seq, Dur: retry, Reason: why})
	s.conn, s.closing, s.upTo, s.reader = 0, s.conn, seq, nobody
	s.parting = byItself
	if retry > 0 {
		s.retry = retry
		if why == NoReason && i != standalone {
			s.parting = sentAway
		}
	}
	m.expect(s)
	m.schedule(i)
	return out
}

// expect notes when the client of a stream that nobody reads is due back.
func (m *Machine) expect(s *stream) {
	s.dueBack = m.now + s.retry
	m.dueBack = max(m.dueBack, s.dueBack)
}

// timeUp lets the client of a stream go whose connection has lasted as long as it may: also one that is slow, or that is being written
// what is left of a call that has ended. It has written one event at least if there is one, so the next connection comes further. That it
// brought nothing is no reason to come less often: it was held.
func (m *Machine) timeUp(i int32, out []Out) []Out {
	s := &m.streams[i]
	s.empties, s.poll, s.cut = 0, false, true
	least := uint64(0)
	if s.conn != 0 {
		if s.seq > s.from+1 {
			least = s.from + 1
		}
		out = m.letGoAt(i, 0, out)
		out[len(out)-1].Least = least
		return out
	}
	end := Out{Do: End, Conn: s.closing, Index: i, Stream: s.id, Seq: s.upTo, Least: s.from + 1}
	switch {
	case s.cancelled:
		end.Reason = Cancelled
	case s.life == ended && s.upTo == s.seq:
		end.Reason, end.Dur = Ended, m.retryOf(s, 0)
		s.retry = end.Dur
	default:
		end.Dur = s.retry // as it was told before
	}
	m.expect(s)
	return append(out, end)
}

// gone notes that a connection has ended. It never cancels anything: a disconnect is not a cancellation (transports,
// "sending messages to the server", 2025-11-25).
func (m *Machine) gone(in *In, out []Out) []Out {
	m.conns--
	m.active = m.now
	i := m.find(in.Stream)
	if i < 0 || in.Stream == (StreamID{}) {
		if m.young && m.phase == open { // initialize was answered, and often that is all that happens for long
			m.young = false
			m.fold()
		}
		return out
	}
	s := &m.streams[i]
	switch in.Conn {
	case s.closing:
		s.closing = 0
	case s.conn:
		s.conn, s.reader = 0, nobody
	default: // a newer one reads
		return out
	}
	m.expect(s)
	switch {
	case s.cancelled:
		return m.drop(i, out)
	case i != standalone && !s.primed:
		return m.strand(i, out)
	}
	m.schedule(i)
	return out
}

// strand notes that no client can come back for a stream: it was never given an id. The call runs on, but nothing of it is
// recorded, and its request id may be used again.
func (m *Machine) strand(i int32, out []Out) []Out {
	s := &m.streams[i]
	if m.phase == provisional {
		return m.end(OpenFailure, out) // the client will never learn the session's name
	}
	s.stranded = true
	for k := range s.requests() {
		if r := &s.requests()[k]; r.state == held {
			m.settle(i, r)
		}
	}
	if s.life == ended {
		return m.drop(i, out)
	}
	m.schedule(i)
	return append(out, Out{Do: Strand, Index: i, Stream: s.id})
}

// baseRetry is what a primer says. Clients that cannot poll are told nothing, so they are due back at once.
func (m *Machine) baseRetry(s *stream) time.Duration {
	if !m.polls {
		return 0
	}
	return clampRetry(s.policy.Retry)
}

// retryOf is what a client is told when it is sent away: more after each poll that came and went and brought nothing, unless the caller says
// otherwise, and up to a fifth more at random, so that those who left together do not come back together.
func (m *Machine) retryOf(s *stream, override time.Duration) time.Duration {
	if !m.polls {
		return 0
	}
	d := clampRetry(override)
	if override <= 0 {
		d = clampRetry(s.policy.Retry)
		limit := max(d, min(s.policy.RetryMax, maxRetry))
		for k := uint16(0); k < s.empties && d < limit; k++ {
			d = min(d+d/2, limit)
		}
	}
	spread := uint64(d / 5 / time.Microsecond) //nolint:gosec // at most a fifth of an hour
	return clampRetry(d + time.Duration(spread*uint64(m.rand)>>32)*time.Microsecond)
}

func clampRetry(d time.Duration) time.Duration { return min(max(d, minRetry), maxRetry) }

// adjust changes the policy of a running request.
func (m *Machine) adjust(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	if i < 0 || m.streams[i].life != alive {
		return append(out, Out{Do: Refuse, Reason: Ended})
	}
	p := *m.streams[i].policy
	p.merge(in.Policy)
	m.streams[i].policy = m.keep(&p)
	m.schedule(i)
	return out
}
