package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// idleSessions is how many idle sessions one of the two servers has.
const idleSessions = 20_000

// sessions measures sessions that are opened and deleted, in a server without other sessions and in one with many.
func sessions() []Scenario {
	return []Scenario{{
		ID:    "sessions",
		Title: "initialize, initialized, DELETE, with 0 and 20,000 idle sessions",
		Text: "8 connections begin and end sessions, for 0.5 s: in a server without other sessions, then in one with 20,000 idle sessions. This is done three times in " +
			"turn, and the table has the medians of the three. Both servers have one CPU, the load another. The last column is a subject's cost with 20,000 idle sessions over " +
			"its cost without any.",
		Metrics: []results.Metric{
			{Key: "cycles/s", Title: "cycles/s"},
			{Key: "cpu", Title: "CPU µs/cycle", Less: true},
			{Key: "p99", Title: "p99 µs", Less: true},
			{Key: "cycles/s idle", Title: "cycles/s, 20,000 idle"},
			{Key: "cpu idle", Title: "CPU µs/cycle, 20,000 idle", Less: true},
			{Key: "p99 idle", Title: "p99 µs, 20,000 idle", Less: true},
			{Key: "growth", Title: "CPU, 20,000 idle ÷ none", Less: true, Plain: true},
		},
		Subjects: []string{"bare-json", "rejoin-json", "gosdk-json", "rejoin-gosdk-json", "mcpgo-json", "rejoin-mcpgo-json"},
		Rounds:   1, // most of a round is opening the 20,000 sessions
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			spec := proc.Spec{Subject: name, CPU: env.Server}
			alone, err := proc.Start(ctx, spec)
			if err != nil {
				return nil, err
			}
			values, err := withServer(ctx, spec, env.Client, func(t target) sessionsJob {
				return sessionsJob{
					target: t, Alone: targetOf(alone), Conns: 8, Idle: Pick(env, idleSessions, 50), Windows: Pick(env, 3, 2),
					Warm: Pick(env, 200*time.Millisecond, 5*time.Millisecond), Count: Pick(env, 500*time.Millisecond, 20*time.Millisecond),
				}
			})
			return values, errors.Join(err, alone.Stop())
		},
	}}
}

type sessionsJob struct {
	target // the server with the idle sessions

	Alone                target
	Conns, Idle, Windows int
	Warm, Count          time.Duration
}

var _ = proc.Work(func(ctx context.Context, j sessionsJob) (map[string]float64, error) { return j.run(ctx) })

func (j sessionsJob) run(ctx context.Context) (map[string]float64, error) {
	if _, err := j.open(ctx, j.Idle); err != nil {
		return nil, err
	}
	const idle = " idle"
	servers := map[string]*loadedServer{"": {sessionsJob: j}, idle: {sessionsJob: j}}
	servers[""].target = j.Alone
	for _, s := range servers {
		var err error
		if s.ctl, err = proc.Connect(s.Admin); err != nil {
			return nil, err
		}
		defer func() { _ = s.ctl.Close() }()
		if _, _, err := s.cycle(ctx, j.Warm); err != nil {
			return nil, fmt.Errorf("warming up: %w", err)
		}
	}
	all := map[string][]float64{}
	for range j.Windows {
		cpu := map[string]float64{}
		for _, name := range []string{"", idle} {
			c, err := servers[name].measure(ctx)
			if err != nil {
				return nil, fmt.Errorf("beside %d idle sessions: %w", map[string]int{idle: j.Idle}[name], err)
			}
			cpu[name] = c.cpu
			for key, v := range map[string]float64{"cycles/s": c.rate, "cpu": c.cpu, "p99": c.p99} {
				all[key+name] = append(all[key+name], v)
			}
		}
		all["growth"] = append(all["growth"], cpu[idle]/cpu[""])
	}
	values := map[string]float64{}
	for key, windows := range all {
		values[key] = median(windows)
	}
	return values, nil
}

// loadedServer is one of the two servers.
type loadedServer struct {
	sessionsJob

	ctl *proc.Control
}

type cycles struct{ rate, cpu, p99 float64 }

func (s *loadedServer) measure(ctx context.Context) (cycles, error) {
	before, err := s.ctl.SampleBefore()
	if err != nil {
		return cycles{}, err
	}
	took, times, err := s.cycle(ctx, s.Count)
	if err != nil {
		return cycles{}, err
	}
	after, err := s.ctl.Sample(false)
	if err != nil {
		return cycles{}, err
	}
	slices.Sort(times)
	n := float64(len(times))
	return cycles{rate: n / took.Seconds(), cpu: perUnit(before, after, n).cpu, p99: micros(quantile(times, 0.99))}, nil
}

// cycle opens and deletes sessions on all connections until d is over, on each at least one. It returns the time until the last one ended,
// and the time of each.
func (j sessionsJob) cycle(ctx context.Context, d time.Duration) (time.Duration, []time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	times := make([][]time.Duration, j.Conns)
	began := time.Now()
	end := began.Add(d)
	var wg sync.WaitGroup
	for i := range times {
		wg.Go(func() {
			err := func() error {
				c, hangUp, err := j.dial(ctx)
				if err != nil {
					return err
				}
				defer hangUp()
				times[i], err = cycleUntil(c, end)
				return err
			}()
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return time.Since(began), slices.Concat(times...), context.Cause(ctx)
}

func cycleUntil(c *load.Conn, end time.Time) ([]time.Duration, error) {
	times := make([]time.Duration, 0, 10_000)
	for now := time.Now(); ; {
		session, err := load.Open(c)
		if err != nil {
			return nil, err
		}
		if session == "" {
			return nil, errors.New("initialize gave no session")
		}
		if err := c.Accepted(load.Delete(session)); err != nil {
			return nil, fmt.Errorf("DELETE: %w", err)
		}
		then := now
		now = time.Now()
		times = append(times, now.Sub(then))
		if now.After(end) {
			return times, nil
		}
	}
}
