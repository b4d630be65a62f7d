package core

// target returns the index of the stream that a message of the app goes to, or -1 and the reason. Messages of a call go to its stream, also
// while it has no reader (transports, "sending messages to the server", 2025-11-25: what belongs to a request travels on its stream). All
// others, and what a call sends after its end, go to the standalone stream.
func (m *Machine) target(in *In) (int32, Reason) {
	i, ofCall := standalone, false
	if in.Stream != (StreamID{}) {
		i = m.find(in.Stream)
		ofCall = i != standalone
	}
	if i > standalone && m.streams[i].phase == streamRunning {
		s := &m.streams[i]
		switch {
		case s.stranded:
			return -1, Unreachable
		case !s.jsonOnly && !(s.buffered && s.reader == readerUndecided):
			return i, NoReason
		case in.Flags&Progress != 0:
			return -1, Worthless
		case in.Flags&Ask != 0 && m.streams[standalone].conn == 0:
			return -1, NoStream
		}
	} else if ofCall && in.Flags&Progress != 0 && in.Flags&Augmented == 0 {
		return -1, Worthless
	}
	if m.cfg.NoStandalone {
		return -1, NoStandalone
	}
	return standalone, NoReason
}

// Route returns the index of the stream that an Emit or Reply would be recorded on now, or -1.
func (m *Machine) Route(in *In) int32 {
	if m.phase == phaseEnded {
		return -1
	}
	if m.streamTable == nil {
		m.makeStreamTable()
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
	if m.streams[i].reader == readerUndecided {
		out = m.startSSE(i, out)
	}
	return m.record(i, false, out)
}

// record gives the next sequence to a message and orders its append.
func (m *Machine) record(i int32, seal bool, out []Out) []Out {
	s := &m.streams[i]
	s.seq++
	s.emptyPolls = 0
	return append(out, Out{Do: Record, Index: i, Stream: s.id, Seq: s.seq, Seal: seal})
}

// startSSE decides that an undecided POST is answered by a stream.
func (m *Machine) startSSE(i int32, out []Out) []Out {
	s := &m.streams[i]
	s.reader = readerAttached
	s.retry = m.primerRetry(s)
	out = m.startResponse(Out{Conn: s.conn, Index: i, Stream: s.id}, 0, s.nonce, s.retry, 0, out)
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

// reply takes a response. The last response of a stream ends it.
func (m *Machine) reply(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	var r *Request
	if i > standalone && m.streams[i].phase == streamRunning {
		r = m.streams[i].awaiting(in.ID)
	}
	if r == nil {
		return append(out, Out{Do: Discard, Reason: Ended})
	}
	s := &m.streams[i]
	last := s.unanswered == 1
	switch {
	case s.stranded:
		m.settle(i, r)
		if s.idIssued() { // an id may have reached the client: the response counts as one that was dropped
			r.Seq = s.afterDiscarded()
			s.expireSeq = max(s.expireSeq, r.Seq)
		}
		out = append(out, Out{Do: Discard, Reason: Unreachable})
		if last {
			out = m.endStream(i, out)
		}
		return out
	case s.reader == readerUndecided && s.answersJSON():
		if s.unanswered > s.held+1 {
			s.held++
			r.state = held
			return append(out, Out{Do: Hold, Index: i, Stream: s.id})
		}
		return m.answerJSON(i, out)
	case s.reader == readerUndecided:
		out = m.startSSE(i, out)
	}
	m.settle(i, r)
	out = m.record(i, last, out)
	r.Seq = s.seq
	if !last {
		return out
	}
	if s.reader == readerAttached {
		out = m.endConn(i, s.seq, 0, Ended, out)
	}
	return m.endStream(i, out)
}

// afterDiscarded returns the number of the next response that is not recorded. Others may have been discarded before.
func (s *stream) afterDiscarded() uint64 {
	next := s.seq + 1
	for k := range s.requests() {
		if s.requests()[k].Seq >= next {
			next++
		}
	}
	return next
}

// answersJSON reports whether the answer to an undecided POST is plain JSON if it comes now.
func (s *stream) answersJSON() bool { return s.jsonOnly || s.buffered || s.policy.Mode != SSE }

// written notes how far a stream was written.
func (m *Machine) written(in *In) {
	i := m.find(in.Stream)
	if i < 0 {
		return
	}
	s := &m.streams[i]
	s.written = max(s.written, min(in.Seq, s.seq))
	if in.Conn == s.conn {
		s.connWritten = max(s.connWritten, min(in.Seq, s.seq))
	}
	s.primed = s.primed || m.canPoll || in.Seq > 0 && !s.inMemory // a primer has an id also if the store failed
	m.relist(i)
	m.schedule(i)
}
