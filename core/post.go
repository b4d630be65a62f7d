package core

// post takes a request, or a batch of them, which is one stream.
func (m *Machine) post(in *In, out []Out) []Out {
	m.conns++
	m.active = m.now
	if why := m.mayPost(in); why != NoReason {
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: why})
	}
	i := m.addStream(in.Stream, in.Policy)
	s := &m.streams[i]
	s.reader, s.conn, s.nonce = undecided, in.Conn, in.Nonce
	s.began, s.since, s.limit = m.now, m.now, in.Dur
	noFlush := in.Flags&NoFlush != 0
	s.jsonOnly = s.policy.Mode == JSON || in.Flags&Initialize != 0 || noFlush && !m.polls
	s.buffered = noFlush && !s.jsonOnly
	s.one[0].ID, s.batch = in.ID, in.Batch
	for k := range s.requests() {
		m.inflight[s.requests()[k].ID] = i
		s.open++
		m.pending++
	}
	m.running++
	m.schedule(i)
	return append(out, Out{Do: Start, Conn: in.Conn, Index: i, Stream: s.id})
}

func (m *Machine) mayPost(in *In) Reason {
	first := in.Flags&Initialize != 0
	switch {
	case m.draining:
		return Draining
	case first != (m.phase == provisional):
		return Unknown
	}
	if m.cfg.MaxInFlight > 0 && int(m.pending)+max(1, len(in.Batch)) > m.cfg.MaxInFlight {
		return TooMany // before the comparisons below, whose number it bounds
	}
	if in.Batch == nil && m.taken(in.ID) {
		return Duplicate
	}
	for k := range in.Batch {
		if m.taken(in.Batch[k].ID) {
			return Duplicate
		}
		for l := range k {
			if in.Batch[l].ID == in.Batch[k].ID {
				return Duplicate
			}
		}
	}
	return NoReason
}

// taken reports whether a request with this id is in flight. One whose answer nobody can read is not, although a Cancel still
// finds it until the id is used again.
func (m *Machine) taken(id string) bool {
	i, ok := m.inflight[id]
	return ok && !m.streams[i].stranded
}

// cancel is the client's wish, never for initialize (lifecycle of 2025-11-25: it must not be cancelled). The request ends
// without a response.
func (m *Machine) cancel(in *In, out []Out) []Out {
	m.active = m.now
	i, ok := m.inflight[in.ID]
	if !ok || m.phase == provisional {
		return out
	}
	s := &m.streams[i]
	r := s.awaiting(in.ID)
	if r == nil { // held: it was answered before it could be cancelled
		return out
	}
	m.settle(i, r)
	out = append(out, Out{Do: CancelApp, Index: i, Stream: s.id, ID: in.ID, Reason: Cancelled})
	if s.open > s.held {
		return out
	}
	if s.held > 0 { // what is left of the batch was waiting for this one
		return m.answerJSON(i, out)
	}
	s.cancelled = !anyAfter(s.requests(), 0) // responses to others of the batch may be left to fetch
	switch {
	case s.reader == undecided && (s.jsonOnly || s.buffered):
		out = append(out, Out{Do: Refuse, Conn: s.conn, Reason: Cancelled})
		s.conn, s.reader = 0, nobody
	case s.reader == undecided:
		out = append(out, Out{Do: Head, Conn: s.conn, Index: i, Stream: s.id})
		out = m.endConn(i, s.seq, 0, Cancelled, out)
	case s.reader == attached:
		out = m.endConn(i, s.seq, 0, Cancelled, out)
	}
	return m.finish(i, out)
}

// answerJSON answers an undecided POST with one JSON value. Nothing of it is recorded, so nothing is kept.
func (m *Machine) answerJSON(i int32, out []Out) []Out {
	s := &m.streams[i]
	for k := range s.requests() {
		if r := &s.requests()[k]; r.state != settled {
			m.settle(i, r)
		}
	}
	out = append(out, Out{Do: AnswerJSON, Conn: s.conn, Index: i, Stream: s.id})
	m.running--
	m.active = m.now
	return m.drop(i, out)
}
