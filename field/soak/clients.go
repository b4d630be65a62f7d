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

// clientProcess is the process with the clients. Its sessions share its fields.
type clientProcess struct {
	job       job
	sites     []site
	ledger    ledger
	think     atomic.Uint64 // mean seconds between two calls of a client, as bits of a float64
	active    atomic.Int64
	late      atomic.Int64  // nanoseconds for which this process was kept from running
	stopping  chan struct{} // closed when clients must not begin anything new
	strangers strangers
	once      sync.Once
}

func (c *clientProcess) reply(q question) (a answer, err error) {
	switch q.Do {
	case "load":
		if err := needFiles(uint64(q.Job.Clients)*5 + 200); err != nil { //nolint:gosec // it is positive
			return a, err
		}
		c.job, c.sites, c.stopping, c.once = q.Job, q.Sites, make(chan struct{}), sync.Once{}
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
	case "stop":
		c.once.Do(func() { close(c.stopping) })
	case "sample":
	default:
		err = errors.New("no such question")
	}
	a.Tally, a.Faults = c.ledger.take()
	a.Active = c.active.Load()
	if err == nil {
		a.Sample, err = sampleSelf(false)
	}
	return a, err
}

// warm lets one client of each era make calls at each site, without cuts.
func (c *clientProcess) warm(q question) {
	c.job, c.sites, c.stopping = q.Job, q.Sites, make(chan struct{})
	close(c.stopping)
	var all sync.WaitGroup
	for i := range c.sites {
		all.Go(func() {
			c.warmLegacy(i)
			c.warmModern(i)
		})
	}
	all.Wait()
}

// warmLegacy lets a client make a call, and delete its session.
func (c *clientProcess) warmLegacy(i int) {
	s := newSession(c, i, 0, rand.New(rand.NewPCG(0, 0))) //nolint:gosec // all alike
	if !s.open(context.Background()) {
		return
	}
	call := newCall(s, 0)
	call.args = toolArgs{Call: call.name, Events: 5, For: 100, Closes: 30, Standalone: 1, Late: 1}
	s.listen.begin(context.Background())
	call.run(context.Background())
	s.listen.settle(context.Background())
	s.remove(context.Background())
	s.settled()
	s.pool.close()
}

// warmModern lets a client make a call that becomes a task, and one that asks in its results.
func (c *clientProcess) warmModern(i int) {
	m := newModern(newSession(c, i, 1, rand.New(rand.NewPCG(0, 0)))) //nolint:gosec // all alike
	m.discover(context.Background())
	for k, rounds := range []int{0, 1} {
		call := newModernCall(m, k)
		call.declares = true
		call.perform = toolArgs{Call: call.name, Events: 5, For: 100, Closes: 100, Modern: true}
		call.survey = surveyArgs{Call: call.name, Rounds: rounds, Keys: 1, For: 100}
		call.run(context.Background())
	}
	m.settled()
	m.pool.close()
}

// watch adds up for how long this process was kept from running. Such a client notices late that its server has disconnected it.
func (c *clientProcess) watch() {
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

// pace sets how many calls all clients together begin per second.
func (c *clientProcess) pace(rate float64) {
	c.think.Store(math.Float64bits(float64(c.job.Clients) / rate))
}

// waitForNextCall waits as a user does between two calls. It reports whether there shall be another call.
func (c *clientProcess) waitForNextCall(r *rand.Rand) bool {
	mean := math.Float64frombits(c.think.Load())
	return c.wait(time.Duration(min(r.ExpFloat64(), 4) * mean * float64(time.Second)))
}

// wait waits for d, or until the clients must stop. It reports whether they may go on.
func (c *clientProcess) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.stopping:
		return false
	}
}

func (c *clientProcess) isStopping() bool {
	select {
	case <-c.stopping:
		return true
	default:
		return false
	}
}

// client runs one session after the other.
func (c *clientProcess) client(ctx context.Context, i int) {
	defer c.active.Add(-1)
	r := rand.New(rand.NewPCG(c.job.Seed, uint64(i))) //nolint:gosec // the same for the same seed
	if !c.wait(time.Duration(r.Float64() * float64(min(5*time.Second, c.job.For/4)))) {
		return
	}
	for n := 0; !c.isStopping(); n++ {
		s := newSession(c, i, n, rand.New(rand.NewPCG(c.job.Seed^uint64(n+1)<<32, uint64(i)))) //nolint:gosec // likewise
		if s.r.IntN(3) == 0 {
			newModern(s).live(ctx)
		} else {
			s.live(ctx)
		}
		if !c.waitForNextCall(r) {
			return
		}
	}
}
