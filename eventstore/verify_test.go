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
	for name, e := range m.sessions.names {
		s := e.get()
		if s == nil {
			continue // collected, and not noticed yet
		}
		require.Equal(t, name, s.name)
		require.Equal(t, s.held > 0, e.held != nil, "a session is held while it holds a log")
		var bytes, sessionSpare int64
		held := 0
		verifyRegistry(t, &s.logs)
		for name, e := range s.logs.names {
			l := e.get()
			if l == nil {
				continue
			}
			require.Equal(t, name, l.name)
			require.Equal(t, l.stand(), l.standing, "somebody changed a log and did not settle")
			require.Equal(t, l.kept, e.held != nil, "a log is held while it is kept")
			if !l.kept {
				require.Nil(t, l.events.buf, "a log that costs nothing holds nothing")
				require.Zero(t, l.links, "nor does it keep its former neighbours alive")
				continue
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
		}
		require.Equal(t, held, s.held)
		require.Equal(t, bytes, s.bytes)
		require.Equal(t, sessionSpare, s.spare)
		verifyShelf(t, &s.shelf, func(l *memoryLog) bool { return l.session == s && filed[l] }, s.logs.names)
		if held > 0 {
			used += bytes + s.overhead()
		}
		spare += sessionSpare
	}
	require.Equal(t, used, m.used.Load(), "the total")
	require.Equal(t, spare, m.spare.Load(), "what eviction could free")
	all := map[string]entry[memoryLog]{}
	for l := range filed {
		all[l.session.name+"\x00|"+l.name] = entry[memoryLog]{held: l}
	}
	verifyShelf(t, &m.shelf, func(l *memoryLog) bool { return filed[l] }, all)
}

// verifyShelf checks that each log that is kept is on the shelf where it belongs, and no other is.
func verifyShelf(t testing.TB, s *shelf, mine func(*memoryLog) bool, logs map[string]entry[memoryLog]) {
	t.Helper()
	want := map[place]int{}
	acked := 0
	for _, e := range logs {
		if e.held != nil {
			want[e.held.standing.place]++
			if e.held.standing.acked {
				acked++
			}
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
	for l := q.front; l != nil; l = l.links[q.slot].next {
		require.Same(t, prev, l.links[q.slot].prev)
		each(l)
		prev = l
		n++
	}
	require.Same(t, prev, q.back)
	return n
}

func verifyRegistry[T any](t testing.TB, r *registry[T]) {
	t.Helper()
	loose := 0
	for name, e := range r.names {
		if e.held == nil {
			loose++
			require.Equal(t, name, r.loose[e.at].name)
			require.Equal(t, e.known, r.loose[e.at].known)
		}
	}
	require.Len(t, r.loose, loose)
}
