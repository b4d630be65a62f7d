package core

import "time"

// get answers a GET: a client resumes a stream with a cursor, or reads the standalone stream without one.
//
//	cursor of a request stream that runs or has events left    the stream after it
//	cursor of a request stream that ended, nothing left        NothingLeft
//	cursor whose next events were dropped                      an error for each request whose response is missing, then the end
//	cursor past the end of a request stream                    an error for each request that was not cancelled, then the end
//	cursor of a request stream whose owner was lost            the stream after it, an error for each request without a response, the end
//	cursor of a request stream that was forgotten              NothingLeft
//	cursor of the standalone stream                            the stream after it, without the events that were dropped
//	cursor past the end of the standalone stream               the standalone stream after what was already written of it
//	cursor of an older standalone stream of the session        that stream after it, the later ones, and then the standalone stream
//	cursor of a standalone stream that was forgotten           the standalone stream after what was already written of it
//	cursor of a stream of which no id was ever issued          Unknown
//	no cursor                                                  the standalone stream after what was already written of it
//	no cursor, and the standalone stream is off                NoStandalone
//	no cursor, and the server drains                           Draining
//
// So a cursor is called Unknown only if it was never issued: some clients end their session at a refusal. The driver vouches that the name in
// a cursor was made for this session, so a stream that the machine does not know was forgotten. The client may have a cursor past the end from a
// process that had more of the stream, so it gets errors and keeps its session. Those errors, and those of a stream whose owner was lost, have
// ids with a nonce instead of a sequence, because other events may have the sequences, or get them later.
func (m *Machine) get(in *In, out []Out) []Out {
	m.conns++
	m.lastActive = m.now
	refuse := func(why Reason) []Out { return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: why}) }
	if m.phase == phaseInitializing {
		return refuse(Unknown)
	}
	if in.Flags&HasCursor == 0 {
		switch {
		case m.draining:
			return refuse(Draining)
		case m.cfg.NoStandalone || in.Flags&NoFlush != 0:
			return refuse(NoStandalone)
		}
		// Events that were already written are not repeated.
		return m.attach(standalone, m.streams[standalone].written, nil, in, out)
	}
	i := m.find(in.Stream)
	if i < 0 {
		if in.Flags&OfStandalone != 0 {
			return m.getOlder(in, out)
		}
		return m.getDropped(in, out)
	}
	s := &m.streams[i]
	if i != standalone && s.idIssued() {
		m.clientReturned(s.poll)
	}
	switch {
	case !s.idIssued():
		return refuse(Unknown) // no id of the stream was ever issued
	case in.Seq > max(s.seq, s.expireSeq) && i == standalone:
		return m.attach(standalone, s.written, nil, in, out)
	case in.Seq > max(s.seq, s.expireSeq):
		return m.getPastEnd(in, s.requests(), out)
	case s.cancelled, s.phase == streamEnded && in.Seq == s.seq && !anyUnseen(s.requests(), in.Seq), in.Seq > s.seq:
		return refuse(NothingLeft)
	case s.stranded: // an id has reached the client after all, but nothing is recorded any more
		return m.getExpired(in, s.requests(), out)
	}
	s.primed = true // the cursor shows that the client has an id, whatever Written said
	return m.attach(i, in.Seq, nil, in, out)
}

// getOlder answers a cursor of a standalone stream that is not the session's any more. One that the machine does not know was forgotten.
func (m *Machine) getOlder(in *In, out []Out) []Out {
	if m.cfg.NoStandalone {
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: NoStandalone})
	}
	if older := m.dropped.olderFrom(in.Stream); older != nil {
		return m.attach(standalone, 0, older, in, out)
	}
	return m.attach(standalone, m.streams[standalone].written, nil, in, out)
}

// getDropped answers a cursor whose stream was dropped. One that the machine does not know was forgotten.
func (m *Machine) getDropped(in *In, out []Out) []Out {
	m.clientReturned(pollNone)
	d := m.dropped.find(in.Stream)
	if d == nil {
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: NothingLeft})
	}
	rs := m.dropped.requests(d)
	if in.Seq > d.last {
		return m.getPastEnd(in, rs, out)
	}
	switch {
	case !anyUnseen(rs, in.Seq):
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: NothingLeft})
	case anyOrphaned(rs):
		return m.startNonceErrors(in, rs, in.Seq, out)
	}
	return m.getExpired(in, rs, out)
}

