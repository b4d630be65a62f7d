package eventstore_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// BenchmarkStream is what the store adds to one tool call that is answered as a stream.
func BenchmarkStream(b *testing.B) {
	ctx := context.Background()
	s := eventstore.NewMemory(eventstore.MemoryConfig{})
	names := make([]string, 1024)
	for i := range names {
		names[i] = fmt.Sprintf("%022d", i)
	}
	batch := [][]byte{make([]byte, 127)}
	var buf [16]eventstore.Event
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l := s.Log(eventstore.Key{Session: "session", Stream: names[i%len(names)]})
		if err := l.Append(ctx, 1, batch, true); err != nil {
			b.Fatal(err)
		}
		if _, _, err := l.Read(ctx, 0, buf[:], 0); err != nil {
			b.Fatal(err)
		}
		l.Mark(eventstore.Mark{Written: 1})
		if err := l.Drop(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend is one event of a running log, below every limit.
func BenchmarkAppend(b *testing.B) {
	ctx := context.Background()
	s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1})
	batch := [][]byte{make([]byte, 127)}
	var l eventstore.Log
	seq := uint64(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%10_000 == 0 {
			if l != nil {
				_ = l.Drop(ctx)
			}
			l, seq = s.Log(eventstore.Key{Session: "session", Stream: strconv.Itoa(i)}), 0
		}
		seq++
		if err := l.Append(ctx, seq, batch, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendAtLimit is one event that needs room, beside a number of finished streams. live: acknowledged events of the
// running log are evicted. finish: a stream begins and ends, and the oldest finished stream is evicted. total: the same, but each
// finished stream belongs to another session, and the limit is TotalBytes.
func BenchmarkAppendAtLimit(b *testing.B) {
	for _, kind := range []string{"live", "finish", "total"} {
		for _, n := range []int{0, 1000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) { appendAtLimit(b, kind, n) })
		}
	}
}

func appendAtLimit(b *testing.B, kind string, n int) {
	ctx := context.Background()
	batch := [][]byte{make([]byte, 127)}
	session := func(i int) string {
		if kind == "total" {
			return strconv.Itoa(i)
		}
		return "session"
	}
	fill := func(cfg eventstore.MemoryConfig) (*eventstore.Memory, eventstore.Log) {
		s := eventstore.NewMemory(cfg)
		live := s.Log(eventstore.Key{Session: "session", Stream: "live"})
		for seq := range uint64(8) {
			_ = live.Append(ctx, seq+1, batch, false)
			if kind == "live" {
				live.Mark(eventstore.Mark{Acked: seq + 1})
			}
		}
		for i := range n + 2 {
			finish(ctx, b, s, session(i), fmt.Sprintf("%06d", i), batch)
		}
		return s, live
	}
	s, _ := fill(eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1})
	cfg := eventstore.MemoryConfig{SessionBytes: usage(s), TotalBytes: -1}
	if kind == "total" {
		cfg = eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: usage(s)}
	}
	s, live := fill(cfg)
	if evicted(s) != 0 {
		b.Fatal("the limit is too low")
	}
	names := make([]string, b.N)
	for i := range names {
		names[i] = fmt.Sprintf("%06d", n+2+i)
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if kind != "live" {
			finish(ctx, b, s, session(n+2+i), names[i], batch)
			continue
		}
		seq := uint64(9 + i)
		if err := live.Append(ctx, seq, batch, false); err != nil {
			b.Fatal(err)
		}
		live.Mark(eventstore.Mark{Acked: seq})
	}
	b.StopTimer()
	if got := evicted(s); got < int64(b.N-10) || got > int64(b.N+10) {
		b.Fatalf("%d appends at the limit evicted %d events", b.N, got)
	}
	b.ReportMetric(float64(usage(s)), "charged")
	runtime.KeepAlive(s)
}

// finish is a stream with one event.
func finish(ctx context.Context, b *testing.B, s *eventstore.Memory, session, stream string, batch [][]byte) {
	l := s.Log(eventstore.Key{Session: session, Stream: stream})
	if err := l.Append(ctx, 1, batch, true); err != nil {
		b.Fatal(err)
	}
	l.Mark(eventstore.Mark{Written: 1})
}
