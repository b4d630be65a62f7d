package eventstore_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// oneOfEach is a store with logs of each kind that something can be evicted from, and one that nothing can be evicted from.
type oneOfEach struct {
	s                       *eventstore.Memory
	acked, backlog, running *log
	written, written2       *log
	unwritten, unwritten2   *log
	limit                   int64
}

const size = 1000

// fill makes the logs in another order than the one in which they are evicted.
func fill(t *testing.T, cfg eventstore.MemoryConfig, principal string, sessionOf func(kind string) string) *oneOfEach {
	f := &oneOfEach{s: eventstore.NewMemory(cfg)}
	open := func(kind, stream string) *log {
		return &log{Log: f.s.Log(eventstore.Key{Session: sessionOf(kind), Stream: stream, Backlog: kind == "backlog", Principal: principal})}
	}
	f.unwritten = open("unwritten", "unwritten")
	f.unwritten.mustAdd(t, size, false)
	f.unwritten.mustAdd(t, size, true)
	f.unwritten.Mark(eventstore.Mark{Written: 1})
	f.unwritten2 = open("unwritten", "unwritten2")
	f.unwritten2.mustAdd(t, size, true)
	f.backlog = open("backlog", "backlog")
	f.backlog.mustAdd(t, size, false)
	f.backlog.mustAdd(t, size, false)
	f.backlog.Mark(eventstore.Mark{Written: 1})
	f.written = open("written", "written")
	f.written.mustAdd(t, size, false)
	f.written.mustAdd(t, size, true)
	f.written2 = open("written", "written2")
	f.written2.mustAdd(t, size, true)
	f.written.Mark(eventstore.Mark{Written: 2})
	f.written2.Mark(eventstore.Mark{Written: 1})
	f.running = open("running", "running")
	f.running.mustAdd(t, size, false)
	f.running.mustAdd(t, size, false)
	f.running.Mark(eventstore.Mark{Written: 2})
	f.acked = open("acked", "acked")
	for range 4 {
		f.acked.mustAdd(t, size, false)
	}
	f.acked.Mark(eventstore.Mark{Acked: 2})
	return f
}

// state is the first event of each log; 0 for a log that was evicted whole.
func (f *oneOfEach) state(t *testing.T) map[string]uint64 {
	st := map[string]uint64{}
	for name, l := range map[string]*log{
		"acked": f.acked, "written": f.written, "written2": f.written2, "backlog": f.backlog, "unwritten": f.unwritten, "unwritten2": f.unwritten2,
		"running": f.running,
	} {
		st[name] = l.first(t)
		if st[name] > l.seq {
			st[name] = 0
		}
	}
	return st
}

// order is what is left after each eviction, from the first to the last.
var order = []map[string]uint64{
	{"acked": 1, "written": 1, "written2": 1, "backlog": 1, "unwritten": 1, "unwritten2": 1, "running": 1},
	{"acked": 2, "written": 1, "written2": 1, "backlog": 1, "unwritten": 1, "unwritten2": 1, "running": 1},
	{"acked": 3, "written": 1, "written2": 1, "backlog": 1, "unwritten": 1, "unwritten2": 1, "running": 1},
	{"acked": 3, "written": 0, "written2": 1, "backlog": 1, "unwritten": 1, "unwritten2": 1, "running": 1},
	{"acked": 3, "written": 0, "written2": 0, "backlog": 1, "unwritten": 1, "unwritten2": 1, "running": 1},
	{"acked": 3, "written": 0, "written2": 0, "backlog": 2, "unwritten": 1, "unwritten2": 1, "running": 1},
	{"acked": 3, "written": 0, "written2": 0, "backlog": 0, "unwritten": 1, "unwritten2": 1, "running": 1},
	{"acked": 3, "written": 0, "written2": 0, "backlog": 0, "unwritten": 0, "unwritten2": 1, "running": 1},
	{"acked": 3, "written": 0, "written2": 0, "backlog": 0, "unwritten": 0, "unwritten2": 0, "running": 1},
}

func testOrder(t *testing.T, f *oneOfEach, press func() error) {
	stage := 0
	require.Equal(t, order[0], f.state(t), "nothing goes before there is need")
	for {
		before := usage(f.s)
		err := press()
		st := f.state(t)
		if err != nil {
			require.ErrorIs(t, err, eventstore.ErrFull)
			require.Equal(t, order[stage], st, "an append that is refused takes nothing")
			break
		}
		require.LessOrEqual(t, usage(f.s), f.limit)
		if usage(f.s) < before || !equal(st, order[stage]) {
			stage++
			require.Less(t, stage, len(order), "something went that must stay: %v", st)
			require.Equal(t, order[stage], st, "loss %d", stage)
		}
	}
	require.Equal(t, order[len(order)-1], f.state(t), "everything that may go went before an append was refused")
}

func equal(a, b map[string]uint64) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

