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

func TestMemoryDoesWhatTheModelDoes(t *testing.T) {
	for seed := range uint64(48) {
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
	d := &model{m: m, tenants: map[string]*modelTenant{}}
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
			if l.key.Session < "session2" && seed%2 == 1 {
				l.key.Principal = "p"
			}
			l.backlog = l.key.Backlog
			d.logs = append(d.logs, l)
			live = append(live, l)
			handles[l] = m.Log(l.key)
		}
		l := live[rnd.IntN(len(live))]
		what := fmt.Sprintf("seed %d, step %d, %+v", seed, step, l.key)
		switch n := rnd.IntN(20); {
		case n < 12:
			b := randomBatch(rnd, l)
			want := d.put(l, b.first, b.events, b.seal, b.restore)
			given := slices.Clone(b.events)
			do := handles[l].Append
			if b.restore {
				do = handles[l].Restore
			}
			got := do(ctx, b.first, given, b.seal)
			clear(given) // the slice is the caller's again
			if behind, ok := errors.AsType[*BehindError](got); ok {
				got = behindError(*behind)
			}
			require.ErrorIs(t, got, want, "%s: %d events from %d on, %d bytes, seal %v, restore %v", what,
				len(b.events), b.first, len(bytes.Join(b.events, nil)), b.seal, b.restore)
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

// randomBatch makes an Append, or now and then a Restore, that is often right.
func randomBatch(rnd *rand.Rand, l *modelLog) (b batch) {
	b.first, b.restore = l.last+1, rnd.IntN(12) == 0
	b.seal = !l.backlog && rnd.IntN(4) == 0
	if rnd.IntN(10) == 0 {
		b.first = uint64(rnd.IntN(int(l.last) + 4))
	}
	n := 1
	switch {
	case b.restore && rnd.IntN(3) == 0:
		n, b.first = 0, b.first+uint64(rnd.IntN(3))
	case rnd.IntN(3) == 0:
		n = rnd.IntN(5)
	}
	if len(l.events) > 0 && rnd.IntN(4) == 0 { // repeat what the log has
		b.first = l.last - uint64(rnd.IntN(min(4, len(l.events))))
		b.events = slices.Clone(l.events[b.first-l.first:])
		switch rnd.IntN(6) {
		case 0:
			b.events = b.events[:rnd.IntN(len(b.events))]
		case 1:
			b.first++ // under other numbers
		}
		if rnd.IntN(2) == 0 {
			n, b.seal = 0, l.sealed
		}
	}
	for range n {
		data := make([]byte, rnd.IntN(400))
		if rnd.IntN(10) == 0 {
			data = make([]byte, rnd.IntN(5000))
		}
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		b.events = append(b.events, data)
	}
	return b
}

// compare compares everything that can be read from the store.
func (d *model) compare(t *testing.T, handles map[*modelLog]Log, what string) {
	t.Helper()
	used, _ := d.count(nil)
	gotUsed, gotEvicted := d.m.Usage()
	require.Equal(t, used, gotUsed, what)
	require.Equal(t, d.evicted, gotEvicted, what)
	var buf [64]Event
	for _, l := range d.logs {
		n, st, err := handles[l].Read(context.Background(), 0, buf[:], 0)
		if l.gone {
			require.ErrorIs(t, err, ErrGone, what)
			continue
		}
		require.NoError(t, err, what)
		require.Equal(t, State{First: l.first, Last: l.last, Sealed: l.sealed}, st, "%s: %+v", what, l.key)
		require.Equal(t, min(len(l.events), len(buf)), n, "%s: %+v", what, l.key)
		if log, ok := handles[l].(*memoryLog); ok {
			require.Equal(t, l.phase(), log.account.phase, "%s: %+v", what, l.key)
		}
		for i, ev := range buf[:n] {
			if ev.Seq != l.first+uint64(i) || !bytes.Equal(ev.Data, l.events[i]) {
				require.Fail(t, "another event", "%s: %+v: event %d", what, l.key, ev.Seq)
			}
		}
	}
}
