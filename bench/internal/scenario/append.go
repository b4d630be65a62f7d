package scenario

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// The stores that append measures. They are not subjects: they are not servers.
const (
	ownStore   = "rejoin-eventstore"
	gosdkStore = "gosdk-eventstore"
)

// appends measures appends to stores that are full.
func appends() []Scenario {
	return []Scenario{{
		ID:    "append",
		Title: "One event for a store at its limit",
		Text: "The stores alone, without a server. Events of 127 bytes are appended to one running stream of a store that is at its limit; the same session also has " +
			"streams of finished calls. In rejoin's eventstore.Memory each of these holds an event that a client may still fetch, and the running stream's acknowledged " +
			"events make room. go-sdk's MemoryEventStore has emptied them before, and the running stream's oldest event makes room. mcp-go's store has no limit.",
		Metrics: []results.Metric{
			{Key: "none", Title: "ns, 0 finished", Less: true},
			{Key: "some", Title: "ns, 1,000 finished", Less: true},
			{Key: "many", Title: "ns, 100,000 finished", Less: true},
			{Key: "allocs", Title: "allocs", Less: true, Plain: true},
			{Key: "bytes", Title: "B allocated", Less: true, Plain: true},
		},
		Subjects: []string{gosdkStore, ownStore},
		Base:     func(string) string { return gosdkStore },
		Rounds:   3,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			var values map[string]float64
			err := proc.Load(ctx, env.Client, appendJob{Store: name, Some: 1000, Many: Pick(env, 100_000, 10_000), Time: Pick(env, 300*time.Millisecond, 5*time.Millisecond)}, &values)
			return values, err
		},
	}}
}

type appendJob struct {
	Store      string
	Some, Many int           // finished streams
	Time       time.Duration // the least duration of each measurement
}

var _ = proc.Work(func(ctx context.Context, j appendJob) (map[string]float64, error) {
	full := map[string]func(context.Context, int) (func() error, error){ownStore: fullOwn, gosdkStore: fullGosdk}[j.Store]
	if full == nil {
		return nil, fmt.Errorf("no store is called %q", j.Store)
	}
	values := map[string]float64{}
	for i, n := range []int{0, j.Some, j.Many} {
		one, err := full(ctx, n)
		if err != nil {
			return nil, err
		}
		c, err := timed(ctx, one, j.Time)
		if err != nil {
			return nil, fmt.Errorf("append beside %d finished streams: %w", n, err)
		}
		values[[]string{"none", "some", "many"}[i]] = c.ns
		if n == 0 {
			values["allocs"], values["bytes"] = c.allocs, c.bytes
		}
	}
	return values, nil
})

type timing struct{ ns, allocs, bytes float64 }

// timed repeats one until least has passed, and returns what one repetition costs.
func timed(ctx context.Context, one func() error, least time.Duration) (timing, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	n, took := 0, time.Duration(0)
	for batch := 32; took < least; batch = min(2*batch, 1<<14) { // reading the clock costs as much as an append
		if ctx.Err() != nil {
			return timing{}, ctx.Err()
		}
		for range batch {
			if err := one(); err != nil {
				return timing{}, err
			}
		}
		n += batch
		took = time.Since(began)
	}
	runtime.ReadMemStats(&after)
	of := float64(n)
	return timing{
		ns: float64(took.Nanoseconds()) / of, allocs: float64(after.Mallocs-before.Mallocs) / of, bytes: float64(after.TotalAlloc-before.TotalAlloc) / of,
	}, nil
}

// liveEvents is how many events of the running stream a store holds.
const liveEvents = 8

func eventData() []byte { return make([]byte, 127) }

// fullOwn returns an append to rejoin's store, which is full and has n finished streams. It fills a store without a limit to learn how many
// bytes that takes, and then one with this limit.
func fullOwn(ctx context.Context, n int) (func() error, error) {
	boundless, _, err := fillOwn(ctx, eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1}, n)
	if err != nil {
		return nil, err
	}
	limit, _ := boundless.Usage()
	store, live, err := fillOwn(ctx, eventstore.MemoryConfig{SessionBytes: limit, TotalBytes: -1}, n)
	if err != nil {
		return nil, err
	}
	if _, evicted := store.Usage(); evicted != 0 {
		return nil, fmt.Errorf("the limit of %d bytes is too low", limit)
	}
	batch, seq := [][]byte{eventData()}, uint64(liveEvents)
	return func() error {
		seq++
		if err := live.Append(ctx, seq, batch, false); err != nil {
			return err
		}
		live.Mark(eventstore.Mark{Acked: seq})
		if seq == 4*liveEvents {
			if _, evicted := store.Usage(); evicted != 3*liveEvents {
				return fmt.Errorf("the store of %d bytes is not at its limit: %d evicted", limit, evicted)
			}
		}
		return nil
	}, nil
}

func fillOwn(ctx context.Context, cfg eventstore.MemoryConfig, n int) (*eventstore.Memory, eventstore.Log, error) {
	s := eventstore.NewMemory(cfg)
	batch := [][]byte{eventData()}
	live := s.Log(eventstore.Key{Session: "session", Stream: "live"})
	for seq := uint64(1); seq <= liveEvents; seq++ {
		if err := live.Append(ctx, seq, batch, false); err != nil {
			return nil, nil, err
		}
		live.Mark(eventstore.Mark{Acked: seq})
	}
	for i := range n {
		l := s.Log(eventstore.Key{Session: "session", Stream: strconv.Itoa(i)})
		if err := l.Append(ctx, 1, batch, true); err != nil {
			return nil, nil, err
		}
		l.Mark(eventstore.Mark{Written: 1})
	}
	return s, live, nil
}

// fullGosdk returns an append to go-sdk's store, which is full and has n finished streams.
func fullGosdk(ctx context.Context, n int) (func() error, error) {
	s := mcp.NewMemoryEventStore(nil)
	data := eventData()
	for i := range n {
		name := strconv.Itoa(i)
		if err := s.Open(ctx, "session", name); err != nil {
			return nil, err
		}
		if err := s.Append(ctx, "session", name, data); err != nil {
			return nil, err
		}
	}
	s.SetMaxBytes(1) // removes their events
	s.SetMaxBytes(liveEvents * len(data))
	if err := s.Open(ctx, "session", "live"); err != nil {
		return nil, err
	}
	one := func() error { return s.Append(ctx, "session", "live", data) }
	for range 2 * liveEvents {
		if err := one(); err != nil {
			return nil, err
		}
	}
	return one, nil
}
