package core

import "testing"

// check fails unless everything that the machine keeps twice is the same both times, and every list, heap and map is sound. It
// holds after every step.
func check(t testing.TB, m *Machine) {
	if m.phase == over {
		must(t, m.Running()+m.Unfetched() == 0 && m.work == nil, "a session that is over keeps nothing")
		must(t, m.Deadline().IsZero(), "a session that is over waits for nothing")
		return
	}
	must(t, !m.trust.doubted || m.polls && !m.trust.proven && m.trust.missed > 0, "only who has failed to come back is doubted, and never who does")
	if m.work == nil {
		must(t, m.conns == 0 && m.running == 0 && m.pending == 0, "a session that is folded up does nothing")
		return
	}
	running, pending, listed, timed, vacant := 0, 0, 0, 0, 0
	for i := range m.streams {
		s, at := &m.streams[i], int32(i)
		if s.life == unused {
			vacant++
			continue
		}
		if at != standalone {
			must(t, m.find(s.id) == at, "the stream is found")
			pending += checkRequests(t, s)
		}
		if s.life == alive && at != standalone {
			running++
		}
		checkReader(t, s)
		must(t, (s.life == ended) == (s.in != inNone), "ended streams are listed, others are not")
		if s.in != inNone {
			listed++
			must(t, (s.sent >= s.seq) == (s.in == inRead), "a stream is in the right list")
		}
		must(t, (s.deadline != never) == (s.timer >= 0), "who has a deadline is in the heap")
		if s.timer >= 0 {
			timed++
			must(t, m.timers[s.timer] == at, "the heap leads to the stream")
			must(t, s.timer == 0 || m.streams[m.timers[(s.timer-1)/2]].deadline <= s.deadline, "the heap is in order")
		}
		before := s.deadline
		m.schedule(at)
		must(t, before == s.deadline, "the deadline was set when what it depends on changed")
	}
	must(t, running == int(m.running), "streams that run are counted")
	must(t, pending == int(m.pending), "open requests are counted")
	must(t, timed == len(m.timers), "the heap holds nothing else")
	must(t, vacant == len(m.free), "every free place is known")
	must(t, m.index == nil || len(m.index) == len(m.streams)-1-vacant, "the index holds nothing else")
	must(t, m.index != nil || len(m.streams) <= fewStreams, "where there are many, there is an index")
	must(t, listed == checkList(t, m, &m.read, inRead)+checkList(t, m, &m.unread, inUnread), "the lists hold nothing else")
	for id, i := range m.inflight {
		open := false
		for k := range m.streams[i].requests() {
			r := &m.streams[i].requests()[k]
			open = open || r.key() == id && r.state != settled
		}
		must(t, open, "an id in flight belongs to an open request")
	}
	checkMemory(t, m)
}

// checkMemory looks at what is kept of the ids of streams that have ended.
func checkMemory(t testing.TB, m *Machine) {
	ids, ended := 0, 0
	for i := range m.streams {
		if s := &m.streams[i]; s.in != inNone {
			ids += idBytes(s.one[0].ID, s.batch)
			ended++
		}
	}
	must(t, ids == m.ids, "the ids of ended streams are counted")
	must(t, m.cfg.IDBytes <= 0 || ids <= m.cfg.IDBytes || ended == 1, "and no more of them are kept than may be")
	d := m.dropped
	if d == nil {
		return
	}
	bytes := 0
	for k := range d.n {
		bytes += d.at(k).idBytes()
	}
	must(t, bytes == d.bytes, "what is remembered is counted")
	must(t, d.n <= m.cfg.Remember && len(d.ring) <= m.cfg.Remember, "no more is remembered than was asked for")
	must(t, m.cfg.IDBytes <= 0 || bytes <= m.cfg.IDBytes, "and no more bytes of it")
}

// checkRequests returns how many are open.
func checkRequests(t testing.TB, s *stream) int {
	open, holding := int32(0), int32(0)
	for k := range s.requests() {
		switch s.requests()[k].state {
		case awaited:
			open++
		case held:
			open, holding = open+1, holding+1
		case settled:
		}
	}
	must(t, open == s.open && holding == s.held, "the requests of a stream are counted")
	must(t, (s.life == alive) == (open > 0), "a stream runs as long as one of its requests is open")
	must(t, holding == 0 || s.reader == undecided && holding < open, "only an answer that waits for another one holds responses")
	return int(open)
}

func checkReader(t testing.TB, s *stream) {
	must(t, (s.reader != nobody) == (s.conn != 0), "somebody reads or waits, or nobody does")
	must(t, s.conn == 0 || s.closing == 0, "a new reader has sent the old one away")
	must(t, s.life != ended || s.conn == 0, "who reads an ended stream was told its end")
	must(t, s.sent <= s.seq, "only what was recorded was written")
	must(t, !s.stranded || s.conn == 0 && s.life == alive, "an unreachable stream has no reader, and is not kept")
	must(t, s.reader != undecided || s.seq == 0, "nothing is recorded before the form of the answer is decided")
}

// checkList returns how many are in a list.
func checkList(t testing.TB, m *Machine, l *list, name listName) int {
	n, prev := 0, int32(-1)
	for i := l.head; i >= 0 && n <= l.n; i = m.streams[i].next {
		must(t, m.streams[i].in == name && m.streams[i].prev == prev, "the list is linked both ways")
		prev = i
		n++
	}
	must(t, prev == l.tail && n == l.n, "the list ends where it says, after as many as it says")
	return n
}

func must(t testing.TB, ok bool, what string, args ...any) {
	if !ok { // Helper is slow, and must is called much
		t.Helper()
		t.Fatalf(what, args...)
	}
}
