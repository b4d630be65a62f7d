package core

import "time"

// trust is what a session has learnt of its client. A client may have agreed on a version in which clients come back, and never do. Then
// each call whose client is let go is lost, and nothing says so beforehand. So a client is doubted that was let go from the stream of a
// request and has not asked for it missAfter its time. It is not let go again, as one that cannot poll; but it still gets primers, with
// whose ids it may prove itself.
//
// This is no evidence:
//   - a connection that broke. The client may have closed it because its user gave up; and the server has taken nothing from it.
//   - a request that the client cancelled.
//   - the standalone stream. There are clients that resume that one and no other.
//   - a stream of a server that drains: its client may have been sent to another process.
//
// What remains can still be a mistake: the client died, was cut off, or its user gave up, just when it had been let go and was not yet
// due. That costs little: calls keep their connections, and one that a proxy cuts is resumed. So one miss is enough, for a call that is
// lost costs more. It is made good by coming back:
//   - to a stream that the client was let go from: then it polls, and what it misses later has other causes. It is never doubted again.
//   - to one whose connection broke: it is believed again, once. There may be clients that come back from failures alone.
type trust struct {
	doubted bool
	proven  bool  // it has come back to a stream that it was let go from
	missed  uint8 // streams that it has not come back to; at most maxMissed
}

const (
	// missAfter is how long a client may be late: long enough for every client that is about to dial, and short, for what is let go meanwhile may
	// be lost too.
	missAfter = 10 * time.Second
	maxMissed = 2
)

// parting says how the client of a stream has left.
type parting uint8

const (
	byItself parting = iota // or it is there
	sentAway                // it was let go, and told when to be back
	missed                  // … and was not
)

// trusted reports whether the client is believed to come back.
func (m *Machine) trusted() bool { return m.polls && !m.trust.doubted }

// missAt is when a client has failed to come back.
func (m *Machine) missAt(s *stream) instant {
	fetched := s.life == ended && s.sent >= s.seq
	if m.trust.proven || s.parting != sentAway || s.conn != 0 || s.closing != 0 || s.stranded || fetched {
		return never
	}
	return after(s.dueBack, missAfter)
}

// miss notes that a client has not come back for a stream.
func (m *Machine) miss(i int32, out []Out) []Out {
	m.streams[i].parting = missed
	if m.draining {
		return out
	}
	before := m.trust
	m.believe(trust{doubted: true, missed: min(before.missed+1, maxMissed)})
	if before.doubted {
		return out
	}
	return append(out, Out{Do: Doubt, Index: i, Stream: m.streams[i].id})
}

// cameBack notes that a client has asked for the stream of a request.
func (m *Machine) cameBack(how parting) {
	t := m.trust
	if how != byItself {
		t.proven = true
	}
	t.doubted = t.doubted && !t.proven && t.missed == maxMissed
	m.believe(t)
}

// believe changes what is thought of the client, and with it when connections are closed and clients are late.
func (m *Machine) believe(t trust) {
	if t == m.trust {
		return
	}
	m.trust = t
	for i := range m.streams {
		if m.streams[i].life != unused {
			m.schedule(int32(i))
		}
	}
}
