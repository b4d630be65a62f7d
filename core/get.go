package core

import "time"

// get answers a GET: a client that resumes a stream, or one that opens the standalone stream.
//
//	cursor of a request that runs, or with events left    the stream from after it
//	cursor of a request that ended, nothing left          NothingLeft
//	cursor whose next events were dropped                 an error for each request whose response is missing, then the end
//	cursor past the end of a request's stream             an error for each request that was not cancelled, then the end
//	cursor of the standalone stream                       the stream from after it; what was dropped is passed over
//	cursor past the end of that                           as without a cursor
//	a cursor whose stream was never given an id           Unknown
//	no cursor                                             the standalone stream from after what was written of it
//	no cursor, where there is no standalone stream        NoStandalone
//	no cursor, no new work                                Draining
//
// So only what can never have been a cursor is refused: at a refusal some clients end their session. A cursor past the end names a
// stream whose name cannot be guessed. Its client may have it from a process that had more of the stream, so it is told, and keeps its
// session. What it is told has ids of its own, and no numbers: those may yet be given to events.
func (m *Machine) get(in *In, out []Out) []Out {
	m.conns++
	m.active = m.now
	refuse := func(why Reason) []Out { return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: why}) }
	if m.phase == provisional {
		return refuse(Unknown)
	}
	if in.Flags&HasCursor == 0 {
		switch {
		case m.draining:
			return refuse(Draining)
		case m.cfg.NoStandalone || in.Flags&NoFlush != 0:
			return refuse(NoStandalone)
		}
		// The backlog is delivered, history is not: a client that opens the stream anew has no use for what it has seen.
		return m.attach(standalone, m.streams[standalone].sent, in, out)
	}
	i := m.find(in.Stream)
	if i < 0 {
		return m.getDropped(in, out)
	}
	s := &m.streams[i]
	if i != standalone && s.named() {
		m.cameBack(s.parting)
	}
	switch {
	case !s.named():
		return refuse(Unknown) // no such id was ever given to anybody
	case in.Seq > max(s.seq, s.expired) && i == standalone:
		return m.attach(standalone, s.sent, in, out)
	case in.Seq > max(s.seq, s.expired):
		return m.getBeyond(in, s.requests(), out)
	case s.cancelled, s.life == ended && in.Seq == s.seq, in.Seq > s.seq:
		return refuse(NothingLeft)
	case s.stranded: // an id got through after all, but the stream was given up
		return m.getExpired(in, s.requests(), out)
	}
	s.primed = true // it shows an id, whatever was reported as written
	return m.attach(i, in.Seq, in, out)
}

// getDropped answers for a stream that has been dropped.
func (m *Machine) getDropped(in *In, out []Out) []Out {
	t := m.dropped.find(in.Stream)
	if t == nil {
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: Unknown})
	}
	m.cameBack(byItself)
	rs := m.dropped.requests(t)
	if in.Seq > t.last {
		return m.getBeyond(in, rs, out)
	}
	if !anyAfter(rs, in.Seq) {
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: NothingLeft})
	}
	return m.getExpired(in, rs, out)
}

// getExpired tells a client that what it wants is gone, in a stream that ends: at a refusal some clients end their session.
func (m *Machine) getExpired(in *In, rs []Request, out []Out) []Out {
	to := Out{Conn: in.Conn, Index: -1, Stream: in.Stream}
	out = m.expire(to, rs, in.Seq, Expired, m.beginEmpty(in, out))
	return append(out, Out{Do: End, Conn: in.Conn, Index: -1, Stream: in.Stream, Reason: Expired})
}

// getBeyond tells likewise a client whose cursor lies past the end. Nobody knows what it has seen, so there is an error for each
// request that has a response or will have one.
func (m *Machine) getBeyond(in *In, rs []Request, out []Out) []Out {
	if !anyAfter(rs, 0) {
		return append(out, Out{Do: Refuse, Conn: in.Conn, Reason: NothingLeft})
	}
	out = m.beginEmpty(in, out)
	to := Out{Do: Expire, Conn: in.Conn, Index: -1, Stream: in.Stream, Seq: in.Seq, Nonce: in.Nonce, Reason: Expired}
	for k := range rs {
		if unseen(&rs[k], 0) {
			to.Nonce = max(to.Nonce+1, 1)
			to.ID = rs[k].ID
			out = append(out, to)
		}
	}
	return append(out, Out{Do: End, Conn: in.Conn, Index: -1, Stream: in.Stream, Reason: Expired})
}

// beginEmpty opens a response in which there is nothing to read but errors.
func (m *Machine) beginEmpty(in *In, out []Out) []Out {
	retry := time.Duration(0)
	if m.polls {
		retry = clampRetry(m.cfg.Policy.Retry)
	}
	out = append(out, Out{Do: Attach, Conn: in.Conn, Index: -1, Stream: in.Stream, Seq: in.Seq})
	return m.greet(Out{Conn: in.Conn, Index: -1, Stream: in.Stream}, in.Seq, in.Nonce, retry, m.slowDown(), out)
}

