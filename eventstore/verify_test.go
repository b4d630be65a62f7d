package eventstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// verify recounts everything that a store keeps count of. Nothing else may be using it.
func verify(t testing.TB, m *Memory) {
	t.Helper()
	var used, spare int64
	filed := map[*memoryLog]bool{}
	verifyRegistry(t, &m.sessions)
	m.sessions.all(func(s *memorySession) {
		require.Same(t, s, m.sessions.find(s.name))
		require.Equal(t, s.held > 0, m.sessions.held[s.name] == s, "a session is held while it holds a log")
		var bytes, sessionSpare int64
		held := 0
		verifyRegistry(t, &s.logs)
		s.logs.all(func(l *memoryLog) {
			require.Same(t, l, s.logs.find(l.name))
			require.Equal(t, l.stand(), l.standing, "somebody changed a log and did not settle")
			require.Equal(t, l.kept, s.logs.held[l.name] == l, "a log is held while it is kept")
			if !l.kept {
				require.Zero(t, l.events, "a log that costs nothing holds nothing")
				require.Nil(t, l.acks)
				require.Zero(t, l.home, "nor does it keep its former neighbours alive")
				return
			}
			held++
			bytes += l.standing.charge
			sessionSpare += l.standing.spare
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
			filed[l] = true
		})
		require.Equal(t, held, s.held)
		require.Equal(t, bytes, s.bytes)
		require.Equal(t, sessionSpare, s.spare)
		verifyShelf(t, &s.shelf, func(l *memoryLog) bool { return l.session == s && filed[l] }, s.logs.held)
		if held > 0 {
			used += bytes + s.overhead()
		}
		spare += sessionSpare
	})
	require.Equal(t, used, m.used.Load(), "the total")
	require.Equal(t, spare, m.spare.Load(), "what eviction could free")
	all := map[string]*memoryLog{}
	for l := range filed {
		all[l.session.name+"\x00|"+l.name] = l
	}
	verifyShelf(t, &m.shelf, func(l *memoryLog) bool { return filed[l] }, all)
}

// verifyShelf checks that each log that is kept is on the shelf where it belongs, and no other is.
func verifyShelf(t testing.TB, s *shelf, mine func(*memoryLog) bool, logs map[string]*memoryLog) {
	t.Helper()
	want := map[place]int{}
	acked := 0
	for _, l := range logs {
		want[l.standing.place]++
		if l.standing.acked {
			acked++
		}
	}
	for _, p := range []place{backlog, done, owed} {
		n := verifyList(t, s.home(p), func(l *memoryLog) {
			require.True(t, mine(l), "a log that is not kept is still filed")
			require.Equal(t, p, l.standing.place)
		})
		require.Equal(t, want[p], n, "place %d", p)
	}
	n := verifyList(t, &s.acked, func(l *memoryLog) { require.True(t, mine(l) && l.standing.acked) })
	require.Equal(t, acked, n)
}

func verifyList(t testing.TB, q *list, each func(*memoryLog)) (n int) {
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
	require.Len(t, r.loose.at, len(r.loose.entries))
	for i, e := range r.loose.entries {
		require.Equal(t, i, r.loose.at[e.name])
		if p := e.known.Value(); p != nil {
			require.Same(t, p, r.find(e.name), "the name is another's, too")
		}
	}
	if r.fresh != nil {
		require.Nil(t, r.held[r.freshName], "the name is another's, too")
		require.Nil(t, r.loose.find(r.freshName), "the name is another's, too")
	}
}

// size is how many names cost something.
func (r *registry[T]) size() int {
	n := len(r.held) + len(r.loose.entries)
	if r.fresh != nil {
		n++
	}
	return n
}
