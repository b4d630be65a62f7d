package eventstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// BenchmarkRead is a batch of 64 events out of the middle of a log: it costs the same in a log of a million.
func BenchmarkRead(b *testing.B) {
	for _, n := range []uint64{1000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ctx := context.Background()
			s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1})
			l := s.Log(eventstore.Key{Session: "session", Stream: "stream"})
			batch := [][]byte{make([]byte, 127)}
			for seq := range n {
				if err := l.Append(ctx, seq+1, batch, seq+1 == n); err != nil {
					b.Fatal(err)
				}
			}
			var buf [64]eventstore.Event
			b.ReportAllocs()
			for b.Loop() {
				got, _, err := l.Read(ctx, n/2, buf[:], 0)
				if err != nil || got != len(buf) || buf[0].Seq != n/2+1 {
					b.Fatal(got, buf[0].Seq, err)
				}
			}
		})
	}
}

// BenchmarkDropSession is the end of a session with that many logs, for each of them.
func BenchmarkDropSession(b *testing.B) {
	const logs = 100
	ctx := context.Background()
	s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1})
	batch := [][]byte{make([]byte, 127)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l := s.Log(eventstore.Key{Session: fmt.Sprint(i / logs), Stream: fmt.Sprint(i % logs)})
		if err := l.Append(ctx, 1, batch, true); err != nil {
			b.Fatal(err)
		}
		if i%logs < logs-1 {
			continue
		}
		if err := s.DropSession(ctx, fmt.Sprint(i/logs)); err != nil {
			b.Fatal(err)
		}
	}
}