func TestEvictionOrderInASession(t *testing.T) {
	same := func(string) string { return "s" }
	room := usage(fill(t, eventstore.MemoryConfig{}, "", same).s) + size
	f := fill(t, eventstore.MemoryConfig{SessionBytes: room}, "", same)
	f.limit = room
	testOrder(t, f, func() error { return f.running.add(size/4, false) })
}

// Across the sessions of one principal, as across the logs of one session. The pressure comes from those that hold less.
func TestEvictionOrderAcrossSessions(t *testing.T) {
	apart := func(kind string) string { return kind }
	room := usage(fill(t, eventstore.MemoryConfig{}, "p", apart).s) + size
	f := fill(t, eventstore.MemoryConfig{TotalBytes: room}, "p", apart)
	f.limit = room
	n := 0
	testOrder(t, f, func() error {
		n++
		return open(f.s, fmt.Sprint("press", n), "l").add(1, false)
	})
}

func TestASessionsLimitIsItsOwnAffair(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 20_000})
	other := open(s, "other", "a")
	other.mustAdd(t, size, true)
	other.Mark(eventstore.Mark{Acked: 1})
	l := open(s, "s", "a")
	for l.add(size, false) == nil {
	}
	require.EqualValues(t, 1, other.first(t), "another session's events were taken for a session's limit")
}

func TestAcknowledgedEventsAreKeptWhileThereIsRoom(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{})
	l := open(s, "s", "a")
	for range 10 {
		l.mustAdd(t, size, false)
	}
	l.Mark(eventstore.Mark{Written: 10, Acked: 10})
	require.EqualValues(t, 1, l.first(t), "a client may come back with an older cursor")
}

func TestAcknowledgedEventsOfTheLogItselfMakeRoom(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 10_000})
	l := open(s, "s", "a")
	for range 100 {
		l.mustAdd(t, size, false)
		l.Mark(eventstore.Mark{Acked: l.seq - 1})
	}
	require.Greater(t, l.first(t), uint64(80))
	l.Mark(eventstore.Mark{Acked: 3}) // late: what was acknowledged stays so
	l.mustAdd(t, size, false)
}

func TestASealedLogWithoutEventsGoesWhole(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 12_000})
	sealed := open(s, "s", "sealed")
	sealed.mustAdd(t, 7000, true)
	sealed.Mark(eventstore.Mark{Acked: 1})
	l := open(s, "s", "a")
	l.mustAdd(t, 7000, false)
	require.EqualValues(t, 2, sealed.first(t))
	alone := usage(s)
	require.NoError(t, sealed.Drop(context.Background()))
	require.Equal(t, alone, usage(s), "an evicted log is still charged")
}

func TestNothingIsTakenForAnAppendThatFailsAnyway(t *testing.T) {
	for name, cfg := range map[string]eventstore.MemoryConfig{
		"session": {SessionBytes: 20_000},
		"total":   {TotalBytes: 20_000},
		"backlog": {BacklogBytes: 3000},
	} {
		t.Run(name, func(t *testing.T) {
			f := fill(t, cfg, "", func(string) string { return "s" })
			before := usage(f.s)
			for range 3 {
				// 19,000 would fit if the running logs were empty; 3000 is a backlog's limit, but not with its overhead.
				l, n := f.running, 19_000
				if name == "backlog" {
					l, n = f.backlog, 3000
				}
				require.ErrorIs(t, l.add(n, false), eventstore.ErrFull)
			}
			require.Equal(t, order[0], f.state(t))
			require.Equal(t, before, usage(f.s))
			require.Zero(t, evicted(f.s))
			require.Equal(t, &eventstore.BehindError{Last: 2}, f.running.Append(context.Background(), 7, [][]byte{make([]byte, 15_000)}, false))
			require.NoError(t, f.running.Append(context.Background(), 2, [][]byte{make([]byte, size)}, false))
			require.Zero(t, evicted(f.s), "neither for one that is out of sequence nor for a repeat")
		})
	}
}

func TestASealIsTakenOverTheLimit(t *testing.T) {
	for name, cfg := range map[string]eventstore.MemoryConfig{
		"session": {SessionBytes: 20_000},
		"total":   {TotalBytes: 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			f := fill(t, cfg, "", func(string) string { return "s" })
			l := open(f.s, "s", "large")
			l.mustAdd(t, 100_000, true)
			require.Equal(t, order[len(order)-1], f.state(t), "what may go went, the running log did not")
			require.Greater(t, usage(f.s), int64(100_000))
			require.EqualValues(t, 1, l.first(t))
			l2 := open(f.s, "s", "large2")
			l2.mustAdd(t, 100_000, true)
			require.EqualValues(t, 2, l.first(t), "the next one takes its room")
			require.Less(t, usage(f.s), int64(120_000))
			f.running.mustAdd(t, size, false)
			require.EqualValues(t, 2, l2.first(t), "and a running log does")
			require.LessOrEqual(t, usage(f.s), int64(20_000))
		})
	}
}

