package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// model is the store as its documentation tells it: one slice, and a search for everything. It takes the charges from the
// store and nothing else.
type model struct {
	m       *Memory
	logs    []*modelLog
	clock   int
	evicted int64
}

type modelLog struct {
	key             Key
	first, last     uint64
	written, acked  uint64
	events          [][]byte
	sealed          bool
	backlog         bool
	kept, gone      bool
	placed, ackedAt int // when it came to be what it is
}

func (l *modelLog) place() place {
	switch {
	case !l.kept:
		return nowhere
	case l.sealed && l.written >= l.last:
		return done
	case l.sealed:
		return owed
	case l.backlog && len(l.events) > 0:
		return backlog
	}
	return running
}

func (l *modelLog) hasAcked() bool { return l.kept && len(l.events) > 0 && l.first <= l.acked }

// change does f and notes when that made the log something else.
func (d *model) change(l *modelLog, f func()) {
	place, acked := l.place(), l.hasAcked()
	f()
	d.clock++
	if l.place() != place {
		l.placed = d.clock
	}
	if l.hasAcked() && !acked {
		l.ackedAt = d.clock
	}
}

func (l *modelLog) overhead() int64 { return logCharge + heapSize(len(l.key.Stream)) }

func (l *modelLog) charge() int64 {
	if !l.kept {
		return 0
	}
	return l.overhead() + charges(l.events)
}

func charges(events [][]byte) (sum int64) {
	for _, data := range events {
		sum += eventCharge(data)
	}
	return sum
}

func (l *modelLog) spare() int64 {
	switch l.place() {
	case done, owed:
		return l.charge()
	case backlog:
		return charges(l.events)
	case running:
		if l.hasAcked() {
			return charges(l.events[:l.acked-l.first+1])
		}
	}
	return 0
}

func sessionOverhead(name string) int64 { return sessionCharge + heapSize(len(name)) }

// count sums up one session, or all of them.
func (d *model) count(session *string) (used, spare int64) {
	seen := map[string]bool{}
	for _, l := range d.logs {
		if session != nil && l.key.Session != *session || !l.kept {
			continue
		}
		if !seen[l.key.Session] {
			seen[l.key.Session] = true
			used += sessionOverhead(l.key.Session)
		}
		used += l.charge()
		spare += l.spare()
	}
	return used, spare
}

// victim is the first rule that finds somebody.
func (d *model) victim(session *string) (*modelLog, way) {
	rules := []struct {
		how  way
		fits func(*modelLog) bool
		age  func(*modelLog) int
	}{
		{loseAcked, (*modelLog).hasAcked, func(l *modelLog) int { return l.ackedAt }},
		{loseDone, func(l *modelLog) bool { return l.place() == done }, func(l *modelLog) int { return l.placed }},
		{loseBacklog, func(l *modelLog) bool { return l.place() == backlog }, func(l *modelLog) int { return l.placed }},
		{loseOwed, func(l *modelLog) bool { return l.place() == owed }, func(l *modelLog) int { return l.placed }},
	}
	for _, rule := range rules {
		var oldest *modelLog
		for _, l := range d.logs {
			if (session == nil || l.key.Session == *session) && rule.fits(l) && (oldest == nil || rule.age(l) < rule.age(oldest)) {
				oldest = l
			}
		}
		if oldest != nil {
			return oldest, rule.how
		}
	}
	return nil, noWay
}

func (d *model) evict(l *modelLog, how way) {
	d.change(l, func() {
		n := 1
		if how == loseDone || how == loseOwed {
			n = len(l.events)
		}
		d.evicted += int64(n)
		l.events = l.events[n:]
		l.first += uint64(n)
		if l.sealed && len(l.events) == 0 {
			l.kept = false
		}
	})
	if how == loseBacklog {
		l.placed = d.clock // its turn is over
	}
}

// behindError is a BehindError that can be compared.
type behindError BehindError

func (behindError) Error() string { return "behind" }

func (d *model) append(l *modelLog, seq uint64, data []byte, seal bool) error {
	switch {
	case l.gone:
		return ErrGone
	case l.last == 0 && seq != 1:
		return behindError{}
	case l.last > 0 && seq == l.last && seal == l.sealed &&
		(len(l.events) == 0 || bytes.Equal(data, l.events[len(l.events)-1])):
		return nil
	case l.sealed:
		return ErrSealed
	case seq < l.last+1:
		return ErrSequence
	case seq > l.last+1:
		return behindError{Last: l.last}
	}
	e := eventCharge(data)
	logCost := e
	if !l.kept {
		logCost += l.overhead()
	}
	// overhead of the session that is not charged yet
	extra := func() int64 {
		if used, _ := d.count(&l.key.Session); used == 0 {
			return sessionOverhead(l.key.Session)
		}
		return 0
	}
	sessionUsed, sessionSpare := d.count(&l.key.Session)
	used, spare := d.count(nil)
	if !seal && (l.backlog && e > d.m.perBacklog ||
		sessionUsed-sessionSpare+logCost+extra() > d.m.perSession ||
		used-spare+logCost+extra() > d.m.total) {
		return ErrFull
	}
	if l.backlog && !seal {
		for charges(l.events)+e > d.m.perBacklog {
			turn := l.placed
			d.evict(l, loseBacklog)
			if l.place() == backlog {
				l.placed = turn // its own limit is no turn
			}
		}
	}
	for _, scope := range []*string{&l.key.Session, nil} {
		limit := d.m.perSession
		if scope == nil {
			limit = d.m.total
		}
		for {
			used, _ := d.count(scope)
			if used+logCost+extra() <= limit {
				break
			}
			v, how := d.victim(scope)
			if v == nil {
				break // only a seal gets here
			}
			d.evict(v, how)
		}
	}
	d.change(l, func() {
		l.events = append(slices.Clip(l.events), data)
		l.last++
		l.kept = true
		l.sealed = seal
	})
	return nil
}