// getExpired tells a client that the events after its cursor are gone. It does so by errors in a stream that ends, because some clients end
// their session at a refusal.
func (m *Machine) getExpired(in *In, rs []Request, out []Out) []Out {
	to := Out{Conn: in.Conn, Index: -1, Stream: in.Stream}
	out = m.expire(to, rs, in.Seq, Expired, m.startErrors(in, out))
	return append(out, Out{Do: End, Conn: in.Conn, Index: -1, Stream: in.Stream, Reason: Expired})
}

// getPastEnd does the same for a cursor past the end. It is unknown what the client has seen, so there is an error for each request that has
// a response or will have one.
func (m *Machine) getPastEnd(in *In, rs []Request, out []Out) []Out {
	if !anyUnseen(rs, 0) {
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: NothingLeft})
	}
	return m.startNonceErrors(in, rs, 0, out)
}

// startNonceErrors tells a client that has everything up to seq what became of the requests. No number may be used.
func (m *Machine) startNonceErrors(in *In, rs []Request, seq uint64, out []Out) []Out {
	to := Out{Conn: in.Conn, Index: -1, Stream: in.Stream, Seq: in.Seq, Nonce: in.Nonce}
	out = expireByNonce(to, rs, seq, Expired, m.startErrors(in, out))
	return append(out, Out{Do: End, Conn: in.Conn, Index: -1, Stream: in.Stream, Reason: Expired})
}

// startErrors starts an SSE response that contains only errors.
func (m *Machine) startErrors(in *In, out []Out) []Out {
	retry := time.Duration(0)
	if m.canPoll {
		retry = clampRetry(m.cfg.Policy.Retry)
	}
	out = append(out, Out{Do: Attach, Conn: in.Conn, Index: -1, Stream: in.Stream, Seq: in.Seq})
	return m.startResponse(Out{Conn: in.Conn, Index: -1, Stream: in.Stream}, in.Seq, in.Nonce, retry, m.delayGet(), out)
}

// attach makes a connection the reader of a stream, starting after seq. The connection that reads it now ends: a server cannot tell a dead
// connection from a quiet one, so the newest connection wins. older are the older standalone streams that it reads first, from the cursor on.
func (m *Machine) attach(i int32, seq uint64, older []OlderStream, in *In, out []Out) []Out {
	s := &m.streams[i]
	wait := m.delayGet()
	if wait > 0 {
		s.countEmptyPoll()
	}
	for _, old := range [...]ConnID{s.conn, s.closing} {
		if old != 0 {
			out = append(out, Out{Do: End, Conn: old, Index: i, Stream: s.id, Dur: m.closeRetry(s, 0), Reason: TakenOver})
		}
	}
	s.conn, s.closing, s.reader, s.mayEndEarly, s.readsOlder = in.Conn, 0, readerAttached, false, false
	s.poll = pollNone
	s.connSince, s.connLimit, s.connFrom, s.connWritten, s.resumed = m.now, in.Dur, seq, seq, in.Flags&HasCursor != 0
	base := m.primerRetry(s)
	if wait > 0 {
		base = m.closeRetry(s, 0)
	}
	s.retry = base
	out = append(out, Out{Do: Attach, Conn: in.Conn, Index: i, Stream: s.id, Seq: seq})
	out = m.startResponse(Out{Conn: in.Conn, Index: i, Stream: s.id}, seq, in.Nonce, base, wait, out)
	if len(older) > 0 {
		out = m.readOlder(s, older, in, out)
	}
	switch {
	case s.phase == streamEnded:
		if s.orphaned {
			to := Out{Conn: in.Conn, Index: i, Stream: s.id, Seq: s.seq, Nonce: in.Nonce}
			out = expireByNonce(to, s.requests(), s.seq, OwnerLost, out)
		}
		return m.endConn(i, s.seq, 0, Ended, out)
	case m.endsAtOnce(i, in.Flags):
		return m.detach(i, 0, out)
	}
	m.schedule(i)
	return out
}

// endsAtOnce reports whether a connection ends as soon as it has written what is recorded now. That is so if its writer cannot flush, since
// later events would leave only at its end, and for the standalone stream of a server that shuts down. A client that cannot poll
// keeps the connection of its request until the response is there.
func (m *Machine) endsAtOnce(i int32, f Flags) bool {
	polls := m.resumable(&m.streams[i])
	if i == standalone {
		return f&NoFlush != 0 || m.final || m.draining && polls
	}
	return f&NoFlush != 0 && polls
}

