package eventstore

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// heap returns the bytes of live objects.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // weak pointers, and what they referred to, go in the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestChargeIsWhatTheHeapHolds(t *testing.T) {
	ctx := context.Background()
	for _, shape := range []struct {
		sessions, logs, events, size, unused int
		acked                                bool
	}{
		{sessions: 1, logs: 20_000, events: 1, size: 127},
		{sessions: 1, logs: 29_000, events: 1, size: 127}, // the map is at another stage of its growth
		{sessions: 1, logs: 20_000, events: 1, size: 127, acked: true},
		{sessions: 20, logs: 1000, events: 1, size: 127}, // what a server keeps of its sessions, and their maps have just grown
		{sessions: 1, logs: 10_000, events: 1, size: 0},
		{sessions: 1, logs: 10_000, events: 3, size: 127},
		{sessions: 1, logs: 10_000, events: 2, size: 300},
		{sessions: 1, logs: 2_000, events: 1, size: 4096},
		{sessions: 1, logs: 2_000, events: 1, size: 1000, unused: 3000}, // the capacity is what is kept alive
		{sessions: 1, logs: 300, events: 1, size: 33_000},               // in whole pages
		{sessions: 1, logs: 30, events: 1, size: 300_001},
		{sessions: 1, logs: 1000, events: 50, size: 127},
		{sessions: 1, logs: 1, events: 200_000, size: 16},
		{sessions: 1, logs: 1, events: 250_000, size: 40},
		{sessions: 5_000, logs: 1, events: 1, size: 127},
		{sessions: 7_000, logs: 1, events: 1, size: 127},
		{sessions: 3_000, logs: 4, events: 1, size: 127},
		{sessions: 1_000, logs: 20, events: 2, size: 500},
	} {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			before := heap()
			m := NewMemory(MemoryConfig{SessionBytes: -1, TotalBytes: -1})
			for i := range shape.sessions {
				session := fmt.Sprintf("%026d", i)
				for j := range shape.logs {
					l := m.Log(Key{Session: session, Stream: fmt.Sprintf("%022d", j)})
					for seq := range shape.events {
						require.NoError(t, l.Append(ctx, uint64(seq+1), [][]byte{make([]byte, shape.size, shape.size+shape.unused)}, seq+1 == shape.events))
					}
					if shape.acked {
						l.Mark(Mark{Acked: 1})
					}
				}
			}
			held := heap() - before
			charged, _ := m.Usage()
			t.Logf("heap %d, charged %d, ratio %.2f; a log: heap %d", held, charged, float64(charged)/float64(held),
				held/int64(shape.sessions*shape.logs))
			require.InEpsilon(t, held, charged, 0.15, "the limit is about bytes of heap")
		})
	}
}
