package core

// post takes a request or a batch of requests, which makes one stream.
func (m *Machine) post(in *In, out []Out) []Out {
	m.conns++
	m.lastActive = m.now
	if why := m.refusePost(in); why != NoReason {
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: why})
	}
	i := m.addStream(in.Stream, in.Policy)
	s := &m.streams[i]
	s.reader, s.conn, s.nonce = readerUndecided, in.Conn, in.Nonce
	s.created, s.connSince, s.connLimit = m.now, m.now, in.Dur
	noFlush := in.Flags&NoFlush != 0
	s.jsonOnly = s.policy.Mode == JSON || in.Flags&Initialize != 0 || noFlush && !m.trusted()
	s.buffered = noFlush && !s.jsonOnly
	s.single[0].ID, s.single[0].Key, s.single[0].Ping, s.batch = in.ID, in.Key, in.Flags&Ping != 0, in.Batch
	for k := range s.requests() {
		r := &s.requests()[k]
		m.inflight[r.key()] = i
		s.unanswered++
		m.unanswered++
		if r.Ping {
			m.pings++
		}
	}
	m.running++
	m.schedule(i)
	return append(out, Out{Do: Start, Conn: in.Conn, Index: i, Stream: s.id})
}

// refusePost returns why a POST is refused, or NoReason.
func (m *Machine) refusePost(in *In) Reason {
	first := in.Flags&Initialize != 0
	switch {
	case m.draining:
		return Draining
	case first != (m.phase == phaseInitializing):
		return Unknown
	}
	if why := m.overLimit(in); why != NoReason {
		return why
	}
	if in.Batch == nil && m.isDuplicate(in.key()) {
		return Duplicate
	}
	for k := range in.Batch {
		if m.isDuplicate(in.Batch[k].key()) {
			return Duplicate
		}
	}
	if hasDuplicate(in.Batch) {
		return Duplicate
	}
	return NoReason
}

// maxPairwise is the size up to which comparing all pairs of a batch is as fast as a set.
const maxPairwise = 8

// hasDuplicate reports whether two members of a batch have the same id.
func hasDuplicate(batch []Request) bool {
	if len(batch) > maxPairwise {
		seen := make(map[string]struct{}, len(batch))
		for k := range batch {
			seen[batch[k].key()] = struct{}{}
		}
		return len(seen) < len(batch)
	}
	for k := range batch {
		for l := range k {
			if batch[l].key() == batch[k].key() {
				return true
			}
		}
	}
	return false
}

// maxPings is how many pings may be in flight beside MaxInFlight. Further pings count as other requests do. A client whose ping is not
// answered may take the session for dead (utilities, "ping", 2025-11-25), and long calls should not cause that.
const maxPings = 16

// maxStale times MaxInFlight is how many handlers may run in a session, including those whose requests have ended. A client that cancels
// requests makes room for others; without this limit it could start any number of handlers.
const maxStale = 4

// overLimit returns why the session cannot take the requests of the input in addition to those in flight, or NoReason.
func (m *Machine) overLimit(in *In) Reason {
	if m.cfg.MaxInFlight <= 0 {
		return NoReason
	}
	all, pings := int(m.unanswered)+max(1, len(in.Batch)), int(m.pings)
	if in.Flags&Ping != 0 {
		pings++
	}
	for k := range in.Batch {
		if in.Batch[k].Ping {
			pings++
		}
	}
	all -= min(pings, maxPings)
	switch {
	case all > m.cfg.MaxInFlight:
		return TooMany
	case all+in.Stale > maxStale*m.cfg.MaxInFlight:
		return Stuck
	}
	return NoReason
}

// isDuplicate reports whether a request with this id is in flight. A request of a stranded stream does not count, although a Cancel still
// finds it until the id is used again.
func (m *Machine) isDuplicate(key string) bool {
	i, ok := m.inflight[key]
	return ok && !m.streams[i].stranded
}

// cancel ends a request without a response, as its client asked. It ignores initialize, which must not be cancelled (lifecycle of
// 2025-11-25).
func (m *Machine) cancel(in *In, out []Out) []Out {
	m.lastActive = m.now
	i, ok := m.inflight[in.key()]
	if !ok || m.phase == phaseInitializing {
		return out
	}
	s := &m.streams[i]
	r := s.awaitingKey(in.key())
	if r == nil { // it is held: the answer came before the cancellation
		return out
	}
	out = append(out, Out{Do: CancelApp, Index: i, Stream: s.id, ID: r.ID, Reason: Cancelled})
	m.settle(i, r)
	if s.unanswered > s.held {
		return out
	}
	if s.held > 0 { // the other responses of the batch waited for this one
		return m.answerJSON(i, out)
	}
	s.cancelled = !anyUnseen(s.requests(), 0) // other responses of the batch may be left to fetch
	switch {
	case s.reader == readerUndecided && (s.jsonOnly || s.buffered):
		out = append(out, Out{Do: Refuse, Conn: s.conn, Reason: Cancelled})
		s.conn, s.reader = 0, readerNone
	case s.reader == readerUndecided:
		out = append(out, Out{Do: Head, Conn: s.conn, Index: i, Stream: s.id})
		out = m.endConn(i, s.seq, 0, Cancelled, out)
	case s.reader == readerAttached:
		out = m.endConn(i, s.seq, 0, Cancelled, out)
	}
	return m.endStream(i, out)
}

// answerJSON answers an undecided POST with one JSON value. Nothing was recorded, so nothing is kept.
func (m *Machine) answerJSON(i int32, out []Out) []Out {
	s := &m.streams[i]
	for k := range s.requests() {
		if r := &s.requests()[k]; r.state != settled {
			m.settle(i, r)
		}
	}
	out = append(out, Out{Do: AnswerJSON, Conn: s.conn, Index: i, Stream: s.id})
	m.running--
	m.lastActive = m.now
	return m.drop(i, out)
}
