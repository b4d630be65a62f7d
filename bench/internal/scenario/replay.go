package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// replays measures clients that resume a stream when all its events are recorded.
func replays() []Scenario {
	var all []Scenario
	for _, n := range []int{1000, 100_000} {
		all = append(all, Scenario{
			ID:    fmt.Sprintf("replay-%d", n),
			Title: fmt.Sprintf("Replay of %s events", thousands(n)),
			Text: fmt.Sprintf("A call has sent %s notifications and its answer, which were recorded. If the server can, it disconnected its client before. Then a GET with the "+
				"stream's first event id as Last-Event-ID reads all of them again. Measured is the time from the request to the first message, and to the answer. "+
				"Server and load have a CPU each. Event stores have room for all events (1 GiB). The heap is what the store holds before the replay. mcp-go sends no "+
				"priming event and cannot close a stream: there the first id is that of the first notification.", thousands(n)),
			Metrics: []results.Metric{
				{Key: "all", Title: "ms", Less: true},
				{Key: "first", Title: "first message, ms", Less: true},
				{Key: "cpu", Title: "CPU µs/event", Less: true},
				{Key: "writes", Title: "writes/event", Less: true, Plain: true},
				{Key: "bytes", Title: "B/event", Less: true, Plain: true},
				{Key: "allocs", Title: "allocs/event", Less: true, Plain: true},
				{Key: "heap", Title: "stored, heap B/event", Less: true},
			},
			Subjects: []string{"bare-sse-store", "gosdk-sse-store", "mcpgo-sse-store", "rejoin-sse", "rejoin-gosdk-sse", "rejoin-mcpgo-sse"},
			Base:     storing,
			Rounds:   3,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				s, _ := subject.Find(name)
				return withServer(ctx, proc.Spec{Subject: name, StoreBytes: manyBytes, CPU: env.Server}, env.Client, func(t target) replayJob {
					return replayJob{target: t, Events: Pick(env, n, n/50), Close: s.Closes, Repeat: Pick(env, max(3, 20_000/n), 2)}
				})
			},
		})
	}
	return append(all, Scenario{
		ID:    "replay-first",
		Title: "The first message of a replay, of 10,000 and of 1,000,000 events",
		Text: "The same, but the client closes the connection after the first message. The table has the median of 15 requests; each begins when the server has noticed " +
			"the end of the one before. One server keeps both streams, with room for all events (4 GiB). The last column is a client that lacks the last 10 of the 1,000,000.",
		Metrics: []results.Metric{
			{Key: "few", Title: "first of 10,000, ms", Less: true},
			{Key: "many", Title: "first of 1,000,000, ms", Less: true},
			{Key: "growth", Title: "many / few", Less: true, Plain: true},
			{Key: "tail", Title: "last 10 of 1,000,000, ms", Less: true},
		},
		Subjects: []string{"bare-sse-store", "rejoin-sse"},
		Base:     storing,
		Rounds:   1,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			return withServer(ctx, proc.Spec{Subject: name, StoreBytes: 4 * manyBytes, CPU: env.Server}, env.Client, func(t target) firstJob {
				return firstJob{target: t, Few: Pick(env, 10_000, 100), Many: Pick(env, 1_000_000, 2_000), Repeat: Pick(env, 15, 2)}
			})
		},
	})
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// stored is a recorded stream that has ended.
type stored struct {
	session string
	id      int
	first   string // the event id after which a replay begins
	skipped int    // notifications up to and with that event
	tail    string // the id of the tenth event before the answer; empty if there are fewer
	events  int
}

// record makes a call that sends events notifications, and returns when its answer has come.
func (t target) record(ctx context.Context, session string, id, events int, closes bool) (stored, error) {
	s := stored{session: session, id: id, events: events}
	c, hangUp, err := t.dial(ctx)
	if err != nil {
		return s, err
	}
	defer hangUp()
	seen := trace{each: func(e load.Event) {
		if p, err := progress(e.Data); err == nil && p == events-9 {
			s.tail = e.ID
		}
	}}
	raw := load.Post(session, load.Call(id, subject.Burst, fmt.Sprintf(`{"n":%d,"close":%v}`, events, closes)))
	for quiet := 0; !seen.answer; quiet++ {
		if quiet == 100 {
			return s, fmt.Errorf("no answer in %d connections after %d events", quiet, seen.events)
		}
		before := seen.events
		if err := start(c, raw); err != nil {
			return s, fmt.Errorf("record: %w", err)
		}
		if err := seen.read(c, id, "done", nil); err != nil {
			return s, fmt.Errorf("record: %w", err)
		}
		raw = load.Get(session, seen.last)
		if seen.events > before {
			quiet = 0
		}
	}
	if seen.events != events {
		return s, fmt.Errorf("%d of %d events came", seen.events, events)
	}
	if s.first = seen.first; !seen.primed {
		s.skipped = 1
	}
	return s, nil
}

