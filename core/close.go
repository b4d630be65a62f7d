package core

import "time"

// resumable reports whether the client of a stream can be detached: it polls, and it can fetch later what it misses.
func (m *Machine) resumable(s *stream) bool {
	return m.trusted() && !s.inMemory && !s.jsonOnly && !s.stranded
}

// Resumable reports whether Close can detach the client of a stream.
func (m *Machine) Resumable(id StreamID) bool {
	if m.streamTable == nil {
		return m.phase != phaseEnded && id == m.standaloneID && m.trusted()
	}
	i := m.find(id)
	return i >= 0 && m.streams[i].phase == streamRunning && m.resumable(&m.streams[i])
}

// close detaches the client of a stream because the app asked for it. If the stream has no reader, it does nothing.
func (m *Machine) close(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	switch {
	case i < 0 || m.streams[i].phase != streamRunning:
		return append(out, Out{Do: Refuse, Reason: Ended})
	case m.streams[i].reader == readerNone:
		return out
	case !m.resumable(&m.streams[i]):
		return append(out, Out{Do: Refuse, Reason: NotResumable})
	}
	return m.detach(i, in.Dur, out)
}

// detach makes the reader of a stream write what is recorded now, tell the client when to come back, and end. override, if positive, is the
// retry.
func (m *Machine) detach(i int32, override time.Duration, out []Out) []Out {
	s := &m.streams[i]
	if s.reader == readerUndecided {
		out = m.startSSE(i, out)
	}
	if s.resumed && s.seq == s.connFrom && !s.readsOlder {
		s.countEmptyPoll()
	}
	return m.endConn(i, s.seq, m.closeRetry(s, override), NoReason, out)
}

// press makes the client of a request acknowledge what it has read, so that the store may drop that. The client is detached for as short a
// time as possible and comes back with a cursor. A client that cannot be detached cannot acknowledge; then the store may drop what was
// written to its connection. For the standalone stream nothing is needed: the store may always drop its oldest events.
func (m *Machine) press(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	if i <= standalone {
		return out
	}
	s := &m.streams[i]
	switch {
	case s.phase != streamRunning || s.reader != readerAttached || s.connWritten == s.connFrom || in.Conn != 0 && in.Conn != s.conn:
		return out
	case m.resumable(s):
		return m.detach(i, minRetry, out)
	}
	return append(out, Out{Do: Yield, Index: i, Stream: s.id, Seq: s.connWritten})
}

// endConn tells the reader of a stream to write up to seq and end. The stream has no reader from here on.
func (m *Machine) endConn(i int32, seq uint64, retry time.Duration, why Reason, out []Out) []Out {
	s := &m.streams[i]
	out = append(out, Out{Do: End, Conn: s.conn, Index: i, Stream: s.id, Seq: seq, Dur: retry, Reason: why, Older: s.readsOlder})
	s.conn, s.closing, s.closingSeq, s.reader = 0, s.conn, seq, readerNone
	s.poll = pollNone
	if retry > 0 {
		s.retry = retry
		if why == NoReason && i != standalone {
			s.poll = pollDue
		}
	}
	m.setDueBack(s)
	m.schedule(i)
	return out
}

// setDueBack notes when the client of a stream without a reader is due back.
func (m *Machine) setDueBack(s *stream) {
	s.dueBack = m.now + s.retry
	m.dueBack = max(m.dueBack, s.dueBack)
}

// detachAtLimit ends a connection that has lasted as long as it may, also if it is slow or still writes the rest of an ended stream. It writes
// at least one event if there is one, so each connection brings the client further. Such a poll does not count as empty, because the
// server held it.
func (m *Machine) detachAtLimit(i int32, out []Out) []Out {
	s := &m.streams[i]
	s.emptyPolls, s.resumed, s.mayEndEarly = 0, false, true
	least := uint64(0)
	if s.conn != 0 {
		if s.seq > s.connFrom+1 || s.readsOlder {
			least = s.connFrom + 1
		}
		out = m.detach(i, 0, out)
		out[len(out)-1].Least = least
		return out
	}
	end := Out{Do: End, Conn: s.closing, Index: i, Stream: s.id, Seq: s.closingSeq, Least: s.connFrom + 1, Older: s.readsOlder}
	switch {
	case s.cancelled:
		end.Reason = Cancelled
	case s.phase == streamEnded && s.closingSeq == s.seq:
		end.Reason, end.Dur = Ended, m.closeRetry(s, 0)
		s.retry = end.Dur
	default:
		end.Dur = s.retry // what the client was told before
	}
	m.setDueBack(s)
	return append(out, end)
}

// gone notes that a connection has ended. It cancels nothing: a disconnect is not a cancellation (transports, "sending messages to the
// server", 2025-11-25).
func (m *Machine) gone(in *In, out []Out) []Out {
	m.conns--
	m.lastActive = m.now
	i := m.find(in.Stream)
	if i < 0 || in.Stream == (StreamID{}) {
		if m.onlyOpened && m.phase == phaseOpen { // many sessions do nothing for long after initialize
			m.onlyOpened = false
			m.shrink()
		}
		return out
	}
	s := &m.streams[i]
	switch in.Conn {
	case s.closing:
		s.closing = 0
	case s.conn:
		s.conn, s.reader = 0, readerNone
	default: // a newer connection reads
		return out
	}
	m.setDueBack(s)
	switch {
	case s.cancelled:
		return m.drop(i, out)
	case i != standalone && !s.primed:
		return m.strand(i, out)
	}
	m.schedule(i)
	return out
}

// strand notes that the client cannot come back for a stream, because it was never given an id. The call runs on, but nothing more is
// recorded, and its request id may be used again.
func (m *Machine) strand(i int32, out []Out) []Out {
	s := &m.streams[i]
	if m.phase == phaseInitializing {
		return m.endSession(OpenFailure, out) // the client will never learn the session id
	}
	s.stranded = true
	for k := range s.requests() {
		if r := &s.requests()[k]; r.state == held {
			m.settle(i, r)
		}
	}
	if s.phase == streamEnded {
		return m.drop(i, out)
	}
	m.schedule(i)
	return append(out, Out{Do: Strand, Index: i, Stream: s.id})
}

// primerRetry returns the retry of a primer. A client that cannot poll is told none, so it is due back at once.
func (m *Machine) primerRetry(s *stream) time.Duration {
	if !m.canPoll {
		return 0
	}
	return clampRetry(s.policy.Retry)
}

// closeRetry returns the retry that a client is told when its connection ends: override if that is positive, else the policy's Retry, which
// grows with each poll that came, went and brought nothing. Up to a fifth is added at random, so that clients that were detached together
// do not come back together.
func (m *Machine) closeRetry(s *stream, override time.Duration) time.Duration {
	if !m.canPoll {
		return 0
	}
	d := clampRetry(override)
	if override <= 0 {
		d = clampRetry(s.policy.Retry)
		limit := max(d, min(s.policy.RetryMax, maxRetry))
		for k := uint16(0); k < s.emptyPolls && d < limit; k++ {
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
	if i < 0 || m.streams[i].phase != streamRunning {
		return append(out, Out{Do: Refuse, Reason: Ended})
	}
	p := *m.streams[i].policy
	p.merge(in.Policy)
	m.streams[i].policy = m.sharedPolicy(&p)
	m.schedule(i)
	return out
}
