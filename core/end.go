package core

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

// end ends the session: every request is cancelled, every connection ends on an event boundary, and nothing is kept.
func (m *Machine) end(why Reason, out []Out) []Out {
	for i := range m.streams {
		s := &m.streams[i]
		at := int32(i)
		if s.life == alive && at != standalone {
			for k := range s.requests() {
				if r := &s.requests()[k]; r.state == awaited {
					out = append(out, Out{Do: CancelApp, Index: at, Stream: s.id, ID: r.ID, Reason: why})
				}
			}
		}
		switch {
		case s.reader == undecided:
			out = append(out, Out{Do: Refuse, Conn: s.conn, Reason: why})
		case s.conn != 0:
			out = append(out, Out{Do: End, Conn: s.conn, Index: at, Stream: s.id, Reason: why})
		case s.closing != 0:
			out = append(out, Out{Do: End, Conn: s.closing, Index: at, Stream: s.id, Reason: why})
		}
	}
	*m = Machine{phase: over, polls: m.polls}
	return append(out, Out{Do: EndSession, Reason: why})
}

// drain refuses new work. An idle standalone stream of a client that polls ends; calls go on to their end, unless another
// process can go on with them; and in the end the standalone stream ends, whoever reads it.
func (m *Machine) drain(in *In, out []Out) []Out {
	m.draining, m.final = true, m.final || in.Flags&Final != 0
	for i := range m.streams {
		s := &m.streams[i]
		if s.conn != 0 && m.resumable(s) && (i == int(standalone) || in.Flags&Handover != 0) {
			out = m.letGoAt(int32(i), 0, out)
		}
	}
	if s := &m.streams[standalone]; m.final && s.conn != 0 {
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