func TestBacklogsAreTrimmed(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{BacklogBytes: 10_500})
	b := openBacklog(s, "s", "b")
	for range 100 {
		b.mustAdd(t, size, false)
	}
	require.EqualValues(t, 91, b.first(t), "ten events of 1,000 bytes, and their overhead, fit in 10,500")
	require.EqualValues(t, 90, evicted(s))
	require.ErrorIs(t, b.add(10_500, false), eventstore.ErrFull)
	require.EqualValues(t, 91, b.first(t), "nothing is taken for an event that is larger than a backlog")
	b.mustAdd(t, 10_400, false)
	require.EqualValues(t, 101, b.first(t))

	plain := open(s, "s", "plain")
	for range 100 {
		plain.mustAdd(t, size, false)
	}
	require.EqualValues(t, 1, plain.first(t), "the limit of backlogs is for backlogs")
}

func TestLimitsMayBeReached(t *testing.T) {
	// An event of 1,000 bytes takes 1,008 and its slot. So ten fill a backlog, a session, a store to the last byte.
	const ten = 10 * (1008 + 32)
	for _, spare := range []int64{0, -1} {
		b := openBacklog(eventstore.NewMemory(eventstore.MemoryConfig{BacklogBytes: ten + spare}), "s", "b")
		for range 10 {
			b.mustAdd(t, size, false)
		}
		require.Equal(t, uint64(1-spare), b.first(t))
	}
	s := eventstore.NewMemory(eventstore.MemoryConfig{})
	l := open(s, "s", "l")
	for range 10 {
		l.mustAdd(t, size, false)
	}
	full := usage(s)
	for name, cfg := range map[string]func(limit int64) eventstore.MemoryConfig{
		"session": func(limit int64) eventstore.MemoryConfig { return eventstore.MemoryConfig{SessionBytes: limit} },
		"total":   func(limit int64) eventstore.MemoryConfig { return eventstore.MemoryConfig{TotalBytes: limit} },
	} {
		for _, spare := range []int64{0, -1} {
			l := open(eventstore.NewMemory(cfg(full+spare)), "s", "l")
			for range 9 {
				l.mustAdd(t, size, false)
			}
			if spare == 0 {
				require.NoError(t, l.add(size, false), name)
			} else {
				require.ErrorIs(t, l.add(size, false), eventstore.ErrFull, name)
			}
		}
	}
}

func TestASealEndsABacklogToo(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{BacklogBytes: 2500})
	b := openBacklog(s, "s", "b")
	b.mustAdd(t, size, false)
	b.mustAdd(t, 5000, true) // no server does this, but a seal is a seal
	require.EqualValues(t, 1, b.first(t))
}

func TestAReaderNeedNotKnowABacklog(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{BacklogBytes: 2500})
	reader := open(s, "s", "b")
	b := openBacklog(s, "s", "b")
	for range 5 {
		b.mustAdd(t, size, false)
	}
	reader.seq = b.seq
	require.EqualValues(t, 4, reader.first(t))
	again := open(s, "s", "b")
	again.seq = b.seq
	again.mustAdd(t, size, false)
	require.EqualValues(t, 5, again.first(t), "a handle that does not say so made it an ordinary log")
}

func TestBacklogsLoseInTurn(t *testing.T) {
	s := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: 40_000})
	var backlogs []*log
	for i := range 4 {
		b := openBacklog(s, strconv.Itoa(i), "b")
		for range 5 {
			b.mustAdd(t, size, false)
		}
		backlogs = append(backlogs, b)
	}
	for i := 0; evicted(s) < 8; i++ { // by sessions that hold less
		open(s, fmt.Sprint("s", i), "a").mustAdd(t, size, false)
	}
	for _, b := range backlogs {
		require.EqualValues(t, 3, b.first(t), "eight events from four backlogs")
	}
}

func TestNumbersOutliveEvents(t *testing.T) {
	ctx := context.Background()
	s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 8000})
	old := open(s, "s", "old")
	old.mustAdd(t, size, false)
	old.mustAdd(t, size, true)
	for i := range 20 {
		l := open(s, "s", strconv.Itoa(i))
		l.mustAdd(t, size, true)
	}
	want := eventstore.State{First: 3, Last: 2, Sealed: true}
	for _, l := range []eventstore.Log{old.Log, s.Log(eventstore.Key{Session: "s", Stream: "old"})} {
		n, st, err := l.Read(ctx, 0, make([]eventstore.Event, 4), 0)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, want, st)
	}
	require.NoError(t, old.Append(ctx, 2, [][]byte{make([]byte, size)}, true), "a repeat of the seal is harmless for ever")
	require.ErrorIs(t, old.Append(ctx, 3, [][]byte{nil}, true), eventstore.ErrSealed)
	require.EqualValues(t, 3, old.first(t))
	used := usage(s)
	old.Mark(eventstore.Mark{Written: 2, Acked: 2})
	require.NoError(t, old.Drop(ctx))
	require.Equal(t, used, usage(s), "it was not charged any more")
	_, _, err := old.Read(ctx, 0, nil, 0)
	require.ErrorIs(t, err, eventstore.ErrGone)
}
