package eventstore_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
)

func TestMemoryPassesTheExam(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      eventstore.MemoryConfig
		features storetest.Features
	}{
		"defaults": {features: storetest.Features{Bounded: true}},
		"small": {
			cfg:      eventstore.MemoryConfig{SessionBytes: 1 << 20, TotalBytes: 2 << 20, BacklogBytes: 64 << 10},
			features: storetest.Features{Bounded: true},
		},
		"backlogs as large as the session": {
			cfg:      eventstore.MemoryConfig{SessionBytes: 1 << 20, BacklogBytes: -1},
			features: storetest.Features{Bounded: true},
		},
		"no bounds": {cfg: eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1, BacklogBytes: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, c.features, func(testing.TB) eventstore.Store { return eventstore.NewMemory(c.cfg) })
		})
	}
}

// log is a handle that counts its events, for tests that append many.
type log struct {
	eventstore.Log
	seq uint64
}

func open(s eventstore.Store, session, stream string) *log {
	return &log{Log: s.Log(eventstore.Key{Session: session, Stream: stream})}
}

func openBacklog(s eventstore.Store, session, stream string) *log {
	return &log{Log: s.Log(eventstore.Key{Session: session, Stream: stream, Backlog: true})}
}

// add appends an event of size bytes.
func (l *log) add(size int, seal bool) error {
	err := l.Append(context.Background(), l.seq+1, [][]byte{make([]byte, size)}, seal)
	if err == nil {
		l.seq++
	}
	return err
}

func (l *log) mustAdd(t testing.TB, size int, seal bool) {
	t.Helper()
	require.NoError(t, l.add(size, seal))
}

// first returns the oldest event that is kept, or one more than the last if none is.
func (l *log) first(t testing.TB) uint64 {
	t.Helper()
	_, st, err := l.Read(context.Background(), 0, nil, 0)
	require.NoError(t, err)
	require.Equal(t, l.seq, st.Last)
	return st.First
}

func usage(s *eventstore.Memory) int64 {
	used, _ := s.Usage()
	return used
}

func evicted(s *eventstore.Memory) int64 {
	_, n := s.Usage()
	return n
}

func TestHandlesCostNothing(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{})
	l := open(s, "s", "a")
	l.Mark(eventstore.Mark{Acked: 7})
	require.EqualValues(t, 1, l.first(t))
	require.Zero(t, usage(s), "a log that was never appended to")
	l.mustAdd(t, 100, false)
	require.NotZero(t, usage(s))
	require.NoError(t, l.Drop(context.Background()))
	require.Zero(t, usage(s), "memory is returned at once, though the handle is still there")
	runtime.KeepAlive(l)
}

func TestANameIsFreeAfterADrop(t *testing.T) {
	ctx := context.Background()
	for name, drop := range map[string]func(s eventstore.Store, l eventstore.Log) error{
		"log":     func(_ eventstore.Store, l eventstore.Log) error { return l.Drop(ctx) },
		"session": func(s eventstore.Store, _ eventstore.Log) error { return s.DropSession(ctx, "s") },
	} {
		t.Run(name, func(t *testing.T) {
			s := eventstore.NewMemory(eventstore.MemoryConfig{})
			old := open(s, "s", "a")
			old.mustAdd(t, 100, true)
			require.NoError(t, drop(s, old))
			again := open(s, "s", "a")
			require.EqualValues(t, 1, again.first(t), "the store keeps nothing of a log that was dropped")
			again.mustAdd(t, 100, false)
			require.ErrorIs(t, old.add(100, false), eventstore.ErrGone, "the old handle has nothing to do with it")
			require.NoError(t, old.Drop(ctx))
			again.mustAdd(t, 100, false)
		})
	}
}

func TestDropSessionReturnsItsMemory(t *testing.T) {
	ctx := context.Background()
	s := eventstore.NewMemory(eventstore.MemoryConfig{})
	other := open(s, "other", "a")
	other.mustAdd(t, 100, false)
	before := usage(s)
	for i := range 50 {
		l := open(s, "s", strconv.Itoa(i))
		l.mustAdd(t, 100, i%2 == 0)
		if i%3 == 0 {
			l.Mark(eventstore.Mark{Written: 1, Acked: 1})
		}
		b := openBacklog(s, "s", "backlog"+strconv.Itoa(i))
		b.mustAdd(t, 100, false)
	}
	require.NoError(t, s.DropSession(ctx, "s"))
	require.Equal(t, before, usage(s))
	require.Zero(t, evicted(s), "what was dropped was not evicted")
	require.NoError(t, s.DropSession(ctx, "other"))
	require.Zero(t, usage(s))
}

func TestLimitsHaveDefaults(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{})
	l := open(s, "s", "a")
	for l.add(4096, false) == nil {
	}
	require.InEpsilon(t, 4<<20, usage(s), 0.01, "a session gets 4 MiB")
	b := openBacklog(s, "backlog", "a")
	for range 200 {
		b.mustAdd(t, 4096, false)
	}
	require.InEpsilon(t, 256<<10, usage(s)-4<<20, 0.05, "a backlog gets 256 KiB")
	for i := 0; ; i++ {
		if open(s, strconv.Itoa(i), "a").add(3<<20, false) != nil {
			break
		}
		require.Less(t, i, 1000, "there is no limit")
	}
	require.InEpsilon(t, 256<<20, usage(s), 0.02, "all sessions get 256 MiB")
}

func TestAStreamTakesFewAllocations(t *testing.T) {
	ctx := context.Background()
	s := eventstore.NewMemory(eventstore.MemoryConfig{})
	batch := [][]byte{make([]byte, 127)}
	var buf [4]eventstore.Event
	names := make([]string, 2000)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	i := 0
	allocs := testing.AllocsPerRun(1000, func() {
		l := s.Log(eventstore.Key{Session: "s", Stream: names[i]})
		i++
		_ = l.Append(ctx, 1, batch, true)
		_, _, _ = l.Read(ctx, 0, buf[:], 0)
		l.Mark(eventstore.Mark{Written: 1})
		_ = l.Drop(ctx)
	})
	require.LessOrEqual(t, allocs, 1.0, "one of these happens for each tool call that is answered as a stream")
}
