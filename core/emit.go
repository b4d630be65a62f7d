package core

// target returns where a message of the app goes, or why nowhere. Messages made in a call go to its stream, also when nobody
// reads it (transports, "sending messages to the server", 2025-11-25: what belongs to a request travels on its stream); all
// others, and what a call sends after its end, to the standalone stream.
func (m *Machine) target(in *In) (int32, Reason) {
	i, ofCall := standalone, false
	if in.Stream != (StreamID{}) {
		i = m.find(in.Stream)
		ofCall = i != standalone
	}
	if i > standalone && m.streams[i].life == alive {
		s := &m.streams[i]
		switch {
		case s.stranded:
			return -1, Unreachable
		case !s.jsonOnly && !(s.buffered && s.reader == undecided):
			return i, NoReason
		case in.Flags&Progress != 0:
			return -1, Worthless
		case in.Flags&Ask != 0 && m.streams[standalone].conn == 0:
			return -1, NoStream
		}
	} else if ofCall && in.Flags&Progress != 0 && in.Flags&Task == 0 {
		return -1, Worthless
	}
	if m.cfg.NoStandalone {
		return -1, NoStandalone
	}
	return standalone, NoReason
}

// Route returns the index of the stream that an Emit or Reply would be recorded on now, or -1.
func (m *Machine) Route(in *In) int32 {
	if m.phase == over {
		return -1
	}
	if m.work == nil {
		m.unfold()
	}
	if in.Op == Reply {
		return m.find(in.Stream)
	}
	i, _ := m.target(in)
	return i
}

func (m *Machine) emit(in *In, out []Out) []Out {
	i, why := m.target(in)
	if i < 0 {
		return append(out, Out{Do: Discard, Reason: why})
	}
	if m.streams[i].reader == undecided {
		out = m.goSSE(i, out)
	}
	return m.record(i, false, out)
}

// record gives the next sequence to a message.
func (m *Machine) record(i int32, seal bool, out []Out) []Out {
	s := &m.streams[i]
	s.seq++
	s.empties = 0
	return append(out, Out{Do: Record, Index: i, Stream: s.id, Seq: s.seq, Seal: seal})
}

// goSSE decides that an undecided POST is answered by a stream.
func (m *Machine) goSSE(i int32, out []Out) []Out {
	s := &m.streams[i]
	s.reader = attached
	s.retry = m.baseRetry(s)
	out = m.greet(Out{Conn: s.conn, Index: i, Stream: s.id}, 0, s.nonce, s.retry, 0, out)
	if s.held > 0 {
		for k := range s.requests() {
			if r := &s.requests()[k]; r.state == held {
				r.state = awaited
			}
		}
		s.held = 0
		out = append(out, Out{Do: Release, Index: i, Stream: s.id})
	}
	m.schedule(i)
	return out
}

// reply takes a response. The last one of a stream ends it.
func (m *Machine) reply(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	var r *Request
	if i > standalone && m.streams[i].life == alive {
		r = m.streams[i].awaiting(in.ID)
	}
	if r == nil {
		return append(out, Out{Do: Discard, Reason: Ended})
	}
	s := &m.streams[i]
	last := s.open == 1
	switch {
	case s.stranded:
		m.settle(i, r)
		if s.named() { // an id may have got through after all: the response counts as one that was dropped
			s.seq++
			r.Seq = s.seq
		}
		out = append(out, Out{Do: Discard, Reason: Unreachable})
		if last {
			out = m.finish(i, out)
		}
		return out
	case s.reader == undecided && s.plain():
		if s.open > s.held+1 {
			s.held++
			r.state = held
			return append(out, Out{Do: Hold, Index: i, Stream: s.id})
		}
		return m.answerJSON(i, out)
	case s.reader == undecided:
		out = m.goSSE(i, out)
	}
	m.settle(i, r)
	out = m.record(i, last, out)
	r.Seq = s.seq
	if !last {
		return out
	}
	if s.reader == attached {
		out = m.endConn(i, s.seq, 0, Ended, out)
	}
	return m.finish(i, out)
}

// plain reports whether an undecided POST is answered by plain JSON if it is answered now.
func (s *stream) plain() bool { return s.jsonOnly || s.buffered || s.policy.Mode != SSE }

// written notes how far a client was served.
func (m *Machine) written(in *In) {
	i := m.find(in.Stream)
	if i < 0 {
		return
	}
	s := &m.streams[i]
	s.sent = max(s.sent, min(in.Seq, s.seq))
	if in.Conn == s.conn {
		s.wrote = max(s.wrote, min(in.Seq, s.seq))
	}
	s.primed = s.primed || m.polls || in.Seq > 0 && !s.memory // a primer has an id, whatever became of the store
	m.relist(i)
	m.schedule(i)
}
