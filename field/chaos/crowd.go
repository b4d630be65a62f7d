//go:build unix

package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// guest is a session of a client.
type guest interface {
	id() string
	listens() bool
	call(ctx context.Context, r *record)
	close(ctx context.Context)
}

// opener opens a session of a kind of client.
type opener func(ctx context.Context, c *crowd, url string, r *rand.Rand) (guest, error)

// kinds are the clients, and their shares.
var kinds = []struct {
	name  string
	share int
	open  opener
}{
	{"raw", 6, openRaw},
	{"client", 5, openClient},
	{"go-sdk", 4, openGoSDK},
	{"mcp-go", 4, openMCPGo},
	{"typescript", 2, openNode},
}

// crowd are all clients.
type crowd struct {
	sprayer *sprayer
	ledger  *ledger
	timing  timing
	http    *http.Client
	pause   time.Duration // between two calls of a client, on average
	logger  *slog.Logger  // of package client
	node    *node         // runs the TypeScript clients; nil: the run has none
	limit   time.Duration // how long a client waits beyond what a call takes, before it counts as hung

	names    atomic.Int64
	stopping chan struct{}
	all      sync.WaitGroup
}

func newCrowd(s *sprayer, t timing, pause time.Duration, n *node, logger *slog.Logger) *crowd {
	return &crowd{
		sprayer: s, ledger: newLedger(), timing: t, pause: pause, node: n, logger: logger, limit: time.Minute, stopping: make(chan struct{}),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 500, DisableCompression: true}},
	}
}

// start lets n clients come. They stay until stop.
func (c *crowd) start(ctx context.Context, n int, seed uint64) {
	var turns []int
	for i, k := range kinds {
		for range k.share {
			if k.name != "typescript" || c.node != nil {
				turns = append(turns, i)
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same for the same seed
	random.Shuffle(len(turns), func(i, k int) { turns[i], turns[k] = turns[k], turns[i] })
	for i := range n {
		kind, app, r := turns[i%len(turns)], appNames[i/len(turns)%len(appNames)], rand.New(rand.NewPCG(random.Uint64(), 0)) //nolint:gosec // likewise
		c.all.Go(func() { c.live(ctx, kind, app, r) })
	}
}

// stop lets all clients end the call that they are at, and then their sessions.
func (c *crowd) stop() {
	close(c.stopping)
	c.all.Wait()
}

// rest waits, and reports whether the client is to go on.
func (c *crowd) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.stopping:
	case <-ctx.Done():
	}
	return false
}

// live is the life of a client: sessions, and calls in them.
func (c *crowd) live(ctx context.Context, kind int, app string, r *rand.Rand) {
	k := kinds[kind]
	for c.rest(ctx, time.Duration(r.Int64N(int64(c.pause)+1))) {
		opening, cancel := context.WithTimeout(ctx, 20*time.Second)
		g, err := k.open(opening, c, c.sprayer.url("/"+app), r)
		cancel()
		if err != nil {
			c.ledger.notOpened()
			continue
		}
		var made []*record
		for range 1 + r.IntN(8) {
			w := c.work(k.name, r)
			one := &record{Name: w.Call, Kind: k.name, App: app, Session: g.id(), Work: w, Listens: g.listens()}
			made = append(made, one)
			if !one.Listens {
				one.Work.Aside = 0
			}
			c.ledger.begin(one)
			calling, cancel := context.WithTimeout(ctx, w.planned()+c.limit)
			g.call(calling, one)
			cancel()
			one.end(hung, "the client has waited for "+(w.planned()+c.limit).String())
			if one.Outcome != answered && one.Outcome != failed && one.Outcome != refusedBy {
				break // a user would start anew
			}
			if !c.rest(ctx, time.Duration(r.Int64N(2*int64(c.pause)+1))) {
				break
			}
		}
		c.heard(ctx, made)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		g.close(closing)
		cancel()
	}
}

// heard waits until the events of some calls on the standalone stream have come, but not longer than they may take.
func (c *crowd) heard(ctx context.Context, made []*record) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.timing.bound())
	defer cancel()
	for _, r := range made {
		for r.lacks() && pause(ctx, 20*time.Millisecond) == nil { //nolint:revive // pause waits
		}
	}
}

// work chooses what a call does.
func (c *crowd) work(kind string, r *rand.Rand) work {
	w := work{Call: fmt.Sprintf("%s-%d", kind, c.names.Add(1)), Seed: r.Uint64(), For: 300 + r.IntN(3000)}
	switch r.IntN(8) {
	case 0: // a quick one, probably answered in plain JSON
		w.For = 1 + r.IntN(50)
		return w
	case 1:
		w.For = 3000 + r.IntN(5000)
	}
	w.Events = 1 + r.IntN(12)
	if r.IntN(2) == 0 {
		w.Aside = r.IntN(4)
	}
	return w
}

// settle ends the record of a call that an SDK has given up. What has passed through the sprayer says whether an answer had come.
func (c *crowd) settle(ctx context.Context, r *record, trouble error) {
	f := c.sprayer.taps.of(r.Name).facts()
	switch {
	case f.Answer == resultPassed:
		r.Rescue = answered
		r.end(gaveUp, "the result had passed: "+trouble.Error())
	case f.Answer != "":
		r.end(failed, f.Answer)
	case f.Status == http.StatusServiceUnavailable:
		r.end(refusedBy, trouble.Error())
	case f.LastID == "":
		r.end(noID, trouble.Error())
	default:
		r.mu.Lock()
		r.Ended, r.Why = time.Now(), trouble.Error()
		r.mu.Unlock()
		r.Rescue = c.rescue(ctx, r, f)
		r.end(gaveUp, trouble.Error())
	}
}

// rescue polls for a call that its client has given up, from the last event that has passed to it.
func (c *crowd) rescue(ctx context.Context, r *record, f facts) string {
	if _, ended := c.sprayer.endedSessions()[f.Session]; ended {
		return "its client has ended the session"
	}
	again := &record{Name: r.Name, Kind: "rescue", App: r.App, Session: f.Session, Work: r.Work}
	g := &rawGuest{crowd: c, url: c.sprayer.url(f.Path), session: f.Session, calm: true}
	s := newStream(again, func(data []byte) { g.message(again, f.RPC, data) })
	s.named(f.LastID)
	g.follow(ctx, again, s)
	again.end(hung, "")
	if again.Outcome == failed {
		return again.Why
	}
	return again.Outcome
}
