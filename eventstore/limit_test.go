package eventstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	patience = 30 * time.Second // a deadline for what must happen, not a duration
	tick     = time.Millisecond
)

// finished fills a store with n finished logs, in one session or in one each.
func finished(t testing.TB, m *Memory, n int, apart bool) {
	t.Helper()
	ctx := context.Background()
	for i := range n {
		k := Key{Session: "s", Stream: strconv.Itoa(i)}
		if apart {
			k.Session = strconv.Itoa(i)
		}
		l := m.Log(k)
		require.NoError(t, l.Append(ctx, 1, [][]byte{make([]byte, 100)}, true))
		l.Mark(Mark{Written: 1})
	}
}

// TestAnAppendAtTheTotalTouchesOnlyItsVictims counts work, not time: it holds the lock of every other session.
func TestAnAppendAtTheTotalTouchesOnlyItsVictims(t *testing.T) {
	const sessions, victims = 1000, 3
	m := NewMemory(MemoryConfig{TotalBytes: -1})
	l := m.Log(Key{Session: "running", Stream: "a"})
	require.NoError(t, l.Append(context.Background(), 1, [][]byte{make([]byte, 100)}, false))
	finished(t, m, sessions, true)
	m.total = m.used.Load()
	for i := victims; i < sessions; i++ {
		s := m.sessions.find(strconv.Itoa(i))
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	one := m.sessions.find("0").bytes + m.sessions.find("0").overhead()
	appended := make(chan error, 1)
	go func() {
		appended <- l.Append(context.Background(), 2, [][]byte{make([]byte, victims*one-slotCharge-16)}, false)
	}()
	select {
	case err := <-appended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "an append waits for a session that it takes nothing from")
	}
	_, n := m.Usage()
	require.EqualValues(t, victims, n)
}

// TestSessionsDoNotWaitForEachOther holds the lock of one session while another one is used.
func TestSessionsDoNotWaitForEachOther(t *testing.T) {
	ctx := context.Background()
	m := NewMemory(MemoryConfig{})
	for _, k := range []Key{{Session: "slow", Stream: "a"}, {Session: "slow", Stream: "b", Backlog: true}} {
		require.NoError(t, m.Log(k).Append(ctx, 1, [][]byte{make([]byte, 100)}, !k.Backlog))
	}
	slow := m.sessions.find("slow")
	slow.mu.Lock()
	defer slow.mu.Unlock()
	served := make(chan error, 1)
	go func() {
		l := m.Log(Key{Session: "s", Stream: "a"})
		err := l.Append(ctx, 1, [][]byte{make([]byte, 100)}, false)
		l.Mark(Mark{Written: 1, Acked: 1})
		_, _, errRead := l.Read(ctx, 0, nil, 0)
		errSeal := l.Append(ctx, 2, [][]byte{make([]byte, 100)}, true)
		served <- errors.Join(err, errRead, errSeal, l.Drop(ctx), m.DropSession(ctx, "s"))
	}()
	select {
	case err := <-served:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "one session waits for another")
	}
}

// TestAnAppendAtALimitTakesNoLongerBesideManyLogs needs the real clock. A search through the logs would take a thousand times
// as long. The best of several rounds must stay within twenty times, which is enough to tell.
func TestAnAppendAtALimitTakesNoLongerBesideManyLogs(t *testing.T) {
	for name, apart := range map[string]bool{"in the session": false, "in all sessions": true} {
		t.Run(name, func(t *testing.T) {
			few, many := appendsAtTheLimit(t, 10, apart), appendsAtTheLimit(t, 50_000, apart)
			t.Logf("100 appends beside 10 logs: %v, beside 50,000: %v", few, many)
			require.Less(t, many, 20*few+time.Millisecond)
		})
	}
}

