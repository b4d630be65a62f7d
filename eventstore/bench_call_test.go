package eventstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// BenchmarkCallOfAStore is what a server does for a tool call that is answered at once: it makes a log with one sealed event,
// reads and marks it, and drops the log of the call a thousand calls before.
func BenchmarkCallOfAStore(b *testing.B) {
	for _, sessions := range []int{1, 100} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { callOfAStore(b, sessions) })
	}
}

func callOfAStore(b *testing.B, sessions int) {
	const kept = 1000 // of each session
	ctx := context.Background()
	s := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1})
	keys := make([]eventstore.Key, 2*kept*sessions)
	for i := range keys {
		keys[i] = eventstore.Key{
			Session: fmt.Sprintf("%026d", i%sessions),
			Stream:  fmt.Sprintf("%022x", uint64(i+1)*0x9e3779b97f4a7c15),
		}
	}
	logs := make([]eventstore.Log, kept*sessions)
	batch := [][]byte{make([]byte, 127)}
	var buf [16]eventstore.Event
	call := func(i int) {
		l := s.Log(keys[i%len(keys)])
		if err := l.Append(ctx, 1, batch, true); err != nil {
			b.Fatal(err)
		}
		if _, _, err := l.Read(ctx, 0, buf[:], 0); err != nil {
			b.Fatal(err)
		}
		l.Mark(eventstore.Mark{Written: 1})
		old := logs[i%len(logs)]
		logs[i%len(logs)] = l
		if old != nil {
			if err := old.Drop(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	for i := range logs {
		call(i)
	}
	b.ReportAllocs()
	for i := len(logs); b.Loop(); i++ {
		call(i)
	}
	b.ReportMetric(float64(usage(s))/float64(len(logs)), "charged/log")
}
