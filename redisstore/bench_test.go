//go:build redis

package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// measured is a store on a server of its own, without bounds.
type measured struct {
	*redisstore.Store
	server *redistest.Server
}

func newMeasured(b *testing.B) *measured {
	b.Helper()
	server := redistest.New(b, redistest.Options{})
	return &measured{open(b, connect(b, server.Addr()), redisstore.Config{SessionBytes: -1, BacklogBytes: -1}), server}
}

// engine reports what an operation costs the engine: its CPU time, beside the time that the caller waits. Each operation may have units, such as
// events.
func (m *measured) engine(b *testing.B, units int, run func()) {
	b.Helper()
	before := m.cpu(b)
	run()
	used := m.cpu(b) - before
	n := float64(b.N * units)
	b.ReportMetric(float64(used.Nanoseconds())/n, "engine-ns/unit")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/unit")
}

func (m *measured) cpu(b *testing.B) (used time.Duration) {
	b.Helper()
	text, err := m.server.Do(b.Context(), "INFO", "cpu")
	require.NoError(b, err)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(b, err)
			used += time.Duration(seconds * float64(time.Second))
		}
	}
	return used
}

// session makes a record as rejoin does.
func (m *measured) session(b *testing.B, name string) {
	b.Helper()
	r := cluster.Record{Session: name, Fence: owner, Self: "http://10.1.2.3:8080", About: bytes.Repeat([]byte("a"), 400)}
	require.NoError(b, m.Put(context.Background(), &r, time.Hour))
}

func (m *measured) log(session, stream string) eventstore.Log {
	return m.Log(eventstore.Key{Session: session, Stream: stream, Fence: owner, About: `{"n":1,"method":"tools/call","ids":[1]}`})
}

func progressEvents(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = fmt.Appendf(nil,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d,"total":10000,"message":"step"}}`, i)
	}
	return all
}

// BenchmarkAppend appends to one log, which only grows, and to as many logs as there are goroutines.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 16, 128} {
		batch := progressEvents(n)
		b.Run(fmt.Sprintf("%d events", n), func(b *testing.B) {
			m := newMeasured(b)
			m.session(b, "s")
			l, last := m.log("s", "a"), uint64(0)
			m.engine(b, n, func() {
				for b.Loop() {
					require.NoError(b, l.Append(context.Background(), last+1, batch, false))
					last += uint64(n)
				}
			})
		})
		b.Run(fmt.Sprintf("%d events, 16 logs", n), func(b *testing.B) {
			m := newMeasured(b)
			var logs atomic.Int64
			b.SetParallelism(8) // goroutines for each of two cores
			m.engine(b, n, func() {
				b.RunParallel(func(pb *testing.PB) {
					name := strconv.FormatInt(logs.Add(1), 10)
					m.session(b, name)
					l, last := m.log(name, "a"), uint64(0)
					for pb.Next() {
						if err := l.Append(context.Background(), last+1, batch, false); err != nil {
							b.Error(err)
						}
						last += uint64(n)
					}
				})
			})
		})
	}
}

// BenchmarkCall is a stored call: one log with one event, which seals it. The session has 256 of them.
func BenchmarkCall(b *testing.B) {
	m, answer := newMeasured(b), progressEvents(1)
	m.session(b, "s")
	n := 0
	m.engine(b, 1, func() {
		for b.Loop() {
			require.NoError(b, m.log("s", strconv.Itoa(n)).Append(context.Background(), 1, answer, true))
			if n++; n > 256 {
				require.NoError(b, m.log("s", strconv.Itoa(n-256)).Drop(context.Background()))
			}
		}
	})
}

// BenchmarkRead reads a log of 100,000 events, in windows.
func BenchmarkRead(b *testing.B) {
	const all = 100_000
	for _, batch := range []int{1, 128} {
		m := newMeasured(b)
		m.session(b, "s")
		l := m.log("s", "a")
		for last := 0; last < all; last += batch {
			require.NoError(b, l.Append(context.Background(), uint64(last+1), progressEvents(batch), false))
		}
		for _, window := range []int{32, 128, 512} {
			b.Run(fmt.Sprintf("%d at once, appended %d at once", window, batch), func(b *testing.B) {
				buf := make([]eventstore.Event, window)
				m.engine(b, all, func() {
					for b.Loop() {
						for after := uint64(0); after < all; {
							n, _, err := l.Read(context.Background(), after, buf, 1<<20)
							require.NoError(b, err)
							require.Positive(b, n)
							after += uint64(n)
						}
					}
				})
			})
		}
	}
}

// BenchmarkAdopt adopts one session again and again.
func BenchmarkAdopt(b *testing.B) {
	for _, logs := range []int{0, 1, 16, 256} {
		b.Run(fmt.Sprintf("%d logs", logs), func(b *testing.B) {
			m := newMeasured(b)
			m.session(b, "s")
			for i := range logs {
				require.NoError(b, m.log("s", strconv.Itoa(i)).Append(context.Background(), 1, progressEvents(1), true))
			}
			from := owner
			m.engine(b, 1, func() {
				for b.Loop() {
					to := cluster.Member{Process: cluster.Process{Cluster: "c", Self: "http://10.1.2.4:8080", Incarnation: "b2"}}
					r, streams, err := m.Adopt(context.Background(), "s", from, to, time.Hour)
					require.NoError(b, err)
					require.Len(b, streams, logs)
					from = r.Fence
				}
			})
		})
	}
}

func BenchmarkRecords(b *testing.B) {
	ctx := context.Background()
	b.Run("Put", func(b *testing.B) {
		m, n := newMeasured(b), 0
		m.engine(b, 1, func() {
			for b.Loop() {
				n++
				m.session(b, strconv.Itoa(n))
			}
		})
	})
	b.Run("Find", func(b *testing.B) {
		m := newMeasured(b)
		m.session(b, "s")
		by := cluster.Process{Cluster: "c", Self: "http://10.1.2.4:8080", Incarnation: "b2"}
		m.engine(b, 1, func() {
			for b.Loop() {
				_, err := m.Find(ctx, "s", by)
				require.NoError(b, err)
			}
		})
	})
	b.Run("Touch, 1000 records", func(b *testing.B) {
		m := newMeasured(b)
		held := make([]cluster.Held, 1000)
		for i := range held {
			held[i] = cluster.Held{Session: strconv.Itoa(i), Fence: owner}
			m.session(b, held[i].Session)
		}
		m.engine(b, len(held), func() {
			for b.Loop() {
				missing, err := m.Touch(ctx, held, time.Hour)
				require.NoError(b, err)
				require.Empty(b, missing)
			}
		})
	})
}
