package eventstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Ten sessions hold what their clients were not sent yet: a result, notifications, and events of a running call. Others take all they can, in
// each way. Nothing of the ten is evicted, and their events are still recorded.
func TestWhoHoldsMoreTakesNothingFromOthers(t *testing.T) {
	for name, attack := range map[string]func(s *eventstore.Memory, session string, i int) error{
		"events of calls": func(s *eventstore.Memory, session string, i int) error {
			return open(s, session, fmt.Sprint("l", i)).add(size, false)
		},
		"results": func(s *eventstore.Memory, session string, i int) error {
			return open(s, session, fmt.Sprint("l", i)).add(size, true)
		},
		"large results": func(s *eventstore.Memory, session string, i int) error {
			return open(s, session, fmt.Sprint("l", i)).add(60*size, true)
		},
		"results that are read": func(s *eventstore.Memory, session string, i int) error {
			l := open(s, session, fmt.Sprint("l", i))
			err := l.add(size, true)
			l.Mark(eventstore.Mark{Written: 1})
			return err
		},
		"notifications": func(s *eventstore.Memory, session string, i int) error {
			return openBacklog(s, session, fmt.Sprint("b", i)).add(size, false)
		},
		"everything": func(s *eventstore.Memory, session string, i int) error {
			switch i % 3 {
			case 0:
				return open(s, session, fmt.Sprint("l", i)).add(size, false)
			case 1:
				return openBacklog(s, session, fmt.Sprint("b", i)).add(size, false)
			}
			return open(s, session, fmt.Sprint("l", i)).add(size, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: 4 << 20})
			type honest struct{ unwritten, backlog, running *log }
			var all []honest
			for i := range 10 {
				session := fmt.Sprint("honest", i)
				h := honest{open(s, session, "unwritten"), openBacklog(s, session, "backlog"), open(s, session, "running")}
				h.unwritten.mustAdd(t, 500, true)
				h.backlog.mustAdd(t, 100, false)
				h.running.mustAdd(t, 100, false)
				all = append(all, h)
			}
			refused := 0
			for i := range 20_000 {
				if attack(s, fmt.Sprint("hostile", i%4), i) != nil {
					refused++
				}
				if i%1000 == 0 {
					h := all[i/1000%10]
					h.running.mustAdd(t, 100, false)
					h.backlog.mustAdd(t, 100, false)
				}
			}
			for _, h := range all {
				for _, l := range []*log{h.unwritten, h.backlog, h.running} {
					require.EqualValues(t, 1, l.first(t), "nothing of it was taken")
				}
			}
			require.Less(t, usage(s), int64(4<<20+200_000))
			t.Log(refused, "refused,", evicted(s), "evicted")
		})
	}
}

// What was not sent yet is evicted from those that hold most, until they hold as little as others.
func TestWhoHoldsMostGivesFirst(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: 400_000})
	large, small := map[int]*log{}, map[int]*log{}
	for i := range 100 {
		large[i] = open(s, "large", fmt.Sprint(i))
		large[i].mustAdd(t, 3*size, true)
		if i < 20 {
			small[i] = open(s, fmt.Sprint("small", i), "l")
			small[i].mustAdd(t, size, true)
		}
	}
	for i := range 50 {
		open(s, fmt.Sprint("new", i), "l").mustAdd(t, 3*size, false)
	}
	for _, l := range small {
		require.EqualValues(t, 1, l.first(t))
	}
	require.EqualValues(t, 2, large[0].first(t))
	require.EqualValues(t, 1, large[99].first(t), "and of those the one that was sealed first")
}

// A principal may hold as much as is left for others, in any number of sessions.
func TestAPrincipalHoldsNoMoreThanIsLeft(t *testing.T) {
	const total = 16 << 20
	s := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: total})
	for n, principal := range []string{"a", "b", "c"} {
		before := usage(s)
		for i := range 10_000 {
			l := s.Log(eventstore.Key{Session: fmt.Sprint(principal, i/8), Stream: fmt.Sprint(i), Principal: principal})
			if err := l.Append(context.Background(), 1, [][]byte{make([]byte, 10*size)}, false); err != nil {
				require.ErrorIs(t, err, eventstore.ErrFull)
			}
		}
		require.InDelta(t, (total-before)/2, usage(s)-before, 20*size, "the %d. principal takes half of what is left", n+1)
	}
	for i := range 10_000 / 8 {
		require.NoError(t, s.DropSession(context.Background(), fmt.Sprint("b", i)))
	}
	again := s.Log(eventstore.Key{Session: "b again", Stream: "l", Principal: "b"})
	require.NoError(t, again.Append(context.Background(), 1, [][]byte{make([]byte, 10*size)}, false), "what it gives back it may have again")
	for i := range 8 {
		other := s.Log(eventstore.Key{Session: "other", Stream: fmt.Sprint(i), Principal: "d"})
		require.NoError(t, other.Append(context.Background(), 1, [][]byte{make([]byte, 10*size)}, false))
	}
}

// When sessions without a principal fill the store, events of those that hold little are still recorded.
func TestWhoHoldsLittleIsNotFull(t *testing.T) {
	const total = 8 << 20
	s := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: total, SessionBytes: 1 << 20})
	for i := range 20 {
		l := open(s, fmt.Sprint("hostile", i), "l")
		for l.add(size, false) == nil {
		}
	}
	require.Greater(t, usage(s), int64(total-3*size))
	for i := range 500 {
		l := open(s, fmt.Sprint("honest", i), "l")
		n := 0
		for l.add(100, false) == nil {
			n++
		}
		require.Equal(t, 21, n, "4 KiB, overhead counted")
	}
	require.LessOrEqual(t, usage(s), int64(total+total/4))
}

