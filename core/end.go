package core

import "time"

// fail orders an error in place of each response that is missing.
func (m *Machine) fail(i int32, why Reason, out []Out) []Out {
	s := &m.streams[i]
	s.failing = true
	for k := range s.requests() {
		if r := &s.requests()[k]; r.state == awaited {
			out = append(out,
				Out{Do: CancelApp, Index: i, Stream: s.id, ID: r.ID, Reason: why},
				Out{Do: Fail, Index: i, Stream: s.id, ID: r.ID, Reason: why})
		}
	}
	m.schedule(i)
	return out
}

// endSession ends the session: every request is cancelled, every connection ends on an event boundary, and nothing is kept. With
// Terminated the client gets an error in place of each response that a connection still waits for. With Moved those get such errors that
// are undecided, or whose client cannot come back. The other connections end with a retry.
func (m *Machine) endSession(why Reason, out []Out) []Out {
	var streams []stream
	if m.streamTable != nil { // nil: the session is idle, so nothing runs and nothing is read
		streams = m.streams
	}
	for i := range streams {
		s := &streams[i]
		at := int32(i)
		retry := time.Duration(0)
		if why == Moved && s.phase != streamUnused { // the client comes back, to the process that owns the session now
			retry = m.closeRetry(s, 0)
		}
		if s.phase == streamRunning && at != standalone {
			for k := range s.requests() {
				if r := &s.requests()[k]; r.state == awaited {
					out = append(out, Out{Do: CancelApp, Index: at, Stream: s.id, ID: r.ID, Reason: why})
				}
			}
		}
		switch {
		case s.reader == readerUndecided && (why == Terminated || why == Moved): // not refused, because the request may have run
			out = m.endUndecided(at, why, out)
		case s.reader == readerUndecided:
			out = append(out, Out{Do: Refuse, Conn: s.conn, Reason: why})
		case s.conn != 0 || s.closing != 0:
			to := Out{Conn: max(s.conn, s.closing), Index: at, Stream: s.id} // only one of them is set
			if at != standalone && (why == Terminated || why == Moved && (!s.primed || !m.trusted())) {
				out = s.expireUnwritten(to, why, out)
				retry = 0
			}
			to.Do, to.Reason, to.Dur = End, why, retry
			out = append(out, to)
		}
	}
	*m = Machine{phase: phaseEnded, canPoll: m.canPoll}
	return append(out, Out{Do: EndSession, Reason: why})
}

// endUndecided answers an undecided POST whose session ends.
func (m *Machine) endUndecided(i int32, why Reason, out []Out) []Out {
	s := &m.streams[i]
	to := Out{Conn: s.conn, Index: i, Stream: s.id}
	if s.answersJSON() {
		out = s.expireUnwritten(to, why, out)
		to.Do = AnswerJSON
		return append(out, to)
	}
	out = m.startSSE(i, out)
	out = s.expireUnwritten(to, why, out)
	to.Do, to.Reason = End, why
	return append(out, to)
}

// expireUnwritten makes an error for each response that a connection may not have written. Only the connection knows what it has written. So
// the error for a response that is recorded has the same number, and the connection writes one of the two. to names the connection and
// the stream.
func (s *stream) expireUnwritten(to Out, why Reason, out []Out) []Out {
	to.Do, to.Reason = Expire, why
	next := s.seq
	for k := range s.requests() {
		r := &s.requests()[k]
		switch to.ID = r.ID; {
		case r.state == awaited, r.state == orphaned:
			next++
			to.Seq = next
			out = append(out, to)
		case r.Seq > s.connFrom: // recorded, and perhaps written
			to.Seq = r.Seq
			out = append(out, to)
		}
	}
	return out
}

// drain refuses new work. Calls run to their end. The client of the standalone stream is detached if it polls. With Final, the connection of
// the standalone stream ends in any case.
func (m *Machine) drain(in *In, out []Out) []Out {
	m.draining, m.final = true, m.final || in.Flags&Final != 0
	s := &m.streams[standalone]
	if s.conn != 0 && m.resumable(s) {
		out = m.detach(standalone, 0, out)
	}
	if m.final && s.conn != 0 {
		out = m.endConn(standalone, s.seq, m.closeRetry(s, 0), Shutdown, out)
	}
	return out
}

// stop answers every running request with an error, and ends the session when nothing is left.
func (m *Machine) stop(out []Out) []Out {
	if m.phase == phaseInitializing {
		return m.endSession(Shutdown, out)
	}
	m.draining, m.final, m.phase = true, true, phaseStopping
	for i := range m.streams {
		s := &m.streams[i]
		at := int32(i)
		switch {
		case at == standalone && s.conn != 0:
			out = m.endConn(at, s.seq, m.closeRetry(s, 0), Shutdown, out)
		case at != standalone && s.phase == streamRunning && !s.failing:
			out = m.fail(at, Shutdown, out)
		}
	}
	return out
}