func appendsAtTheLimit(t *testing.T, logs int, apart bool) time.Duration {
	ctx := context.Background()
	m := NewMemory(MemoryConfig{SessionBytes: -1, TotalBytes: -1})
	l := m.Log(Key{Session: "s", Stream: "running"})
	seq := uint64(0)
	add := func() {
		seq++
		require.NoError(t, l.Append(ctx, seq, [][]byte{make([]byte, 100)}, false))
		l.Mark(Mark{Acked: seq})
	}
	for range 10 {
		add()
	}
	finished(t, m, logs, apart)
	m.total = m.used.Load()
	m.perSession = m.sessions.find("s").bytes + m.sessions.find("s").overhead()
	runtime.GC()
	best := patience
	for range 10 {
		start := time.Now()
		for range 100 {
			add()
		}
		best = min(best, time.Since(start))
	}
	_, n := m.Usage()
	require.EqualValues(t, 1000, n, "each append takes one event, and no finished log")
	return best
}

func TestAnAppendIsRefusedWhenOthersWereFaster(t *testing.T) {
	ctx := context.Background()
	m := NewMemory(MemoryConfig{TotalBytes: 10_000})
	l := m.Log(Key{Session: "s", Stream: "a"})
	require.NoError(t, l.Append(ctx, 1, [][]byte{make([]byte, 6000)}, false))
	used, _ := m.Usage()
	m.evictable.Add(5000) // what could be freed a moment ago is gone when it is to be taken
	require.ErrorIs(t, l.Append(ctx, 2, [][]byte{make([]byte, 6000)}, false), ErrFull)
	after, _ := m.Usage()
	require.Equal(t, used, after)
	require.NoError(t, l.Append(ctx, 2, [][]byte{make([]byte, 6000)}, true))
}

func TestChurnIsBounded(t *testing.T) {
	const sessions, logs, perSession = 200, 50, 64 << 10
	ctx := context.Background()
	before := heap()
	m := NewMemory(MemoryConfig{SessionBytes: perSession})
	for j := range logs {
		for i := range sessions {
			l := m.Log(Key{Session: strconv.Itoa(i), Stream: strconv.Itoa(j)})
			require.NoError(t, l.Append(ctx, 1, [][]byte{make([]byte, 4096)}, false))
			require.NoError(t, l.Append(ctx, 2, [][]byte{make([]byte, 4096)}, true))
			n, _, err := l.Read(ctx, 0, make([]Event, 2), 0)
			require.NoError(t, err)
			require.Equal(t, 2, n, "what was just sealed is there")
			if j%3 > 0 {
				l.Mark(Mark{Written: 2})
			}
		}
		used, _ := m.Usage()
		require.LessOrEqual(t, used, int64(sessions*perSession))
	}
	verify(t, m)
	held := heap() - before
	t.Logf("80 MB went through %d sessions of %d bytes; the heap holds %d", sessions, perSession, held)
	require.Less(t, held, int64(1.1*sessions*perSession))
	_, n := m.Usage()
	require.Greater(t, n, int64(2*sessions*(logs-8)))
	for i := range sessions {
		require.NoError(t, m.DropSession(ctx, strconv.Itoa(i)))
	}
	used, _ := m.Usage()
	require.Zero(t, used)
	require.Less(t, heap()-before, int64(sessions*perSession/20), "dropped sessions are still in memory")
	verify(t, m)
}

