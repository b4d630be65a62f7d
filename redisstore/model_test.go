//go:build redis

package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// model is what a log should have. Events are given in chunks, removed, repeated with more behind, and restored, so that operations begin and end
// anywhere in a chunk.
type model struct {
	first  uint64
	events [][]byte // from first on
	sealed bool
	acked  uint64
}

func (m *model) last() uint64 { return m.first - 1 + uint64(len(m.events)) }

// removeTo forgets what its client has.
func (m *model) removeTo(seq uint64) {
	for ; m.first <= seq && len(m.events) > 0; m.first++ {
		m.events = m.events[1:]
	}
}

// append is the contract of eventstore.Log.Append.
func (m *model) append(first uint64, events [][]byte, seal bool) error {
	last, n := m.last(), uint64(len(events))
	switch {
	case n == 0 && seal:
		return eventstore.ErrSequence
	case first > last+1 && m.sealed:
		return eventstore.ErrSealed
	case first > last+1:
		return &eventstore.BehindError{Last: last}
	case n == 0:
		return nil
	}
	both := min(last+1-first, n)
	same := both == 0 || first+both-1 < m.first || bytes.Equal(m.events[first+both-1-m.first], events[both-1])
	switch {
	case both == n && same && seal == (m.sealed && first+n-1 == last):
		return nil
	case m.sealed:
		return eventstore.ErrSealed
	case both == n, !same:
		return eventstore.ErrSequence
	}
	m.removeTo(min(m.acked, last))
	m.events = append(m.events, events[both:]...)
	m.sealed = seal
	return nil
}

// restore is the contract of eventstore.Log.Restore.
func (m *model) restore(first uint64, events [][]byte, seal bool) error {
	last, n := first-1+uint64(len(events)), len(events)
	switch {
	case last == 0 && seal:
		return eventstore.ErrSequence
	case m.sealed && seal && last == m.last() && (n == 0 || last < m.first || bytes.Equal(m.events[len(m.events)-1], events[n-1])):
		return nil
	case m.sealed, last < m.last():
		return eventstore.ErrSequence
	}
	m.first, m.events, m.sealed = first, append([][]byte{}, events...), seal
	return nil
}

func TestAgainstAModel(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	client := connect(t, server.Addr())
	s := open(t, client, redisstore.Config{SessionBytes: -1, BacklogBytes: -1})
	for seed := range uint64(300) {
		play(t, s, seed)
		if t.Failed() {
			return
		}
	}
}

func play(t *testing.T, s *redisstore.Store, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	ctx, session := t.Context(), fmt.Sprint("session ", seed)
	require.NoError(t, s.Put(ctx, &cluster.Record{Session: session, Fence: owner}, time.Minute))
	m := &model{first: 1}
	handle := func() eventstore.Log { return s.Log(eventstore.Key{Session: session, Stream: "a", Fence: owner}) }
	l := handle()
	give := func(first, n uint64) (all [][]byte) {
		for seq := first; seq < first+n; seq++ {
			text := fmt.Sprintf("event %d%*s", seq, seq%40, "")
			if rnd.IntN(60) == 0 {
				text = "another"
			}
			all = append(all, []byte(text))
		}
		return all
	}
	var history []string
	for range 60 {
		last := m.last()
		first := last + 1
		if rnd.IntN(3) == 0 {
			first = uint64(rnd.Int64N(int64(last)+4)) + 1
		}
		n := uint64(rnd.IntN(12))
		if rnd.IntN(12) == 0 {
			n = uint64(120 + rnd.IntN(9)) // 128 at most
		}
		seal := rnd.IntN(25) == 0
		if rnd.IntN(3) == 0 {
			l = handle()
		}
		var got, want error
		switch op := rnd.IntN(10); {
		case op < 6:
			events := give(first, n)
			history = append(history, fmt.Sprintf("append %d, %d events, seal %v", first, n, seal))
			got, want = l.Append(ctx, first, events, seal), m.append(first, events, seal)
		case op < 7:
			events := give(first, n)
			history = append(history, fmt.Sprintf("restore %d, %d events, seal %v", first, n, seal))
			got, want = l.Restore(ctx, first, events, seal), m.restore(first, events, seal)
		case op < 9:
			m.acked = max(m.acked, min(last, uint64(rnd.Int64N(int64(last)+1))))
			history = append(history, fmt.Sprint("acknowledged ", m.acked))
			l.Mark(eventstore.Mark{Acked: m.acked})
		default:
			got = compare(l, m, rnd, t)
			history = append(history, "read")
		}
		behind := &eventstore.BehindError{}
		if errors.As(want, &behind) {
			var is *eventstore.BehindError
			require.ErrorAs(t, got, &is, "seed %d: %q", seed, history)
			require.Equal(t, behind, is, "seed %d: %q", seed, history)
		} else {
			require.ErrorIs(t, got, want, "seed %d: %q", seed, history)
		}
		if err := compare(l, m, rnd, t); err != nil {
			t.Fatalf("seed %d: %q: %v", seed, history, err)
		}
	}
	_, streams, err := s.Adopt(ctx, session, owner, cluster.Member{Process: cluster.Process{Incarnation: "b1"}}, time.Minute)
	require.NoError(t, err)
	for _, st := range streams {
		require.Equal(t, eventstore.State{First: m.first, Last: m.last(), Sealed: m.sealed}, eventstore.State{First: st.First, Last: st.Last, Sealed: st.Sealed})
	}
}

// compare reads a window of the log.
func compare(l eventstore.Log, m *model, rnd *rand.Rand, t *testing.T) error {
	after := uint64(rnd.Int64N(int64(m.last()) + 3))
	buf := make([]eventstore.Event, rnd.IntN(200))
	bound := 0
	if rnd.IntN(2) == 0 {
		bound = rnd.IntN(2000)
	}
	n, st, err := l.Read(t.Context(), after, buf, bound)
	if err != nil {
		return err
	}
	if want := (eventstore.State{First: m.first, Last: m.last(), Sealed: m.sealed}); st != want {
		return fmt.Errorf("the state is %+v, want %+v", st, want)
	}
	var want []eventstore.Event
	size := 0
	for seq := max(after+1, m.first); seq <= m.last() && len(want) < len(buf); seq++ {
		data := m.events[seq-m.first]
		if size += len(data); bound > 0 && size > bound && len(want) > 0 {
			break
		}
		want = append(want, eventstore.Event{Seq: seq, Data: data})
	}
	if n != len(want) {
		return fmt.Errorf("after %d, into %d, at most %d bytes: %d events, want %d", after, len(buf), bound, n, len(want))
	}
	for i := range want {
		if buf[i].Seq != want[i].Seq || !bytes.Equal(buf[i].Data, want[i].Data) {
			return fmt.Errorf("after %d: event %d is %q, want %d, %q", after, buf[i].Seq, buf[i].Data, want[i].Seq, want[i].Data)
		}
	}
	return nil
}
