package cluster_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

var noBounds = eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1, BacklogBytes: -1}

func begin(b testing.TB, m *cluster.Memory, session string) {
	b.Helper()
	r := cluster.Record{Session: session, Fence: owner, About: make([]byte, 300), State: make([]byte, 300)}
	if err := m.Put(context.Background(), &r, time.Hour); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAppend compares a handle with a fence with the same log in an eventstore.Memory. Events are acknowledged, so that logs stay
// short.
func BenchmarkAppend(b *testing.B) {
	ctx := context.Background()
	appendTo := func(b *testing.B, l eventstore.Log) {
		b.Helper()
		events := [][]byte{make([]byte, 200)}
		b.ReportAllocs()
		var seq uint64
		for b.Loop() {
			seq++
			if err := l.Append(ctx, seq, events, false); err != nil {
				b.Fatal(err)
			}
			if seq%64 == 0 {
				l.Mark(eventstore.Mark{Acked: seq})
			}
		}
	}
	b.Run("eventstore", func(b *testing.B) {
		appendTo(b, eventstore.NewMemory(eventstore.MemoryConfig{}).Log(eventstore.Key{Session: "s", Stream: "a"}))
	})
	b.Run("fenced", func(b *testing.B) {
		m := cluster.NewMemory(eventstore.MemoryConfig{})
		begin(b, m, "s")
		appendTo(b, m.Log(eventstore.Key{Session: "s", Stream: "a", Fence: owner}))
	})
	b.Run("no fence", func(b *testing.B) {
		appendTo(b, cluster.NewMemory(eventstore.MemoryConfig{}).Log(eventstore.Key{Session: "s", Stream: "a"}))
	})
}

func BenchmarkAdopt(b *testing.B) {
	ctx := context.Background()
	for _, logs := range []int{0, 1, 16, 256} {
		b.Run(strconv.Itoa(logs)+" logs", func(b *testing.B) {
			m := cluster.NewMemory(noBounds)
			begin(b, m, "s")
			for i := range logs {
				l := m.Log(eventstore.Key{Session: "s", Stream: "stream" + strconv.Itoa(i), Fence: owner})
				if err := l.Append(ctx, 1, [][]byte{make([]byte, 200)}, false); err != nil {
					b.Fatal(err)
				}
			}
			fence := owner
			b.ReportAllocs()
			for b.Loop() {
				r, streams, err := m.Adopt(ctx, "s", fence, cluster.Member{Process: cluster.Process{Incarnation: "b1"}}, time.Hour)
				if err != nil || len(streams) != logs {
					b.Fatal(len(streams), err)
				}
				fence = r.Fence
			}
		})
	}
}

// BenchmarkPut measures what a record costs, besides its 600 bytes of About and State.
func BenchmarkPut(b *testing.B) {
	const n = 20000
	var before, after runtime.MemStats
	for b.Loop() {
		m := cluster.NewMemory(noBounds)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range n {
			begin(b, m, "session "+strconv.Itoa(i))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(m)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n-600, "B/record")
}

func TestAFencedAppendAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	m := cluster.NewMemory(eventstore.MemoryConfig{})
	begin(t, m, "s")
	l := m.Log(eventstore.Key{Session: "s", Stream: "a", Fence: owner})
	events := [][]byte{[]byte("event")}
	var seq uint64
	if allocs := testing.AllocsPerRun(1000, func() {
		seq++
		_ = l.Append(ctx, seq, events, false)
		_, _, _ = l.Read(ctx, seq, nil, 0)
		l.Mark(eventstore.Mark{Acked: seq})
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