// TestEverybodyAtOnce is for the race detector, and for deadlocks: owners, readers and droppers in sessions that take each
// other's room.
func TestEverybodyAtOnce(t *testing.T) {
	const owners, rounds = 16, 200
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m := NewMemory(MemoryConfig{SessionBytes: 30_000, TotalBytes: 80_000, BacklogBytes: 5000})
	var wg sync.WaitGroup
	for i := range owners {
		wg.Add(2)
		keys := make(chan Key, rounds)
		go func() {
			defer wg.Done()
			defer close(keys)
			rnd := rand.New(rand.NewPCG(uint64(i), 3))
			for j := range rounds {
				k := Key{
					Session: strconv.Itoa(i/4) + "." + strconv.Itoa(j/10), // four owners share each, for ten rounds
					Stream:  strconv.Itoa(i) + "." + strconv.Itoa(j),
					Backlog: j%5 == 0,
				}
				keys <- k
				own(ctx, t, m, k, rnd)
			}
		}()
		go func() {
			defer wg.Done()
			rnd := rand.New(rand.NewPCG(uint64(i), 4))
			for k := range keys {
				follow(ctx, t, m, k, rnd)
			}
		}()
	}
	wg.Wait()
	require.NoError(t, ctx.Err())
	verify(t, m)
	_, n := m.Usage()
	require.NotZero(t, n, "they never came to a limit")
	for i := range owners {
		for j := range rounds {
			_ = m.DropSession(ctx, strconv.Itoa(i/4)+"."+strconv.Itoa(j/10))
		}
	}
	used, _ := m.Usage()
	require.Zero(t, used)
	verify(t, m)
}

// own is the life of a log.
func own(ctx context.Context, t testing.TB, m *Memory, k Key, rnd *rand.Rand) {
	l := m.Log(k)
	last := uint64(1 + rnd.IntN(20))
	acked := uint64(0)
	for seq := uint64(1); seq <= last; seq++ {
		seal := seq == last && !k.Backlog
		first, write := seq, l.Append
		if rnd.IntN(16) == 0 {
			first, write = acked+1, l.Restore
		}
		var events [][]byte
		for i := first; i <= seq; i++ {
			events = append(events, event(k, i, rnd.IntN(1500)))
		}
		switch err := write(ctx, first, events, seal); err {
		case nil:
			acked = max(acked, seq/2)
			l.Mark(Mark{Written: seq - uint64(rnd.IntN(2)), Acked: acked})
			if _, st, err := l.Read(ctx, 0, nil, 0); err == nil && !k.Backlog && !st.Sealed && st.First > acked+1 {
				t.Errorf("%+v: a running log at %+v lost what was not acknowledged after %d", k, st, acked)
			}
		case ErrGone:
			return
		case ErrFull:
			if seal {
				t.Errorf("%+v: a seal was refused", k)
			}
			acked = seq - 1
			l.Mark(Mark{Acked: acked})
			last = seq // give up: the next try seals; otherwise another owner could wait for this one
			seq--
			runtime.Gosched()
			if ctx.Err() != nil {
				return
			}
		default:
			t.Errorf("%+v: append event %d: %v", k, seq, err)
			return
		}
	}
	switch rnd.IntN(8) {
	case 0:
		_ = m.DropSession(ctx, k.Session)
	case 1, 2, 3:
		_ = l.Drop(ctx)
	}
}

// follow reads what there is for a while, and checks that all of it belongs there.
func follow(ctx context.Context, t testing.TB, m *Memory, k Key, rnd *rand.Rand) {
	l := m.Log(Key{Session: k.Session, Stream: k.Stream})
	var buf [3]Event
	after := uint64(0)
	for range 30 {
		n, st, err := l.Read(ctx, after, buf[:1+rnd.IntN(3)], 0)
		if err != nil {
			return
		}
		for i, ev := range buf[:n] {
			want := max(after+1, st.First) + uint64(i)
			if ev.Seq != want || string(ev.Data[:len(head(k, want))]) != head(k, want) {
				t.Errorf("%+v: event %d in the place of %d", k, ev.Seq, want)
				return
			}
		}
		if n > 0 {
			after = buf[n-1].Seq
		}
		runtime.Gosched()
	}
}

func head(k Key, seq uint64) string {
	return k.Session + "/" + k.Stream + "/" + strconv.FormatUint(seq, 10) + "/"
}

func event(k Key, seq uint64, n int) []byte {
	return append([]byte(head(k, seq)), make([]byte, n)...)
}
