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
	verifyOwners(t, m, filed)
}

// verifyOwners checks that each log that a client was not sent is its owner's, and each owner is where its charge says.
func verifyOwners(t testing.TB, m *Memory, logs map[*memoryLog]bool) {
	t.Helper()
	type sums struct{ bytes, spare, unread int64 }
	want, sessions := map[*owner]*sums{}, map[*memorySession]bool{}
	count := map[*owner]*[2]int{}
	for l := range logs {
		s, o := l.session, l.session.owner
		if want[o] == nil {
			want[o], count[o] = &sums{}, &[2]int{}
		}
		if !sessions[s] {
			sessions[s] = true
			want[o].bytes += s.overhead()
		}
		want[o].bytes += l.standing.charge
		want[o].spare += l.standing.spare
		switch l.standing.place {
		case backlog, owed:
			want[o].unread += l.standing.spare - l.ackedBytes
		}
		switch l.standing.place {
		case backlog:
			count[o][backlogs]++
		case owed:
			count[o][results]++
		}
	}
	unread := [classes + 1]int64{}
	queued := map[*owner]*[2]bool{}
	for class := range m.owners.queues {
		for kind := range m.owners.queues[class] {
			var prev *owner
			for o := m.owners.queues[class][kind].front; o != nil; o = o.links[kind].next {
				require.Same(t, prev, o.links[kind].prev)
				require.NotNil(t, want[o], "an owner that holds nothing is filed")
				require.EqualValues(t, class, o.class.Load())
				if queued[o] == nil {
					queued[o] = &[2]bool{}
				}
				queued[o][kind], prev = true, o
			}
			require.Same(t, prev, m.owners.queues[class][kind].back)
		}
	}
	principals := 0
	for o, w := range want {
		if o.principal != "" { // sessions were looked at already
			got := sums{o.bytes.Load(), o.spare.Load(), o.unread}
			require.Equal(t, *w, got)
		}
		require.Equal(t, w.unread, o.unread)
		require.Equal(t, classOf(w.bytes), int(o.class.Load()))
		unread[o.class.Load()] += o.unread
		for kind := range o.lists {
			n := verifyList(t, &o.lists[kind], func(l *memoryLog) { require.Same(t, o, l.session.owner) })
			require.Equal(t, count[o][kind], n)
			require.Equal(t, n > 0, queued[o] != nil && queued[o][kind], "who has something to give is filed")
			require.Equal(t, n > 0, o.links[kind].filed)
		}
		if o.principal != "" {
			principals++
			require.Same(t, o, m.principals[o.principal])
		}
	}
	require.Equal(t, unread, m.owners.unread)
	require.Len(t, m.principals, principals)
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
	places := []place{backlog, done, owed}
	if s.done.whose == ofStore {
		places = places[1:2] // owners have the others
	}
	for _, p := range places {
		n := verifyList(t, s.home(p, nil), func(l *memoryLog) {
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