// A question is recorded when progress is refused: in a session that is full, and in a store that others have filled.
func TestQuestionsHaveAReserve(t *testing.T) {
	urgent := eventstore.ContextWithUrgency(context.Background())
	require.True(t, eventstore.IsUrgent(urgent))
	require.False(t, eventstore.IsUrgent(context.Background()))
	for name, cfg := range map[string]eventstore.MemoryConfig{
		"a full session": {SessionBytes: 1 << 20},
		"a full store":   {TotalBytes: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			s := eventstore.NewMemory(cfg)
			hog := open(s, "hog", "l")
			for hog.add(size, false) == nil {
			}
			l := hog
			if cfg.TotalBytes > 0 {
				l = open(s, "other", "l")
				require.ErrorIs(t, hog.Append(urgent, hog.seq+1, [][]byte{make([]byte, size)}, false), eventstore.ErrFull, "the reserve is for those that hold little")
			}
			require.ErrorIs(t, l.add(size, false), eventstore.ErrFull)
			n := 0
			for ; l.Append(urgent, l.seq+1, [][]byte{make([]byte, size)}, false) == nil; n++ {
				l.seq++
			}
			require.InDelta(t, 60, n, 5, "a sixteenth of the limit, or 64 KiB")
			require.ErrorIs(t, l.add(size, false), eventstore.ErrFull)
		})
	}
}

// A log is Short when room is short and it is a cause of that.
func TestShort(t *testing.T) {
	short := func(l *log) bool { return l.Log.(eventstore.Limited).Short() }
	s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 100_000, TotalBytes: 8 << 20})
	first, second := open(s, "s", "first"), open(s, "s", "second")
	require.False(t, short(first), "there is nothing of it")
	for range 47 {
		require.False(t, short(first))
		first.mustAdd(t, size, false)
	}
	first.mustAdd(t, size, false)
	require.True(t, short(first), "half of what a session may have")
	second.mustAdd(t, size, false)
	require.False(t, short(second), "it is not a cause of that")
	first.Mark(eventstore.Mark{Written: 48})
	require.True(t, short(first), "it may have been lost on the way")
	first.Mark(eventstore.Mark{Acked: 40})
	require.False(t, short(first))
	for range 60 {
		first.mustAdd(t, size, false)
	}
	require.True(t, short(first))
	require.NoError(t, first.Append(context.Background(), first.seq+1, [][]byte{nil}, true))
	require.False(t, short(first), "nothing follows")

	b := openBacklog(s, "s", "b")
	for range 200 {
		b.mustAdd(t, size, false)
	}
	require.False(t, short(b), "its oldest events go anyway")

	quiet := open(s, "quiet", "l")
	quiet.mustAdd(t, size, false)
	quiet.mustAdd(t, size, false)
	for i := range 100 {
		l := open(s, fmt.Sprint("hostile", i), "l")
		for l.add(size, false) == nil {
		}
	}
	require.True(t, short(quiet), "where others hold nearly all there is, little is much")
}

// A principal and six sessions fill the store, and the principal holds more than each of the six. What it appends to a new session of its
// own takes nothing from them.
func TestPrincipalTakesNothingFromOthersWithANewSession(t *testing.T) {
	for _, seal := range []bool{false, true} {
		t.Run(fmt.Sprint("seal ", seal), func(t *testing.T) {
			s := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: 1 << 20})
			of := func(session string, backlog bool) *log {
				return &log{Log: s.Log(eventstore.Key{Session: session, Stream: "l", Principal: "p", Backlog: backlog})}
			}
			of("first", false).mustAdd(t, 400<<10, false)
			var small []*log
			for i := range 6 {
				l := open(s, fmt.Sprint("small", i), "l")
				l.mustAdd(t, 96<<10, true)
				small = append(small, l)
			}
			err := of("second", !seal).add(60<<10, seal)
			if seal {
				require.NoError(t, err, "a seal is always recorded")
			} else {
				require.ErrorIs(t, err, eventstore.ErrFull)
			}
			require.Zero(t, evicted(s))
			for _, l := range small {
				require.EqualValues(t, 1, l.first(t), "nothing of it was taken")
			}
		})
	}
}

// A tenant that holds as much as the one that appends gives its unsent events too, although it holds less when its acknowledged events are
// evicted. Otherwise these would be evicted in vain.
func TestWhoGaveAcknowledgedEventsGivesUnsentOnesToo(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: 1 << 20})
	open(s, "running", "l").mustAdd(t, 500<<10, false)
	read, unread := open(s, "giver", "read"), open(s, "giver", "unread")
	for range 10 {
		read.mustAdd(t, 28<<10, false)
	}
	read.Mark(eventstore.Mark{Acked: 10})
	unread.mustAdd(t, 200<<10, true)
	require.NoError(t, open(s, "s", "l").add(450<<10, false), "it fits if everything of the giver is evicted")
	require.EqualValues(t, 11, evicted(s))
	require.LessOrEqual(t, usage(s), int64(1<<20))
}
