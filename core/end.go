package core

import "time"

// fail orders an error in place of the responses that are missing.
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

// end ends the session: every request is cancelled, every connection ends on an event boundary, and nothing is kept. A client that did
// not ask for it is told so in place of every response that it waits for, on whatever carries that.
func (m *Machine) end(why Reason, out []Out) []Out {
	for i := range m.streams {
		s := &m.streams[i]
		at := int32(i)
		retry := time.Duration(0)
		if why == Moved && s.life != unused { // the client comes back to whoever has the session now
			retry = m.retryOf(s, 0)
		}
		if s.life == alive && at != standalone {
			for k := range s.requests() {
				if r := &s.requests()[k]; r.state == awaited {
					out = append(out, Out{Do: CancelApp, Index: at, Stream: s.id, ID: r.ID, Reason: why})
				}
			}
		}
		switch {
		case s.reader == undecided && (why == Terminated || why == Moved): // not refused: the request may have run
			out = m.endUndecided(at, why, out)
		case s.reader == undecided:
			out = append(out, Out{Do: Refuse, Conn: s.conn, Reason: why})
		case s.conn != 0 || s.closing != 0:
			to := Out{Conn: max(s.conn, s.closing), Index: at, Stream: s.id} // only one of them is there
			if why == Terminated && at != standalone {
				out = s.owe(to, why, out)
			}
			to.Do, to.Reason, to.Dur = End, why, retry
			out = append(out, to)
		}
	}
	*m = Machine{phase: over, polls: m.polls}
	return append(out, Out{Do: EndSession, Reason: why})
}

// endUndecided answers a POST whose session ends.
func (m *Machine) endUndecided(i int32, why Reason, out []Out) []Out {
	s := &m.streams[i]
	to := Out{Conn: s.conn, Index: i, Stream: s.id}
	if s.plain() {
		out = s.owe(to, why, out)
		to.Do = AnswerJSON
		return append(out, to)
	}
	out = m.goSSE(i, out)
	out = s.owe(to, why, out)
	to.Do, to.Reason = End, why
	return append(out, to)
}

// owe makes an error for each response that a connection may not have written. One that is recorded already gives its number to the
// error, so that the connection, which alone knows, writes one of the two. to names the connection and the stream.
func (s *stream) owe(to Out, why Reason, out []Out) []Out {
	to.Do, to.Reason = Expire, why
	next := s.seq
	for k := range s.requests() {
		r := &s.requests()[k]
		switch to.ID = r.ID; {
		case r.state == awaited:
			next++
			to.Seq = next
			out = append(out, to)
		case r.Seq > s.from: // of these the connection knows which it has written
			to.Seq = r.Seq
			out = append(out, to)
		}
	}
	return out
}

// drain refuses new work. An idle standalone stream of a client that polls ends; calls go on to their end; and in the end the
// standalone stream ends, whoever reads it.
func (m *Machine) drain(in *In, out []Out) []Out {
	m.draining, m.final = true, m.final || in.Flags&Final != 0
	s := &m.streams[standalone]
	if s.conn != 0 && m.resumable(s) {
		out = m.letGoAt(standalone, 0, out)
	}
	if m.final && s.conn != 0 {
		out = m.endConn(standalone, s.seq, m.retryOf(s, 0), Shutdown, out)
	}
	return out
}

// stop ends what still runs.
func (m *Machine) stop(out []Out) []Out {
	if m.phase == provisional {
		return m.end(Shutdown, out)
	}
	m.draining, m.final, m.phase = true, true, stopping
	for i := range m.streams {
		s := &m.streams[i]
		at := int32(i)
		switch {
		case at == standalone && s.conn != 0:
			out = m.endConn(at, s.seq, m.retryOf(s, 0), Shutdown, out)
		case at != standalone && s.life == alive && !s.failing:
			out = m.fail(at, Shutdown, out)
		}
	}
	return out
}