// attach makes a connection the reader of a stream, from after seq. Whoever reads it now ends: a server cannot tell a
// connection that died from one that is quiet, so the newest one is right.
func (m *Machine) attach(i int32, seq uint64, in *In, out []Out) []Out {
	s := &m.streams[i]
	wait := m.slowDown()
	if wait > 0 {
		s.empty()
	}
	for _, old := range [...]ConnID{s.conn, s.closing} {
		if old != 0 {
			out = append(out, Out{Do: End, Conn: old, Index: i, Stream: s.id, Dur: m.retryOf(s, 0), Reason: TakenOver})
		}
	}
	s.conn, s.closing, s.reader, s.cut = in.Conn, 0, attached, false
	s.parting = byItself
	s.since, s.limit, s.from, s.wrote, s.poll = m.now, in.Dur, seq, seq, in.Flags&HasCursor != 0
	base := m.baseRetry(s)
	if wait > 0 {
		base = m.retryOf(s, 0)
	}
	s.retry = base
	out = append(out, Out{Do: Attach, Conn: in.Conn, Index: i, Stream: s.id, Seq: seq})
	out = m.greet(Out{Conn: in.Conn, Index: i, Stream: s.id}, seq, in.Nonce, base, wait, out)
	switch {
	case s.life == ended:
		return m.endConn(i, s.seq, 0, Ended, out)
	case m.brief(i, in.Flags):
		return m.letGoAt(i, 0, out)
	}
	m.schedule(i)
	return out
}

// brief reports whether a connection gets only what is there now. What a writer that cannot flush is given later would not leave
// before its end; and nobody stays on the standalone stream of a server that shuts down. But a client that cannot poll keeps its
// connection until the response is there.
func (m *Machine) brief(i int32, f Flags) bool {
	polls := m.resumable(&m.streams[i])
	if i == standalone {
		return f&NoFlush != 0 || m.final || m.draining && polls
	}
	return f&NoFlush != 0 && polls
}

// greet opens an SSE response. A client that polls is primed on each, with an id it has never seen (SEP-1699; a fresh id is
// what the official Go client takes for progress). Others choke on an empty event, and get a comment, so that the head leaves.
// to names the connection and the stream.
func (m *Machine) greet(to Out, seq, nonce uint64, retry, wait time.Duration, out []Out) []Out {
	to.Do, to.Dur = Head, wait
	out = append(out, to)
	to.Do, to.Dur = Comment, 0
	if m.polls {
		to.Do, to.Seq, to.Nonce, to.Dur = Primer, seq, nonce, retry
	}
	return append(out, to)
}

// slowDown says how long the head of a GET waits, because too many came. A poll is never refused for that: clients end their
// session at a refusal, or give up.
func (m *Machine) slowDown() time.Duration {
	m.getTime = max(m.getTime, m.now) + getInterval
	over := m.getTime - m.now - getBurst*getInterval
	if over <= 0 {
		return 0
	}
	if over > getMaxWait {
		m.getTime -= over - getMaxWait
		over = getMaxWait
	}
	return over
}

// gap ends a connection that cannot read on, with an error for every request whose response it will not see. On the standalone
// stream nobody waits for a response: its client may try again. One that a newer connection has taken over just ends.
func (m *Machine) gap(in *In, out []Out) []Out {
	i := m.find(in.Stream)
	to := Out{Conn: in.Conn, Index: i, Stream: in.Stream}
	if i < 0 {
		if t := m.dropped.find(in.Stream); t != nil {
			out = m.expire(to, m.dropped.requests(t), in.Seq, in.Reason, out)
		}
		to.Do, to.Reason = End, in.Reason
		return append(out, to)
	}
	s := &m.streams[i]
	if i == standalone {
		to.Dur = m.retryOf(s, 0)
	} else if in.Conn == s.conn || in.Conn == s.closing {
		out = m.expire(to, s.requests(), in.Seq, in.Reason, out)
	}
	switch in.Conn {
	case s.conn:
		s.cut = true
		return m.endConn(i, in.Seq, to.Dur, in.Reason, out)
	case s.closing:
		s.cut, s.upTo = true, 0
		s.parting = byItself // it is told, so it need not come back
		m.schedule(i)
	}
	to.Do, to.Reason = End, in.Reason
	return append(out, to)
}

// expire makes the errors for all requests whose response does not come at or before the cursor. to names the connection and
// the stream.
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
		m.streams[i].expired = max(m.streams[i].expired, to.Seq)
	}
	return out
}

func anyAfter(rs []Request, seq uint64) bool {
	for k := range rs {
		if unseen(&rs[k], seq) {
			return true
		}
	}
	return false
}

// unseen reports whether a client with that cursor still waits for the response: it is not recorded yet, or comes later. A
// request that ended without a response (cancelled) is not waited for.
func unseen(r *Request, seq uint64) bool {
	return r.state != settled || r.Seq > seq
}
