package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// slack is what the heap may have grown by in the end: a mebibyte and half a kilobyte for each client, since maps, timers and pools of the
// servers stay as large as they were when most clients were there. The runtime keeps half a kilobyte for each goroutine that there was at once,
// which the base line has for as many as are expected; here are those beyond.
func (r *reporter) slack() int64 {
	beyond := int64(r.peaks["goroutines of the servers"]) - int64(r.job.goroutines())
	return 1<<20 + 512*int64(r.job.Clients) + 512*max(0, beyond)
}

// soak does the job and writes how it goes.
func soak(ctx context.Context, j job, out io.Writer) (err error) {
	begun := time.Now()
	house, err := start(ctx, "serve", out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, house.end(), context.Cause(ctx)) }()
	crowd, err := start(ctx, "load", out)
	if err != nil {
		return err
	}
	r := &reporter{job: j, out: out, begun: begun, peaks: map[string]float64{}, paced: usage{at: begun}, told: usage{at: begun}}
	fmt.Fprintf(out, "soak: %v, %d clients, seed %d\n", j.For, j.Clients, j.Seed)
	err = conduct(ctx, j, house, crowd, r)
	if e := crowd.end(); e != nil {
		err = errors.Join(err, e)
	}
	if err == nil {
		err = r.baseline(ctx, house)
	}
	r.summary()
	if g := r.left; g.StoreFailed > 0 || g.Full > 0 || g.Errors > 0 {
		err = errors.Join(err, fmt.Errorf("the servers report %d errors, %d failures of the store, and %d messages without room", g.Errors, g.StoreFailed, g.Full))
	}
	if n := r.tally["faults"]; n > 0 {
		err = errors.Join(err, fmt.Errorf("%d faults", n))
	}
	return err
}

// conduct lets the load run for its time, and then to its end.
func conduct(ctx context.Context, j job, house, crowd *child, r *reporter) error {
	a, err := house.ask(question{Do: "serve", Job: j})
	if err != nil {
		return err
	}
	if err := r.warm(ctx, house, crowd, a.Sites); err != nil {
		return err
	}
	rate := j.Rate
	if rate == 0 {
		rate = float64(j.Clients) / 10
	}
	if _, err = crowd.ask(question{Do: "load", Job: j, Sites: a.Sites, Pace: rate}); err != nil {
		return err
	}
	end, said := time.Now().Add(j.For), time.Now()
	for time.Now().Before(end) {
		if !pause(ctx, int(min(j.Every, 5*time.Second, time.Until(end)+time.Millisecond).Milliseconds())) {
			return context.Cause(ctx)
		}
		if time.Since(said) >= j.Every {
			said = time.Now()
			if err := r.say(house, crowd); err != nil {
				return err
			}
		}
		if j.Rate > 0 {
			continue
		}
		busy, err := r.busy(house, crowd)
		if err != nil {
			return err
		}
		rate = min(rate*min(max(0.8/busy, 0.7), 1.2), float64(j.Clients)/2) // CPUs
		if a, err = crowd.ask(question{Do: "pace", Pace: rate}); err != nil {
			return err
		}
		r.note(a)
	}
	if a, err = crowd.ask(question{Do: "calm"}); err != nil {
		return err
	}
	r.note(a)
	for {
		a, err := crowd.ask(question{Do: "sample"})
		if err != nil {
			return err
		}
		r.note(a)
		if a.Active == 0 {
			return r.say(house, crowd)
		}
		if time.Since(said) > j.Every {
			said = time.Now()
			if err := r.say(house, crowd); err != nil {
				return err
			}
		}
		if !pause(ctx, 200) {
			return fmt.Errorf("%d clients have not come to an end: %w", a.Active, context.Cause(ctx))
		}
	}
}

// baseline waits until the servers hold what they held before anybody came.
func (r *reporter) baseline(ctx context.Context, house *child) error {
	for {
		a, err := house.ask(question{Do: "collect"})
		if err != nil {
			return err
		}
		r.last, r.left = a.Sample, a.Gauges
		grown := a.Sample.Heap - r.base.Heap
		if a.Gauges.zero() && a.Sample.Goroutines == r.base.Goroutines && grown <= r.slack() {
			return nil
		}
		if !pause(ctx, 1000) || time.Since(r.calmed) > r.job.IdleTTL+time.Minute {
			_, err := house.ask(question{Do: "goroutines"})
			_, e := house.ask(question{Do: "heap", File: r.job.Profile})
			return errors.Join(err, e, fmt.Errorf("the servers do not come back to their base line: %d goroutines, were %d; "+
				"heap grown by %s, may by %s (its profile: %s); left: %+v",
				a.Sample.Goroutines, r.base.Goroutines, mib(grown), mib(r.slack()), r.job.Profile, a.Gauges))
		}
	}
}