func (d *model) mark(l *modelLog, mark Mark) {
	if !l.kept {
		return
	}
	d.change(l, func() {
		l.acked = max(l.acked, min(mark.Acked, l.last))
		l.written = max(l.written, min(mark.Written, l.last), l.acked)
	})
}

func (d *model) drop(l *modelLog) {
	l.kept, l.gone, l.events = false, true, nil
}

func TestMemoryDoesWhatTheModelDoes(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playModel(t, seed, 800) })
	}
}

func playModel(t *testing.T, seed uint64, steps int) {
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := NewMemory(MemoryConfig{
		SessionBytes: 4000 + rnd.Int64N(4000),
		TotalBytes:   10_000 + rnd.Int64N(10_000),
		BacklogBytes: 500 + rnd.Int64N(1500),
	})
	d := &model{m: m}
	handles := map[*modelLog]Log{}
	var live []*modelLog
	names := 0
	for step := range steps {
		if len(live) == 0 || rnd.IntN(8) == 0 {
			names++
			l := &modelLog{first: 1, key: Key{
				Session: fmt.Sprint("session", rnd.IntN(4)),
				Stream:  fmt.Sprint("stream", names),
				Backlog: rnd.IntN(5) == 0,
			}}
			l.backlog = l.key.Backlog
			d.logs = append(d.logs, l)
			live = append(live, l)
			handles[l] = m.Log(l.key)
		}
		l := live[rnd.IntN(len(live))]
		what := fmt.Sprintf("seed %d, step %d, %+v", seed, step, l.key)
		switch n := rnd.IntN(20); {
		case n < 12:
			seq := l.last + 1
			if rnd.IntN(10) == 0 {
				seq = uint64(rnd.IntN(int(l.last) + 3))
			}
			data := make([]byte, rnd.IntN(400))
			if rnd.IntN(10) == 0 {
				data = make([]byte, rnd.IntN(5000))
			}
			for i := range data {
				data[i] = byte(rnd.Uint32())
			}
			if len(l.events) > 0 && rnd.IntN(4) == 0 {
				data = bytes.Clone(l.events[len(l.events)-1])
			}
			seal := !l.backlog && rnd.IntN(4) == 0
			want := d.append(l, seq, data, seal)
			got := handles[l].Append(ctx, seq, data, seal)
			if behind, ok := errors.AsType[*BehindError](got); ok {
				got = behindError(*behind)
			}
			require.ErrorIs(t, got, want, "%s: append event %d of %d bytes, seal %v", what, seq, len(data), seal)
		case n < 17:
			mark := Mark{Written: uint64(rnd.IntN(int(l.last) + 2))}
			if rnd.IntN(2) == 0 {
				mark.Acked = uint64(rnd.IntN(int(l.last) + 2))
			}
			d.mark(l, mark)
			handles[l].Mark(mark)
		case n < 19:
			d.drop(l)
			require.NoError(t, handles[l].Drop(ctx))
			live = slices.DeleteFunc(live, func(x *modelLog) bool { return x == l && rnd.IntN(2) == 0 })
		case rnd.IntN(10) == 0:
			for _, x := range d.logs {
				if x.key.Session == l.key.Session {
					d.drop(x)
				}
			}
			require.NoError(t, m.DropSession(ctx, l.key.Session))
		}
		d.compare(t, handles, what)
		if step%50 == 0 {
			verify(t, m)
		}
	}
	verify(t, m)
	require.NotZero(t, d.evicted, "seed %d never came to a limit", seed)
	require.NoError(t, m.Close())
	used, _ := m.Usage()
	require.Zero(t, used, "seed %d: a closed store holds something", seed)
	require.Zero(t, m.sessions.size())
}

// compare looks at everything that can be seen.
func (d *model) compare(t *testing.T, handles map[*modelLog]Log, what string) {
	t.Helper()
	used, _ := d.count(nil)
	gotUsed, gotEvicted := d.m.Usage()
	require.Equal(t, used, gotUsed, what)
	require.Equal(t, d.evicted, gotEvicted, what)
	var buf [64]Event
	for _, l := range d.logs {
		n, st, err := handles[l].Read(context.Background(), 0, buf[:])
		if l.gone {
			require.ErrorIs(t, err, ErrGone, what)
			continue
		}
		require.NoError(t, err, what)
		require.Equal(t, State{First: l.first, Last: l.last, Sealed: l.sealed}, st, "%s: %+v", what, l.key)
		require.Equal(t, min(len(l.events), len(buf)), n, "%s: %+v", what, l.key)
		for i, ev := range buf[:n] {
			if ev.Seq != l.first+uint64(i) || !bytes.Equal(ev.Data, l.events[i]) {
				require.Fail(t, "another event", "%s: %+v: event %d", what, l.key, ev.Seq)
			}
		}
	}
}
