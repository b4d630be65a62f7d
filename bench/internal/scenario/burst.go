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

// manyBytes is the size of a store in which nothing is evicted. The default limits of the libraries are too low for these scenarios.
const manyBytes = 1 << 30

var burstMetrics = []results.Metric{
	{Key: "events/s", Title: "events/s"},
	{Key: "cpu", Title: "CPU µs/event", Less: true},
	{Key: "bytes", Title: "B/event", Less: true, Plain: true},
	{Key: "writes", Title: "writes/event", Less: true},
	{Key: "allocs", Title: "allocs/event", Less: true},
	{Key: "lost", Title: "lost", Less: true, Plain: true},
}

// bursts measures calls that send many notifications as fast as they can.
func bursts() []Scenario {
	var all []Scenario
	for _, streams := range []int{1, 8} {
		all = append(all, Scenario{
			ID:    fmt.Sprintf("burst-%d", streams),
			Title: fmt.Sprintf("10,000 progress notifications, %s", plural(streams, "stream")),
			Text: fmt.Sprintf("A tool sends 10,000 progress notifications, one after the other, as fast as it can; %s at once, each in its own session over its own connection, "+
				"which reads them as fast as they come. Server and load have a CPU each. Event stores have room for all events (1 GiB). "+
				"`lost` counts notifications that were sent and that no client received.", plural(streams, "call")),
			Metrics:  burstMetrics,
			Subjects: []string{"bare-sse-store", "gosdk-sse", "gosdk-sse-store", "mcpgo-sse", "mcpgo-sse-store", "rejoin-sse", "rejoin-gosdk-sse", "rejoin-mcpgo-sse"},
			Base:     storing,
			Rounds:   3,
			Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
				return withServer(ctx, proc.Spec{Subject: name, StoreBytes: manyBytes, CPU: env.Server}, env.Client, func(t target) burstJob {
					return burstJob{target: t, Streams: streams, Events: Pick(env, 10_000, 200), Repeat: Pick(env, max(1, 4/streams), 1)}
				})
			},
		})
	}
	return all
}

// storing is the base of scenarios that need a stored stream.
func storing(string) string { return "bare-sse-store" }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// withServer runs a job against a new server, for at most 2 minutes.
func withServer[J any](ctx context.Context, spec proc.Spec, cpu int, job func(target) J) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s, err := proc.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	var values map[string]float64
	if err := proc.Load(ctx, cpu, job(targetOf(s)), &values); err != nil {
		_ = s.Stop()
		return nil, fmt.Errorf("%s: %w", spec.Subject, err)
	}
	return values, s.Stop()
}

type burstJob struct {
	target

	Streams, Events, Repeat int
	Engine                  bool // the calls of the cluster's engine are values too
}

var _ = proc.Work(func(ctx context.Context, j burstJob) (map[string]float64, error) { return j.run(ctx) })

func (j burstJob) run(ctx context.Context) (map[string]float64, error) {
	ctl, err := proc.Connect(j.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	sessions, err := j.open(ctx, j.Streams*(j.Repeat+1))
	if err != nil {
		return nil, err
	}
	if _, _, err := j.burst(ctx, sessions[:j.Streams], j.Events/4+1); err != nil { // warms up: pools and stacks grow
		return nil, err
	}
	before, err := ctl.SampleBefore()
	if err != nil {
		return nil, err
	}
	cost, err := j.costs(ctx)
	if err != nil {
		return nil, err
	}
	var took time.Duration
	got := 0
	for i := range j.Repeat {
		d, n, err := j.burst(ctx, sessions[(i+1)*j.Streams:][:j.Streams], j.Events)
		if err != nil {
			return nil, err
		}
		took += d
		got += n
	}
	after, err := ctl.Sample(false)
	if err != nil {
		return nil, err
	}
	sent := float64(j.Streams * j.Events * j.Repeat)
	v := perUnit(before, after, sent)
	values := map[string]float64{
		"events/s": float64(got) / took.Seconds(), "cpu": v.cpu, "bytes": v.sent, "writes": v.writes, "allocs": v.allocs, "lost": sent - float64(got),
	}
	if j.Engine {
		values["trips"], values["appends"] = v.trips, v.appends
	}
	return values, cost.add(ctx, values, sent)
}

// burst makes one call in each session, all at once. It returns the time from the first request to the last answer, and how many
// notifications arrived.
func (j burstJob) burst(ctx context.Context, sessions []string, events int) (took time.Duration, got int, err error) {
	counts := make([]int, len(sessions))
	began := time.Now()
	err = j.each(ctx, len(sessions), len(sessions), func(c *load.Conn, i int) error {
		id := i + 1
		if err := start(c, load.Post(sessions[i], load.Call(id, subject.Burst, fmt.Sprintf(`{"n":%d}`, events)))); err != nil {
			return err
		}
		var seen trace
		if err := seen.read(c, id, "done", nil); err != nil {
			return err
		}
		if !seen.answer {
			return fmt.Errorf("no answer after %d events", seen.events)
		}
		counts[i] = seen.events
		return nil
	})
	took = time.Since(began)
	for _, n := range counts {
		got += n
	}
	return took, got, err
}

// used is the cost of one unit of work. cpu is in microseconds, sent in bytes.
type used struct{ cpu, allocs, writes, sent, trips, appends float64 }

func perUnit(before, after proc.Sample, n float64) used {
	return used{
		cpu:    float64((after.CPU - before.CPU).Nanoseconds()) / 1e3 / n,
		allocs: float64(after.Mallocs-before.Mallocs) / n,
		writes: float64(after.Writes-before.Writes) / n,
		sent:   float64(after.Sent-before.Sent) / n,

		trips: float64(after.Trips-before.Trips) / n, appends: float64(after.Appends-before.Appends) / n,
	}
}
