package eventstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// verify recounts everything that a store counts. Nothing else may be using the store.
func verify(t testing.TB, m *Memory) {
	t.Helper()
	var used, evictable int64
	kept := map[*memoryLog]bool{}
	verifyRegistry(t, &m.sessions)
	m.sessions.all(func(s *memorySession) {
		require.Same(t, s, m.sessions.find(s.name))
		require.Equal(t, s.keptLogs > 0, m.sessions.held[s.name] == s, "a session is held while it holds a log")
		var bytes, sessionEvictable int64
		held := 0
		verifyRegistry(t, &s.logs)
		s.logs.all(func(l *memoryLog) {
			require.Same(t, l, s.logs.find(l.name))
			require.Equal(t, l.newAccount(), l.account, "a log was changed without reconcile")
			require.Equal(t, l.kept, s.logs.held[l.name] == l, "a log is held while it is kept")
			if !l.kept {
				require.Zero(t, l.events, "a log that costs nothing holds nothing")
				require.Nil(t, l.ackedLinks)
				require.Zero(t, l.phaseLinks, "nor does it keep its former neighbours alive")
				return
			}
			held++
			bytes += l.account.charge
			sessionEvictable += l.account.evictable
			require.Equal(t, int(l.last-l.first+1), l.events.n)
			var events, acked int64
			for seq := l.first; seq <= l.last; seq++ {
				c := eventCharge(l.at(seq))
				events += c
				if seq <= l.acked {
					acked += c
				}
			}
			require.Equal(t, events, l.bytes)
			require.Equal(t, acked, l.ackedBytes)
			kept[l] = true
		})
		require.Equal(t, held, s.keptLogs)
		require.Equal(t, bytes, s.bytes)
		require.Equal(t, sessionEvictable, s.evictable)
		verifyQueues(t, &s.queues, func(l *memoryLog) bool { return l.session == s && kept[l] }, s.logs.held)
		if held > 0 {
			used += bytes + s.overhead()
		}
		evictable += sessionEvictable
	})
	require.Equal(t, used, m.used.Load(), "the total")
	require.Equal(t, evictable, m.evictable.Load(), "what eviction could free")
	all := map[string]*memoryLog{}
	for l := range kept {
		all[l.session.name+"\x00|"+l.name] = l
	}
	verifyQueues(t, &m.queues, func(l *memoryLog) bool { return kept[l] }, all)
	verifyTenants(t, m, kept)
}

// verifyTenants checks that each unsent log is in its tenant's queues, and each tenant in the class of its charge.
func verifyTenants(t testing.TB, m *Memory, logs map[*memoryLog]bool) {
	t.Helper()
	type sums struct{ bytes, evictable, unsent int64 }
	want, sessions := map[*tenant]*sums{}, map[*memorySession]bool{}
	count := map[*tenant]*[2]int{}
	for l := range logs {
		s, tn := l.session, l.session.tenant
		if want[tn] == nil {
			want[tn], count[tn] = &sums{}, &[2]int{}
		}
		if !sessions[s] {
			sessions[s] = true
			want[tn].bytes += s.overhead()
		}
		want[tn].bytes += l.account.charge
		want[tn].evictable += l.account.evictable
		switch l.account.phase {
		case phaseBacklog, phaseUnwritten:
			want[tn].unsent += l.account.evictable - l.ackedBytes
		}
		switch l.account.phase {
		case phaseBacklog:
			count[tn][kindBacklog]++
		case phaseUnwritten:
			count[tn][kindUnwritten]++
		}
	}
	unsent := [classes + 1]int64{}
	queued := map[*tenant]*[2]bool{}
	for class := range m.tenants.queues {
		for kind := range m.tenants.queues[class] {
			var prev *tenant
			for tn := m.tenants.queues[class][kind].front; tn != nil; tn = tn.links[kind].next {
				require.Same(t, prev, tn.links[kind].prev)
				require.NotNil(t, want[tn], "a tenant that holds nothing is queued")
				require.EqualValues(t, class, tn.class.Load())
				if queued[tn] == nil {
					queued[tn] = &[2]bool{}
				}
				queued[tn][kind], prev = true, tn
			}
			require.Same(t, prev, m.tenants.queues[class][kind].back)
		}
	}
	principals := 0
	for tn, w := range want {
		if tn.principal != "" { // sessions were looked at already
			got := sums{tn.bytes.Load(), tn.evictable.Load(), tn.unsent}
			require.Equal(t, *w, got)
		}
		require.Equal(t, w.unsent, tn.unsent)
		require.Equal(t, classOf(w.bytes), int(tn.class.Load()))
		unsent[tn.class.Load()] += tn.unsent
		for kind := range tn.queues {
			n := verifyQueue(t, &tn.queues[kind], func(l *memoryLog) { require.Same(t, tn, l.session.tenant) })
			require.Equal(t, count[tn][kind], n)
			require.Equal(t, n > 0, queued[tn] != nil && queued[tn][kind], "a tenant that has something to give is queued")
			require.Equal(t, n > 0, tn.links[kind].queued)
		}
		if tn.principal != "" {
			principals++
			require.Same(t, tn, m.principals[tn.principal])
		}
	}
	require.Equal(t, unsent, m.tenants.unsent)
	require.Len(t, m.principals, principals)
}

// verifyQueues checks that each log that is kept is in the queue where it belongs, and that no other log is.
func verifyQueues(t testing.TB, e *evictionQueues, mine func(*memoryLog) bool, logs map[string]*memoryLog) {
	t.Helper()
	want := map[phase]int{}
	acked := 0
	for _, l := range logs {
		want[l.account.phase]++
		if l.account.acked {
			acked++
		}
	}
	phases := []phase{phaseBacklog, phaseWritten, phaseUnwritten}
	if e.written.scope == ofStore {
		phases = phases[1:2] // the others are in the tenants' queues
	}
	for _, p := range phases {
		n := verifyQueue(t, e.queue(p, nil), func(l *memoryLog) {
			require.True(t, mine(l), "a log that is not kept is still queued")
			require.Equal(t, p, l.account.phase)
		})
		require.Equal(t, want[p], n, "phase %d", p)
	}
	n := verifyQueue(t, &e.acked, func(l *memoryLog) { require.True(t, mine(l) && l.account.acked) })
	require.Equal(t, acked, n)
}

func verifyQueue(t testing.TB, q *logQueue, each func(*memoryLog)) (n int) {
	t.Helper()
	var prev *memoryLog
	for l := q.front; l != nil; l = q.link(l).next {
		require.Same(t, prev, q.link(l).prev)
		each(l)
		prev = l
		n++
	}
	require.Same(t, prev, q.back)
	return n
}

func verifyRegistry[T any](t testing.TB, r *registry[T]) {
	t.Helper()
	r.weak.All(func(name string, p *T) { require.Same(t, p, r.find(name), "another object has the name as well") })
	if r.newest != nil {
		require.Nil(t, r.held[r.newestName], "another object has the name as well")
		require.Nil(t, r.weak.Find(r.newestName), "another object has the name as well")
	}
}

// size is how many names cost something.
func (r *registry[T]) size() int {
	n := len(r.held) + r.weak.Len()
	if r.newest != nil {
		n++
	}
	return n
}