// startResponse starts an SSE response. A client that can poll gets a primer on each connection, with an id that it has never seen (SEP-1699;
// the official Go client takes a new id for progress). Other clients cannot parse an empty event. They get a comment, so that the
// head is sent at once. to names the connection and the stream.
func (m *Machine) startResponse(to Out, seq, nonce uint64, retry, wait time.Duration, out []Out) []Out {
	to.Do, to.Dur = Head, wait
	out = append(out, to)
	to.Do, to.Dur = Comment, 0
	if m.canPoll {
		to.Do, to.Seq, to.Nonce, to.Dur = Primer, seq, nonce, retry
	}
	return append(out, to)
}

// delayGet returns how long the head of a GET waits, which is positive if too many GETs came. A GET is not refused for that: at a refusal
// clients end their session or give up.
func (m *Machine) delayGet() time.Duration {
	m.nextGet = max(m.nextGet, m.now) + getInterval
	wait := m.nextGet - m.now - getBurst*getInterval
	if wait <= 0 {
		return 0
	}
	if wait > getMaxWait {
		m.nextGet -= wait - getMaxWait
		wait = getMaxWait
	}
	return wait
}

// gap ends a connection that cannot read on, with an error for each request whose response it will not write. On the standalone stream there
// are no such requests, and the client may try again. A connection whose stream a newer one has taken over ends without errors.
func (m *Machine) gap(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	to := Out{Conn: in.Conn, Index: i, Stream: in.Stream}
	expire := func(rs []Request, restored bool) []Out {
		// What cannot be read now of a log of another process has numbers all the same.
		if anyOrphaned(rs) || restored && in.Reason == StoreFailed {
			named := to
			named.Seq, named.Nonce = in.Seq, in.Nonce
			return expireByNonce(named, rs, in.Seq, in.Reason, out)
		}
		return m.expire(to, rs, in.Seq, in.Reason, out)
	}
	if i < 0 {
		if d := m.dropped.find(in.Stream); d != nil {
			out = expire(m.dropped.requests(d), false)
		}
		to.Do, to.Reason = End, in.Reason
		return append(out, to)
	}
	s := &m.streams[i]
	if i == standalone {
		to.Dur = m.closeRetry(s, 0)
	} else if in.Conn == s.conn || in.Conn == s.closing {
		out = expire(s.requests(), s.restored)
	}
	switch in.Conn {
	case s.conn:
		s.mayEndEarly, s.readsOlder = true, false
		return m.endConn(i, in.Seq, to.Dur, in.Reason, out)
	case s.closing:
		s.mayEndEarly, s.readsOlder, s.closingSeq = true, false, 0
		s.poll = pollNone // it gets errors, so it need not come back
		m.schedule(i)
	}
	to.Do, to.Reason = End, in.Reason
	return append(out, to)
}

// expire makes an error for each request whose response is not recorded at or before seq. to names the connection and the stream.
func (m *Machine) expire(to Out, rs []Request, seq uint64, why Reason, out []Out) []Out {
	to.Do, to.Seq, to.Reason = Expire, seq, why
	for k := range rs {
		if unseen(&rs[k], seq) {
			to.Seq++
			to.ID = rs[k].ID
			out = append(out, to)
		}
	}
	if i := m.find(to.Stream); i > standalone {
		m.streams[i].expireSeq = max(m.streams[i].expireSeq, to.Seq)
	}
	return out
}

// expireByNonce does the same for a stream of which the numbers after seq may be those of events that another process gave them to. to also has
// the Seq up to which the connection writes before, and the nonce of the connection.
func expireByNonce(to Out, rs []Request, seq uint64, why Reason, out []Out) []Out {
	to.Do = Expire
	for k := range rs {
		if r := &rs[k]; unseen(r, seq) {
			to.Nonce = max(to.Nonce+1, 1)
			to.ID, to.Reason = r.ID, why
			if r.state == orphaned {
				to.Reason = OwnerLost
			}
			out = append(out, to)
		}
	}
	return out
}

// anyOrphaned reports whether the owner of any of the requests was lost.
func anyOrphaned(rs []Request) bool {
	for k := range rs {
		if rs[k].state == orphaned {
			return true
		}
	}
	return false
}

// anyUnseen reports whether unseen is true for any of the requests.
func anyUnseen(rs []Request, seq uint64) bool {
	for k := range rs {
		if unseen(&rs[k], seq) {
			return true
		}
	}
	return false
}

// unseen reports whether a client that has everything up to seq still waits for the response: it is not recorded yet, or comes later. The
// client does not wait for a request that ended without a response (cancelled).
func unseen(r *Request, seq uint64) bool {
	return r.state != settled || r.Seq > seq
}
