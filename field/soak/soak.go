package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// allowedGrowth is by how much the heap may have grown at the end: a mebibyte, and half a kilobyte for each client, since maps, timers and
// pools of the servers keep their largest size. The runtime also keeps half a kilobyte for each goroutine of the largest number that existed
// at once. The base has that for the expected number; allowedGrowth has it for those beyond.
func (r *reporter) allowedGrowth() int64 {
	beyond := int64(r.peaks["goroutines of the servers"]) - int64(r.job.goroutines())
	return 1<<20 + 512*int64(r.job.Clients) + 512*max(0, beyond)
}

// soak runs a job, and writes what happens to out.
func soak(ctx context.Context, j job, out io.Writer) (err error) {
	begun := time.Now()
	servers, err := start(ctx, "serve", out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.end(), context.Cause(ctx)) }()
	clients, err := start(ctx, "load", out)
	if err != nil {
		return err
	}
	r := &reporter{job: j, out: out, begun: begun, peaks: map[string]float64{}, paced: usage{at: begun}, told: usage{at: begun}}
	fmt.Fprintf(out, "soak: %v, %d clients, seed %d\n", j.For, j.Clients, j.Seed)
	err = runLoad(ctx, j, servers, clients, r)
	if e := clients.end(); e != nil {
		err = errors.Join(err, e)
	}
	if err == nil {
		err = r.baseline(ctx, servers)
	}
	r.summary()
	if err == nil {
		err = unaccounted(r.tally)
	}
	if g := r.left; g.StoreFailed > 0 || g.Full > 0 || g.Errors > 0 {
		err = errors.Join(err, fmt.Errorf("the servers report %d errors, %d failures of the store, and %d messages without room", g.Errors, g.StoreFailed, g.Full))
	}
	if n := r.tally["faults"]; n > 0 {
		err = errors.Join(err, fmt.Errorf("%d faults", n))
	}
	return err
}

// runLoad runs the load for its time, and waits until all clients have ended.
func runLoad(ctx context.Context, j job, servers, clients *child, r *reporter) error {
	a, err := servers.ask(question{Do: "serve", Job: j})
	if err != nil {
		return err
	}
	if err := r.warm(ctx, servers, clients, a.Sites); err != nil {
		return err
	}
	rate := j.Rate
	if rate == 0 {
		rate = float64(j.Clients) / 10
	}
	if _, err = clients.ask(question{Do: "load", Job: j, Sites: a.Sites, Pace: rate}); err != nil {
		return err
	}
	end, said := time.Now().Add(j.For), time.Now()
	for time.Now().Before(end) {
		if !pause(ctx, int(min(j.Every, 5*time.Second, time.Until(end)+time.Millisecond).Milliseconds())) {
			return context.Cause(ctx)
		}
		if time.Since(said) >= j.Every {
			said = time.Now()
			if err := r.say(servers, clients); err != nil {
				return err
			}
		}
		if j.Rate > 0 {
			continue
		}
		busy, err := r.busy(servers, clients)
		if err != nil {
			return err
		}
		rate = min(rate*min(max(0.8/busy, 0.7), 1.2), float64(j.Clients)/2) // 0.8 CPUs busy is the target
		if a, err = clients.ask(question{Do: "pace", Pace: rate}); err != nil {
			return err
		}
		r.note(a)
	}
	if a, err = clients.ask(question{Do: "stop"}); err != nil {
		return err
	}
	r.note(a)
	for {
		a, err := clients.ask(question{Do: "sample"})
		if err != nil {
			return err
		}
		r.note(a)
		if a.Active == 0 {
			return r.say(servers, clients)
		}
		if time.Since(said) > j.Every {
			said = time.Now()
			if err := r.say(servers, clients); err != nil {
				return err
			}
		}
		if !pause(ctx, 200) {
			return fmt.Errorf("%d clients have not come to an end: %w", a.Active, context.Cause(ctx))
		}
	}
}

// baseline waits until the servers hold what they held before the load.
func (r *reporter) baseline(ctx context.Context, servers *child) error {
	for {
		a, err := servers.ask(question{Do: "collect"})
		if err != nil {
			return err
		}
		r.last, r.left = a.Sample, a.Gauges
		grown := a.Sample.Heap - r.base.Heap
		if a.Gauges.zero() && a.Sample.Goroutines == r.base.Goroutines && grown <= r.allowedGrowth() {
			return nil
		}
		if !pause(ctx, 1000) || time.Since(r.endedAt) > r.job.IdleTTL+time.Minute {
			_, err := servers.ask(question{Do: "goroutines"})
			_, e := servers.ask(question{Do: "heap", File: r.job.Profile})
			return errors.Join(err, e, fmt.Errorf("the servers do not come back to their base line: %d goroutines, were %d; "+
				"heap grown by %s, may by %s (its profile: %s); left: %+v",
				a.Sample.Goroutines, r.base.Goroutines, mib(grown), mib(r.allowedGrowth()), r.job.Profile, a.Gauges))
		}
	}
}
