package scenario

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
)

// parkings measures many calls that run for long while their clients poll.
func parkings() []Scenario {
	return []Scenario{{
		ID:    "parked-polls",
		Title: "50,000 parked calls, each polled every 5 s",
		Text: fmt.Sprintf("The tools have disconnected their clients; %d calls in each session. For 20 s each call is polled every 5 s with its newest event id, over 64 "+
			"connections. The server sends a new primer and disconnects the client after a millisecond (Policy.CloseAfter). Then all tools end at once. Every client polls until "+
			"it has its answer, and once more with the id of the answer: nothing may come. `lost` counts answers that did not come, `twice` those that came again. Server and load "+
			"have a CPU each. The resident set is measured after a collection, before the polls.", callsPerSession),
		Metrics: []results.Metric{
			{Key: "parked", Title: "parked", Plain: true},
			{Key: "polls/s", Title: "polls/s", Plain: true},
			{Key: "cpu", Title: "CPU s per s", Less: true},
			{Key: "poll", Title: "CPU µs/poll", Less: true},
			{Key: "late", Title: "polls that began late, p99, ms", Less: true, Plain: true},
			{Key: "rss", Title: "RSS MiB", Less: true},
			{Key: "rss-call", Title: "RSS B/call", Less: true},
			{Key: "goroutines", Title: "goroutines/call", Less: true, Plain: true},
			{Key: "drain", Title: "all answers, s", Less: true, Plain: true},
			{Key: "lost", Title: "lost", Less: true, Plain: true},
			{Key: "twice", Title: "twice", Less: true, Plain: true},
		},
		Subjects: []string{"rejoin-sse"},
		Base:     storing,
		Rounds:   1,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			return withServer(ctx, proc.Spec{Subject: name, CPU: env.Server}, env.Client, func(t target) parkedJob {
				return parkedJob{
					target: t, Calls: Pick(env, 50_000, 200), Conns: 64,
					Every: Pick(env, 5*time.Second, 200*time.Millisecond), Time: Pick(env, 20*time.Second, 500*time.Millisecond),
				}
			})
		},
	}}
}

type parkedJob struct {
	target

	Calls, Conns int
	Every, Time  time.Duration
}

var _ = proc.Work(func(ctx context.Context, j parkedJob) (map[string]float64, error) {
	ctl, err := proc.Connect(j.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	p := parking{parkedJob: j, ctl: ctl, cursors: make([]string, j.Calls), values: map[string]float64{"parked": float64(j.Calls)}}
	for _, step := range []func(context.Context) error{p.park, p.poll, p.drain} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return p.values, nil
})

// parking is one measurement. Call i is in session i/callsPerSession, and its id is i+1.
type parking struct {
	parkedJob

	ctl      *proc.Control
	sessions []string
	cursors  []string // of each call, the newest event id
	values   map[string]float64
}

func (p *parking) session(call int) string { return p.sessions[call/callsPerSession] }

// park makes the calls.
func (p *parking) park(ctx context.Context) (err error) {
	if p.sessions, err = p.open(ctx, (p.Calls+callsPerSession-1)/callsPerSession); err != nil {
		return err
	}
	if err := settled(ctx, p.ctl, 0); err != nil {
		return err
	}
	before, err := p.ctl.Sample(true)
	if err != nil {
		return err
	}
	hold := (&memory{sessions: p.sessions}).hold(true)
	err = p.each(ctx, p.Calls, p.Conns, func(c *load.Conn, i int) error {
		var err error
		p.cursors[i], err = park(c, hold(i), i+1, released)
		return err
	})
	if err != nil {
		return err
	}
	if err := settled(ctx, p.ctl, before.Goroutines+p.Calls); err != nil {
		return err
	}
	after, err := p.ctl.Sample(true)
	if err != nil {
		return err
	}
	p.values["rss"] = float64(after.RSS) / (1 << 20)
	p.values["rss-call"] = float64(after.RSS-before.RSS) / float64(p.Calls)
	p.values["goroutines"] = float64(after.Goroutines-before.Goroutines) / float64(p.Calls)
	return nil
}

// once polls a call once, and reads to the end of the response. some is false if the answer is 204: nothing is left.
func (p *parking) once(c *load.Conn, call int) (seen trace, some bool, err error) {
	if err := c.Send(load.Get(p.session(call), p.cursors[call])); err != nil {
		return seen, false, err
	}
	h, err := c.Head()
	switch {
	case err != nil:
		return seen, false, err
	case h.Status == http.StatusNoContent:
		_, err := c.Body(nil)
		return seen, false, err
	case h.Status != http.StatusOK || !h.Stream:
		return seen, false, fmt.Errorf("a poll got status %d", h.Status)
	}
	err = seen.read(c, call+1, released, nil)
	if seen.last != "" {
		p.cursors[call] = seen.last
	}
	return seen, true, err
}

// poll lets every client poll at its times, which are spread evenly over the period.
func (p *parking) poll(ctx context.Context) error {
	before, err := p.ctl.Sample(false)
	if err != nil {
		return err
	}
	late, took, err := p.paced(ctx, p.Calls, p.Conns, p.Every, p.Time, func(c *load.Conn, call int) error {
		seen, some, err := p.once(c, call)
		if err == nil && (!some || seen.answer) {
			err = fmt.Errorf("call %d ended before the gate opened", call)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	after, err := p.ctl.Sample(false)
	if err != nil {
		return err
	}
	notePolls(p.values, before, after, late, took)
	return nil
}

// notePolls records what polls have cost, and how late they were. late is sorted.
func notePolls(values map[string]float64, before, after proc.Sample, late []float64, took time.Duration) {
	values["polls/s"] = float64(len(late)) / took.Seconds()
	values["cpu"] = (after.CPU - before.CPU).Seconds() / took.Seconds()
	values["poll"] = perUnit(before, after, float64(len(late))).cpu
	values["late"] = late[len(late)*99/100]
}

// drain opens the gate, and lets all clients fetch their answers.
func (p *parking) drain(ctx context.Context) error {
	began := time.Now()
	if err := p.ctl.OpenGate(); err != nil {
		return err
	}
	var lost, twice atomic.Int64
	err := p.each(ctx, p.Calls, p.Conns, func(c *load.Conn, i int) error {
		const patience = 1000 // polls: a tool may not have noticed yet that the gate is open
		for range patience {
			seen, some, err := p.once(c, i)
			if err != nil {
				return err
			}
			if seen.answer {
				return nil
			}
			if !some {
				break
			}
		}
		lost.Add(1)
		return nil
	})
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	p.values["drain"] = time.Since(began).Seconds()
	err = p.each(ctx, p.Calls, p.Conns, func(c *load.Conn, i int) error {
		seen, _, err := p.once(c, i)
		if err == nil && seen.answer {
			twice.Add(1)
		}
		return err
	})
	p.values["lost"], p.values["twice"] = float64(lost.Load()), float64(twice.Load())
	if err != nil {
		return fmt.Errorf("after the answers: %w", err)
	}
	return nil
}
