package core

import "time"

// trust is what a session has learnt about whether its client polls. A client may have negotiated a version in which clients come back after
// a detach, and still never come back. Then each call whose client is detached is lost, and nothing shows it beforehand. So a client that was
// detached from a request stream and has not asked for it pollGrace after it was due back is doubted. A doubted client is not detached
// again, like one that cannot poll. It still gets primers, so that it can come back and prove itself.
//
// These cases are not evidence against a client:
//   - Its connection broke. The client may have closed it because its user gave up, and the server has taken nothing from it.
//   - It cancelled the request.
//   - It does not come back for the standalone stream. Some clients resume only that stream, so it says nothing about request streams.
//   - The server drains. The client may have been sent to another process.
//
// The doubt can still be wrong: the client may have died, lost its network or lost its user's interest just while it was detached. That
// costs little: calls keep their connections, and a connection that a proxy cuts is resumed. A lost call costs more, so one missed
// poll is enough. A client removes the doubt by coming back:
//   - To a stream that it was detached from: it polls, and later misses have other causes. It is never doubted again.
//   - To a stream whose connection broke: it is trusted again, once. Some clients may come back only from failures.
type trust struct {
	doubted bool
	proven  bool  // it came back to a stream that it was detached from
	missed  uint8 // streams that it did not come back to; at most maxMissed
}

const (
	// pollGrace is how late a client may come back. It is long enough for every client that is about to reconnect. It is short because calls
	// whose clients are detached meanwhile may be lost too.
	pollGrace = 10 * time.Second
	maxMissed = 2
)

// pollState says whether the client of a stream must come back for it.
type pollState uint8

const (
	pollNone   pollState = iota // it was not detached, or has come back
	pollDue                     // it was detached and told when to be back
	pollMissed                  // it was not back pollGrace after that time
)

// trusted reports whether the client is expected to come back after a detach.
func (m *Machine) trusted() bool { return m.canPoll && !m.trust.doubted }

// pollMissedAt is when the client of a stream has failed to come back for it.
func (m *Machine) pollMissedAt(s *stream) instant {
	fetched := s.phase == streamEnded && s.written >= s.seq
	if m.trust.proven || s.poll != pollDue || s.conn != 0 || s.closing != 0 || s.stranded || fetched {
		return never
	}
	return after(s.dueBack, pollGrace)
}

// missPoll notes that the client has not come back for a stream.
func (m *Machine) missPoll(i int32, out []Out) []Out {
	m.streams[i].poll = pollMissed
	if m.draining {
		return out
	}
	before := m.trust
	m.setTrust(trust{doubted: true, missed: min(before.missed+1, maxMissed)})
	if before.doubted {
		return out
	}
	return append(out, Out{Do: Doubt, Index: i, Stream: m.streams[i].id})
}

// clientReturned notes that the client has asked for a request stream, whose pollState was before.
func (m *Machine) clientReturned(before pollState) {
	t := m.trust
	if before != pollNone {
		t.proven = true
	}
	t.doubted = t.doubted && !t.proven && t.missed == maxMissed
	m.setTrust(t)
}

// setTrust changes trust, and the deadlines of all streams, which depend on it.
func (m *Machine) setTrust(t trust) {
	if t == m.trust {
		return
	}
	m.trust = t
	for i := range m.streams {
		if m.streams[i].phase != streamUnused {
			m.schedule(int32(i))
		}
	}
}
