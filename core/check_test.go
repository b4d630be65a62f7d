package core

import "testing"

// check fails unless redundant state of the machine agrees and every list, heap and map is sound. It must pass after every step.
func check(t testing.TB, m *Machine) {
	if m.phase == phaseEnded {
		must(t, m.Running()+m.Unfetched() == 0 && m.streamTable == nil, "a session that is over keeps nothing")
		must(t, m.Deadline().IsZero(), "a session that is over waits for nothing")
		return
	}
	must(t, !m.trust.doubted || m.canPoll && !m.trust.proven && m.trust.missed > 0, "only a client that failed to come back is doubted, and never one that polls")
	if m.streamTable == nil {
		must(t, m.conns == 0 && m.running == 0 && m.unanswered == 0, "a session without a stream table is idle")
		return
	}
	running, unanswered, listed, timed, vacant := 0, 0, 0, 0, 0
	for i := range m.streams {
		s, at := &m.streams[i], int32(i)
		if s.phase == streamUnused {
			vacant++
			continue
		}
		if at != standalone {
			must(t, m.find(s.id) == at, "the stream is found")
			unanswered += checkRequests(t, s)
		}
		if s.phase == streamRunning && at != standalone {
			running++
		}
		checkReader(t, s)
		must(t, (s.phase == streamEnded) == (s.inList != listNone), "ended streams are listed, others are not")
		if s.inList != listNone {
			listed++
			must(t, (s.written >= s.seq) == (s.inList == listFetched), "a stream is in the right list")
		}
		must(t, (s.deadline != never) == (s.heapIndex >= 0), "a stream with a deadline is in the heap")
		if s.heapIndex >= 0 {
			timed++
			must(t, m.timers[s.heapIndex] == at, "the heap leads to the stream")
			must(t, s.heapIndex == 0 || m.streams[m.timers[(s.heapIndex-1)/2]].deadline <= s.deadline, "the heap is in order")
		}
		before := s.deadline
		m.schedule(at)
		must(t, before == s.deadline, "the deadline was set when what it depends on changed")
	}
	must(t, running == int(m.running), "streams that run are counted")
	must(t, unanswered == int(m.unanswered), "unanswered requests are counted")
	must(t, timed == len(m.timers), "the heap holds nothing else")
	must(t, vacant == len(m.free), "every free place is known")
	must(t, m.byID == nil || len(m.byID) == len(m.streams)-1-vacant, "the map holds nothing else")
	must(t, m.byID != nil || len(m.streams) <= maxUnindexed, "where there are many, there is a map")
	must(t, listed == checkList(t, m, &m.fetched, listFetched)+checkList(t, m, &m.unfetched, listUnfetched), "the lists hold nothing else")
	for id, i := range m.inflight {
		found := false
		for k := range m.streams[i].requests() {
			r := &m.streams[i].requests()[k]
			found = found || r.key() == id && r.state != settled
		}
		must(t, found, "an id in flight belongs to an unanswered request")
	}
	checkIDs(t, m)
}

// checkIDs looks at what is kept of the ids of requests that have ended.
func checkIDs(t testing.TB, m *Machine) {
	ids, ended := 0, 0
	for i := range m.streams {
		if s := &m.streams[i]; s.inList != listNone {
			ids += idBytes(s.single[0].ID, s.batch)
			ended++
		}
	}
	must(t, ids == m.endedIDBytes, "the ids of ended streams are counted")
	must(t, m.cfg.IDBytes <= 0 || ids <= m.cfg.IDBytes || ended == 1, "and no more of them are kept than may be")
	ds := m.dropped
	if ds == nil {
		return
	}
	bytes := 0
	for k := range ds.n {
		bytes += ds.at(k).idBytes()
	}
	must(t, bytes == ds.bytes, "what is remembered is counted")
	must(t, ds.n <= m.cfg.Remember && len(ds.ring) <= m.cfg.Remember, "no more is remembered than was asked for")
	must(t, m.cfg.IDBytes <= 0 || bytes <= m.cfg.IDBytes, "and no more bytes of it")
}

// checkRequests returns how many requests are not answered.
func checkRequests(t testing.TB, s *stream) int {
	unanswered, holding := int32(0), int32(0)
	for k := range s.requests() {
		switch s.requests()[k].state {
		case awaited:
			unanswered++
		case held:
			unanswered, holding = unanswered+1, holding+1
		case settled:
		}
	}
	must(t, unanswered == s.unanswered && holding == s.held, "the requests of a stream are counted")
	must(t, (s.phase == streamRunning) == (unanswered > 0), "a stream runs as long as one of its requests is not answered")
	must(t, holding == 0 || s.reader == readerUndecided && holding < unanswered, "only an answer that waits for another one holds responses")
	return int(unanswered)
}

func checkReader(t testing.TB, s *stream) {
	must(t, (s.reader != readerNone) == (s.conn != 0), "a stream has a reader if and only if it has a connection")
	must(t, s.conn == 0 || s.closing == 0, "a new reader has sent the old one away")
	must(t, s.phase != streamEnded || s.conn == 0, "the reader of an ended stream was told to end")
	must(t, s.written <= s.seq, "only what was recorded was written")
	must(t, !s.stranded || s.conn == 0 && s.phase == streamRunning, "an unreachable stream has no reader, and is not kept")
	must(t, s.reader != readerUndecided || s.seq == 0, "nothing is recorded before the form of the answer is decided")
}

// checkList returns how many are in a list.
func checkList(t testing.TB, m *Machine, l *list, name listName) int {
	n, prev := 0, int32(-1)
	for i := l.head; i >= 0 && n <= l.n; i = m.streams[i].next {
		must(t, m.streams[i].inList == name && m.streams[i].prev == prev, "the list is linked both ways")
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
