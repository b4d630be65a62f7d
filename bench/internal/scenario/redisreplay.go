package scenario

import (
	"context"
	"fmt"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// redisReplays measures a client that reads a long stream again: at the owner, which has it in memory, and at the next owner, which has it in the
// engine only.
func redisReplays() Scenario {
	return Scenario{
		ID:    "redis-replay",
		Title: "Replay of 100,000 events over Redis",
		Text: "As the replay without a cluster. A server in a cluster serves it from its memory (`Cluster.TailBytes`). Then it is " +
			"killed, another server adopts the session, and the same client reads the same stream there, from the engine (the last " +
			"columns). Each is done three times, and the table has the median. The servers have one CPU, the load another.",
		Metrics: []results.Metric{
			{Key: "all", Title: "owner, ms", Less: true},
			{Key: "cpu", Title: "owner, CPU µs/event", Less: true},
			{Key: "next", Title: "next owner, ms", Less: true},
			{Key: "next first", Title: "first message, ms", Less: true},
			{Key: "next cpu", Title: "CPU µs/event", Less: true},
			{Key: "trips", Title: "engine calls/event", Less: true, Plain: true},
			{Key: "redis cpu", Title: "Redis CPU µs/event", Less: true, Plain: true},
		},
		Subjects: []string{"rejoin-sse", "rejoin-redis-sse"},
		Base:     alone,
		Rounds:   3,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			spec := proc.Spec{Subject: name, StoreBytes: manyBytes, CPU: env.Server, Lease: Pick(env, shortLease, 0)}
			job := longJob{Events: Pick(env, 100_000, 2_000)}
			if s, _ := subject.Find(name); !s.Redis {
				return withServer(ctx, spec, env.Client, func(t target) longValuesJob {
					job.target = t
					return longValuesJob{job}
				})
			}
			return withPair(ctx, spec, func(ctx context.Context, p pair) (map[string]float64, error) {
				var was long
				job.target = p.Owner
				if err := proc.Load(ctx, env.Client, job, &was); err != nil {
					return nil, err
				}
				if err := p.kill(); err != nil {
					return nil, err
				}
				was.target = p.Next
				var values map[string]float64
				err := proc.Load(ctx, env.Client, was, &values)
				return values, err
			})
		},
	}
}

// longJob records a long stream and reads it again.
type longJob struct {
	target

	Events int
}

// long is a recorded stream, and what was measured at its owner.
type long struct {
	target

	Session, Cursor string
	Events          int
	Values          map[string]float64
}

// longValuesJob is the same as longJob, for a server whose stream goes nowhere else.
type longValuesJob struct{ longJob }

var (
	_ = proc.Work(func(ctx context.Context, j longJob) (long, error) { return j.run(ctx) })
	_ = proc.Work(func(ctx context.Context, j longValuesJob) (map[string]float64, error) {
		l, err := j.run(ctx)
		return l.Values, err
	})
	_ = proc.Work(func(ctx context.Context, l long) (map[string]float64, error) { return l.Values, l.again(ctx) })
)

const replayed = 3 // times

func (j longJob) run(ctx context.Context) (l long, err error) {
	sessions, err := j.open(ctx, 1)
	if err != nil {
		return l, err
	}
	s, err := j.record(ctx, sessions[0], 1, j.Events, true)
	if err != nil {
		return l, err
	}
	l = long{target: j.target, Session: s.session, Cursor: s.first, Events: s.events, Values: map[string]float64{}}
	all, _, cpu, err := l.measure(ctx)
	l.Values["all"], l.Values["cpu"] = all, cpu
	return l, err
}

// measure reads the stream again. It returns the times until all and until the first message came, in ms, and the CPU time of an event.
func (l long) measure(ctx context.Context) (all, first, cpu float64, err error) {
	ctl, err := proc.Connect(l.Admin)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { _ = ctl.Close() }()
	before, err := ctl.SampleBefore()
	if err != nil {
		return 0, 0, 0, err
	}
	var alls, firsts []float64
	for range replayed {
		f, a, err := l.replay(ctx, stored{session: l.Session, id: 1, events: l.Events, first: l.Cursor}, l.Cursor, 0)
		if err != nil {
			return 0, 0, 0, err
		}
		alls, firsts = append(alls, a.Seconds()*1e3), append(firsts, f.Seconds()*1e3)
	}
	after, err := ctl.Sample(false)
	return median(alls), median(firsts), perUnit(before, after, float64(l.Events*replayed)).cpu, err
}

// again measures it at the next owner, when that has adopted the session.
func (l long) again(ctx context.Context) error {
	adopted := func(c *load.Conn, _ int) error {
		for {
			if err := start(c, load.Get(l.Session, l.Cursor)); err != nil {
				return err
			}
			var seen trace
			if err := seen.read(c, 1, "done", nil); seen.events == l.Events || err != nil {
				return err
			}
			if ctx.Err() != nil {
				return fmt.Errorf("the session was not adopted: %w", ctx.Err())
			}
		}
	}
	if err := l.each(ctx, 1, 1, adopted); err != nil {
		return err
	}
	cost, err := l.costs(ctx)
	if err != nil {
		return err
	}
	l.Values["next"], l.Values["next first"], l.Values["next cpu"], err = l.measure(ctx)
	if err != nil {
		return err
	}
	return cost.add(ctx, l.Values, float64(l.Events*replayed))
}
