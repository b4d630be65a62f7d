package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is the process with the clients.
type crowd struct {
	job    job
	sites  []site
	ledger ledger
	think  atomic.Uint64 // seconds between the calls of one client, as bits
	active atomic.Int64
	late   atomic.Int64  // nanoseconds for which this process, or the machine, stood still
	calm   chan struct{} // closed when nothing new is to begin
	once   sync.Once
}

func (c *crowd) reply(q question) (a answer, err error) {
	switch q.Do {
	case "load":
		if err := needFiles(uint64(q.Job.Clients)*5 + 200); err != nil { //nolint:gosec // it is positive
			return a, err
		}
		c.job, c.sites, c.calm, c.once = q.Job, q.Sites, make(chan struct{}), sync.Once{}
		c.pace(q.Pace)
		c.active.Store(int64(q.Job.Clients))
		go c.watch()
		for i := range q.Job.Clients {
			go c.client(context.Background(), i) // until the process ends
		}
	case "warm":
		c.warm(q)
	case "pace":
		c.pace(q.Pace)
	case "calm":
		c.once.Do(func() { close(c.calm) })
	case "sample":
	default:
		err = errors.New("no such question")
	}
	a.Tally, a.Faults = c.ledger.take()
	a.Active = c.active.Load()
	if err == nil {
		a.Sample, err = take(false)
	}
	return a, err
}

// warm lets one client of each site make a call in peace, and go.
func (c *crowd) warm(q question) {
	c.job, c.sites, c.calm = q.Job, q.Sites, make(chan struct{})
	close(c.calm)
	for i := range c.sites {
		s := newSession(c, i, 0, rand.New(rand.NewPCG(0, 0))) //nolint:gosec // all alike
		if !s.open(context.Background()) {
			return
		}
		call := newCall(s, 0)
		call.part = part{Call: call.name, Events: 5, For: 100, Closes: 30, Asides: 1, Late: 1}
		s.listen.begin(context.Background())
		call.run(context.Background())
		s.listen.settle(context.Background())
		s.remove(context.Background())
		s.settled()
		s.pool.close()
	}
}

// watch adds up how long this process was kept from running. A client that was does not know when its server has let it go.
func (c *crowd) watch() {
	const every = 50 * time.Millisecond
	for last := time.Now(); ; {
		pause(context.Background(), int(every.Milliseconds()))
		now := time.Now()
		if late := now.Sub(last) - every; late > every {
			c.late.Add(int64(late))
			c.ledger.add("milliseconds of standing still", late.Milliseconds())
		}
		last = now
	}
}

// pace sets how many calls all clients together begin in a second.
func (c *crowd) pace(rate float64) { c.think.Store(math.Float64bits(float64(c.job.Clients) / rate)) }

// ponder waits as a user does between two calls, and reports whether there is to be another one.
func (c *crowd) ponder(r *rand.Rand) bool {
	mean := math.Float64frombits(c.think.Load())
	return c.wait(time.Duration(min(r.ExpFloat64(), 4) * mean * float64(time.Second)))
}

// wait waits until the crowd is to be calm, and reports whether it is not.
func (c *crowd) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.calm:
		return false
	}
}

func (c *crowd) isCalm() bool {
	select {
	case <-c.calm:
		return true
	default:
		return false
	}
}

// client is one client after the other on the same site: sessions end, and clients come back.
func (c *crowd) client(ctx context.Context, i int) {
	defer c.active.Add(-1)
	r := rand.New(rand.NewPCG(c.job.Seed, uint64(i))) //nolint:gosec // the same for the same seed
	if !c.wait(time.Duration(r.Float64() * float64(min(5*time.Second, c.job.For/4)))) {
		return
	}
	for n := 0; !c.isCalm(); n++ {
		s := newSession(c, i, n, rand.New(rand.NewPCG(c.job.Seed^uint64(n+1)<<32, uint64(i)))) //nolint:gosec // likewise
		s.live(ctx)
		if !c.ponder(r) {
			return
		}
	}
}
