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
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// shortLease is the lease in scenarios that wait until a process is known to be dead.
const shortLease = 2 * time.Second

// adoptions measures what happens after an owner was killed.
func adoptions() Scenario {
	return Scenario{
		ID:    "redis-adoption",
		Title: "Adoption of 10,000 sessions after a kill -9 of their owner",
		Text: "Two servers, each a process of its own, share an engine (Redis). The first one has 10,000 sessions, each with a call " +
			"that has sent a notification and its answer after its client was disconnected. It is killed with SIGKILL. When the " +
			"second one knows that it is dead (`known` after the kill; the lease is 2 s here), the clients poll there, 16 at a time: " +
			"each poll adopts its session, and must get the notification and the answer. The engine calls are to find the session, to " +
			"adopt it and to read, and a look at the leases that adoptions share. Meanwhile 4 other clients poll 2,000 times a second " +
			"for calls of the second server itself. p50, p99 and max are of one such poll with its adoption. The servers " +
			"have one CPU, the load another; Redis may use both.",
		Metrics: []results.Metric{
			{Key: "p50", Title: "p50 ms", Less: true},
			{Key: "p99", Title: "p99 ms", Less: true},
			{Key: "max", Title: "max ms", Less: true},
			{Key: "total", Title: "all, s", Less: true},
			{Key: "cpu", Title: "CPU µs/adoption", Less: true},
			{Key: "trips", Title: "engine calls/adoption", Less: true},
			{Key: "redis cpu", Title: "Redis CPU µs/adoption", Less: true},
			{Key: "other p99", Title: "other polls, p99 ms", Less: true},
			{Key: "others/s", Title: "other polls/s"},
			{Key: "known", Title: "known, s", Less: true},
		},
		Subjects: []string{"rejoin-redis-sse"},
		Base:     itself,
		Rounds:   3,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			spec := proc.Spec{Subject: name, CPU: env.Server, Lease: Pick(env, shortLease, time.Second)}
			return withPair(ctx, spec, func(ctx context.Context, p pair) (map[string]float64, error) {
				var was orphans
				if err := proc.Load(ctx, env.Client, orphanJob{pair: p, Sessions: Pick(env, 10_000, 100) + 1, Others: Pick(env, 200, 8)}, &was); err != nil {
					return nil, err
				}
				if err := p.kill(); err != nil {
					return nil, err
				}
				was.Killed = time.Now()
				var values map[string]float64
				err := proc.Load(ctx, env.Client, adoptJob{target: p.Next, orphans: was, Every: Pick(env, 100*time.Millisecond, 20*time.Millisecond)}, &values)
				return values, err
			})
		},
	}
}

// itself is the base of subjects that are compared with nothing.
func itself(name string) string { return name }

// pair are two servers that share an engine.
type pair struct {
	Owner, Next target

	kill func() error // kills the owner
}

// withPair calls do with two new servers and a new engine.
func withPair(ctx context.Context, spec proc.Spec, do func(context.Context, pair) (map[string]float64, error)) (map[string]float64, error) {
	return withRedis(ctx, spec.Subject, func(ctx context.Context, addr string) (values map[string]float64, err error) {
		spec.Redis = addr
		owner, err := proc.Start(ctx, spec)
		if err != nil {
			return nil, err
		}
		killed := false
		defer func() {
			if !killed {
				err = errors.Join(err, owner.Stop())
			}
		}()
		next, err := proc.Start(ctx, spec)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, next.Stop()) }()
		p := pair{Owner: targetOf(owner), Next: targetOf(next), kill: func() error {
			killed = true
			return owner.Kill()
		}}
		p.Owner.Redis, p.Next.Redis = addr, addr
		return do(ctx, p)
	})
}

// waiting is a call with one notification, all of which is recorded, and a client that has read none of it.
type waiting struct{ Session, Cursor string }

// orphans are sessions of a server that is to be killed, and others of the one that is left.
type orphans struct {
	Lost, Others []waiting
	Killed       time.Time
}

type orphanJob struct {
	pair

	Sessions, Others int
}

var _ = proc.Work(func(ctx context.Context, j orphanJob) (o orphans, err error) {
	if o.Lost, err = j.Owner.leave(ctx, j.Sessions); err == nil {
		o.Others, err = j.Next.leave(ctx, j.Others)
	}
	return o, err
})

