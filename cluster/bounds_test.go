package cluster

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

func put(t testing.TB, m *Memory, session string, ttl time.Duration) eventstore.Fence {
	t.Helper()
	r := Record{Session: session, Fence: eventstore.Fence{Incarnation: "a1", Epoch: 1}}
	require.NoError(t, m.Put(context.Background(), &r, ttl))
	return r.Fence
}

func TestWhatHasExpiredDoesNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(eventstore.MemoryConfig{})
		f := put(t, m, "stays", 1000*time.Hour)
		for round := range 20 {
			for i := range 1000 {
				name := strconv.Itoa(round*1000 + i)
				put(t, m, name, time.Minute)
				require.NoError(t, m.Log(eventstore.Key{Session: name, Stream: "a", Fence: f}).Append(t.Context(), 1, [][]byte{{1}}, false))
				if i%2 == 0 {
					require.NoError(t, m.End(t.Context(), name, f))
				}
			}
			<-time.After(2 * TombstoneTTL)
		}
		w := m.world.Load()
		require.Less(t, len(w.sessions), 3000, "of 20,001 sessions, all but 1,000 have expired, and nobody has looked for them")
		require.Len(t, w.order, len(w.sessions))
		_, err := m.Find(t.Context(), "stays", Process{})
		require.NoError(t, err)

		for range 3000 { // the same sessions come back
			put(t, m, "one", time.Minute)
		}
		for i := range 3000 {
			_ = m.End(t.Context(), "more"+strconv.Itoa(i%2), f)
		}
		require.Less(t, len(w.sessions), 3100)
		for name := range w.sessions {
			_, _ = m.Find(t.Context(), name, Process{})
		}
		require.Len(t, w.sessions, 4, "looking for what has expired removes it")
		require.LessOrEqual(t, w.peak, 64, "the map was replaced by a smaller one")
		for i, s := range w.order {
			require.Equal(t, i, s.place)
		}
		bytes, _ := m.Usage()
		require.Zero(t, bytes, "the logs went with their records")
	})
}

func TestEvictedLogsDoNotPileUp(t *testing.T) {
	m := NewMemory(eventstore.MemoryConfig{SessionBytes: 64 << 10})
	f := put(t, m, "s", time.Hour)
	running := m.Log(eventstore.Key{Session: "s", Stream: "running", Fence: f})
	require.NoError(t, running.Append(t.Context(), 1, nil, false))
	for i := range 20000 {
		l := m.Log(eventstore.Key{Session: "s", Stream: strconv.Itoa(i), Fence: f})
		require.NoError(t, l.Append(t.Context(), 1, [][]byte{make([]byte, 500)}, true))
	}
	s := m.world.Load().sessions["s"]
	require.Less(t, len(s.streams), 600, "64 KiB hold about 100 of these")
	_, streams, err := m.Adopt(t.Context(), "s", f, Member{Process: Process{Incarnation: "b1"}}, time.Hour)
	require.NoError(t, err)
	require.Equal(t, Stream{Name: "running", First: 1}, streams[0])
	require.Equal(t, Stream{Name: "19999", First: 1, Last: 1, Sealed: true}, streams[len(streams)-1])
}

func TestProcessesThatAreGoneDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(eventstore.MemoryConfig{})
		for i := range 1000 {
			_, err := m.Join(t.Context(), Member{Process: Process{Cluster: strconv.Itoa(i / 10), Self: strconv.Itoa(i)}, Generation: 1}, time.Second)
			require.NoError(t, err)
			<-time.After(time.Second)
		}
		require.LessOrEqual(t, len(m.world.Load().members.of), 2)
	})
}