// replay reads what follows an event, to the end. first is the time to the first message, all the time to the answer.
func (t target) replay(ctx context.Context, s stored, after string, skipped int) (first, all time.Duration, err error) {
	c, hangUp, err := t.dial(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer hangUp()
	raw := load.Get(s.session, after)
	began := time.Now()
	seen := trace{progress: skipped, each: func(load.Event) {
		if all = time.Since(began); first == 0 {
			first = all
		}
	}}
	if err := start(c, raw); err != nil {
		return 0, 0, fmt.Errorf("replay: %w", err)
	}
	if err := seen.read(c, s.id, "done", nil); err != nil {
		return 0, 0, fmt.Errorf("replay: %w", err)
	}
	if !seen.answer || seen.events != s.events-skipped {
		return 0, 0, fmt.Errorf("replay: %d of %d events, answer %v", seen.events, s.events-skipped, seen.answer)
	}
	return first, all, nil
}

type replayJob struct {
	target

	Events, Repeat int
	Close          bool
}

var _ = proc.Work(func(ctx context.Context, j replayJob) (map[string]float64, error) { return j.run(ctx) })

func (j replayJob) run(ctx context.Context) (map[string]float64, error) {
	ctl, err := proc.Connect(j.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	sessions, err := j.open(ctx, 2)
	if err != nil {
		return nil, err
	}
	warm, err := j.record(ctx, sessions[0], 1, 100, j.Close)
	if err != nil {
		return nil, err
	}
	for range 3 {
		if _, _, err := j.replay(ctx, warm, warm.first, warm.skipped); err != nil {
			return nil, err
		}
	}
	empty, err := ctl.Sample(true)
	if err != nil {
		return nil, err
	}
	s, err := j.record(ctx, sessions[1], 2, j.Events, j.Close)
	if err != nil {
		return nil, err
	}
	full, err := ctl.Sample(true)
	if err != nil {
		return nil, err
	}
	before, err := ctl.Sample(false)
	if err != nil {
		return nil, err
	}
	var first, all []float64
	for range j.Repeat {
		f, a, err := j.replay(ctx, s, s.first, s.skipped)
		if err != nil {
			return nil, err
		}
		first = append(first, f.Seconds()*1e3)
		all = append(all, a.Seconds()*1e3)
	}
	after, err := ctl.Sample(false)
	if err != nil {
		return nil, err
	}
	v := perUnit(before, after, float64(j.Events*j.Repeat))
	return map[string]float64{
		"all": median(all), "first": median(first), "cpu": v.cpu, "writes": v.writes, "bytes": v.sent, "allocs": v.allocs,
		"heap": float64(full.Heap-empty.Heap) / float64(j.Events),
	}, nil
}

// firstJob measures how long a client waits for the first message.
type firstJob struct {
	target

	Few, Many, Repeat int
}

var _ = proc.Work(func(ctx context.Context, j firstJob) (map[string]float64, error) { return j.run(ctx) })

func (j firstJob) run(ctx context.Context) (map[string]float64, error) {
	ctl, err := proc.Connect(j.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	sessions, err := j.open(ctx, 2)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	var times [2][]float64
	var streams [2]stored
	for i, n := range []int{j.Few, j.Many} {
		if streams[i], err = j.record(ctx, sessions[i], i+1, n, true); err != nil {
			return nil, err
		}
	}
	if _, err := ctl.Sample(true); err != nil {
		return nil, err
	}
	for i := range 2 * j.Repeat { // in turn
		t, err := j.firstMessage(ctx, streams[i%2])
		if err != nil {
			return nil, err
		}
		times[i%2] = append(times[i%2], t.Seconds()*1e3)
		if err := settled(ctx, ctl, 0); err != nil {
			return nil, err
		}
	}
	var tails []float64
	for range j.Repeat {
		_, t, err := j.replay(ctx, streams[1], streams[1].tail, j.Many-9)
		if err != nil {
			return nil, err
		}
		tails = append(tails, t.Seconds()*1e3)
	}
	values["few"], values["many"], values["tail"] = median(times[0]), median(times[1]), median(tails)
	values["growth"] = values["many"] / values["few"]
	return values, nil
}

// firstMessage begins a replay of everything, and closes the connection after the first message.
func (t target) firstMessage(ctx context.Context, s stored) (time.Duration, error) {
	c, hangUp, err := t.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer hangUp()
	raw := load.Get(s.session, s.first)
	seen := trace{progress: s.skipped}
	began := time.Now()
	if err := start(c, raw); err != nil {
		return 0, err
	}
	err = seen.read(c, s.id, "done", func() bool { return seen.events > 0 })
	took := time.Since(began)
	if err == nil && seen.events == 0 {
		err = fmt.Errorf("no message came")
	}
	return took, err
}
