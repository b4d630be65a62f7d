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
	s.jsonOnly = s.policy.Mode == JSON || in.Flags&Initialize != 0 || noFlush && !m.trusted()
	s.buffered = noFlush && !s.jsonOnly
	s.one[0].ID, s.one[0].Key, s.one[0].Ping, s.batch = in.ID, in.Key, in.Flags&Ping != 0, in.Batch
	for k := range s.requests() {
		r := &s.requests()[k]
		m.inflight[r.key()] = i
		s.open++
		m.pending++
		if r.Ping {
			m.pings++
		}
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
	if why := m.tooMany(in); why != NoReason {
		return why
	}
	if in.Batch == nil && m.taken(in.key()) {
		return Duplicate
	}
	for k := range in.Batch {
		if m.taken(in.Batch[k].key()) {
			return Duplicate
		}
	}
	if anyTwice(in.Batch) {
		return Duplicate
	}
	return NoReason
}

// fewMembers are compared as fast without a set.
const fewMembers = 8

// anyTwice reports whether two members of a batch have the same id.
func anyTwice(batch []Request) bool {
	if len(batch) > fewMembers {
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

// maxPings is how many pings may be in flight beside MaxInFlight. More of them count as other requests do. A client that gets no
// answer to a ping takes the session for dead (utilities, "ping", 2025-11-25), and calls that wait for long are no reason for that.
const maxPings = 16

// maxStale is how many times MaxInFlight handlers may work in a session, those included whose requests have ended: a client that cancels its
// requests makes room for others, and must not have any number of handlers by that.
const maxStale = 4

// tooMany says why a session with what the input brings would have more in flight than it may.
func (m *Machine) tooMany(in *In) Reason {
	if m.cfg.MaxInFlight <= 0 {
		return NoReason
	}
	all, pings := int(m.pending)+max(1, len(in.Batch)), int(m.pings)
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

// taken reports whether a request with this id is in flight. One whose answer nobody can read is not, although a Cancel still
// finds it until the id is used again.
func (m *Machine) taken(key string) bool {
	i, ok := m.inflight[key]
	return ok && !m.streams[i].stranded
}

// cancel is the client's wish, never for initialize (lifecycle of 2025-11-25: it must not be cancelled). The request ends
// without a response.
func (m *Machine) cancel(in *In, out []Out) []Out {
	m.active = m.now
	i, ok := m.inflight[in.key()]
	if !ok || m.phase == provisional {
		return out
	}
	s := &m.streams[i]
	r := s.awaitingKey(in.key())
	if r == nil { // held: it was answered before it could be cancelled
		return out
	}
	out = append(out, Out{Do: CancelApp, Index: i, Stream: s.id, ID: r.ID, Reason: Cancelled})
	m.settle(i, r)
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