// leave opens sessions, makes a call in each, and returns when all of it is recorded.
func (t target) leave(ctx context.Context, n int) ([]waiting, error) {
	ctl, err := proc.Connect(t.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	all := make([]waiting, n)
	sessions, err := t.open(ctx, n)
	if err != nil {
		return nil, err
	}
	err = t.each(ctx, n, 16, func(c *load.Conn, i int) error {
		raw := load.Post(sessions[i], load.Call(1, subject.Burst, `{"n":1,"close":true}`))
		if err := start(c, raw); err != nil {
			return err
		}
		var seen trace
		if err := seen.read(c, 1, "done", nil); err != nil {
			return err
		}
		all[i] = waiting{sessions[i], seen.first}
		if !seen.primed {
			return errors.New("the stream has no primer")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, settled(ctx, ctl, 0) // each tool has ended, and before that all it has said was recorded
}

// fetch polls for a call, and reports whether it got all of it.
func (w waiting) fetch(c *load.Conn) (bool, error) {
	if err := start(c, load.Get(w.Session, w.Cursor)); err != nil {
		return false, err
	}
	var seen trace
	if err := seen.read(c, 1, "done", nil); err != nil {
		return false, err
	}
	return seen.answer && seen.events == 1, nil
}

type adoptJob struct {
	target
	orphans

	Every time.Duration // each of the others is polled once in this time
}

var _ = proc.Work(func(ctx context.Context, j adoptJob) (map[string]float64, error) { return j.run(ctx) })

func (j adoptJob) run(ctx context.Context) (map[string]float64, error) {
	first, lost := j.Lost[0], j.Lost[1:]
	if err := j.await(ctx, first); err != nil {
		return nil, err
	}
	known := time.Since(j.Killed)
	ctl, err := proc.Connect(j.Admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ctl.Close() }()
	cost, err := j.costs(ctx)
	if err != nil {
		return nil, err
	}
	before, err := ctl.SampleBefore()
	if err != nil {
		return nil, err
	}
	others, began := j.pollOthers(ctx), time.Now()
	times := make([]time.Duration, len(lost))
	err = j.each(ctx, len(lost), 16, func(c *load.Conn, i int) error {
		began := time.Now()
		all, err := lost[i].fetch(c)
		if err == nil && !all {
			err = errors.New("not all of the call came")
		}
		times[i] = time.Since(began)
		return err
	})
	took := time.Since(began)
	polls, failed := others()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	after, err := ctl.Sample(false)
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	slices.Sort(polls)
	ms := func(d time.Duration) float64 { return micros(d) / 1e3 }
	n := float64(len(times))
	values := map[string]float64{
		"p50": ms(quantile(times, 0.5)), "p99": ms(quantile(times, 0.99)), "max": ms(times[len(times)-1]), "total": took.Seconds(),
		"cpu":       perUnit(before, after, n).cpu,
		"other p99": ms(quantile(polls, 0.99)), "others/s": float64(len(polls)) / took.Seconds(), "known": known.Seconds(),
	}
	return values, cost.add(ctx, values, n)
}

// await polls for a call until the server has adopted its session.
func (t target) await(ctx context.Context, w waiting) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return t.each(ctx, 1, 1, func(c *load.Conn, _ int) error {
		for {
			if all, err := w.fetch(c); all || err != nil {
				return err
			}
			if err := sleepUntil(ctx, time.Now().Add(10*time.Millisecond)); err != nil {
				return fmt.Errorf("the session was not adopted: %w", err)
			}
		}
	})
}

// pollOthers polls for the other calls until the function is called that it returns. That one returns the time of each poll.
func (j adoptJob) pollOthers(ctx context.Context) (end func() ([]time.Duration, error)) {
	errDone := errors.New("done")
	ctx, cancel := context.WithCancelCause(ctx)
	var mu sync.Mutex
	var times []time.Duration
	ended := make(chan error, 1)
	go func() {
		_, _, err := j.paced(ctx, len(j.Others), 4, j.Every, 5*time.Minute, func(c *load.Conn, i int) error {
			began := time.Now()
			all, err := j.Others[i].fetch(c)
			if err == nil && !all {
				err = errors.New("another client has lost its call")
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Since(began))
			return err
		})
		ended <- err
	}()
	return func() ([]time.Duration, error) {
		cancel(errDone)
		if err := <-ended; !errors.Is(err, errDone) {
			return nil, err
		}
		return times, nil
	}
}
