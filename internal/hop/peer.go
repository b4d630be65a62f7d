package hop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// peer is a process to which requests are forwarded. While a request has waited for long, a goroutine watches whether the process still answers:
// it probes it through its router, once for all requests that wait. Connections alone do not tell. A process that hangs keeps them open.
type peer struct {
	f     *Forwarder
	owner Owner
	at    *url.URL
	note  []string     // the values of Header in most requests; they are not changed
	base  time.Time    // times count from here
	heard atomic.Int64 // when it last gave a sign of life
	ends  atomic.Bool  // it has said that it keeps no connections

	mu      sync.Mutex
	open    map[*Answer]struct{} // the requests that have no complete answer
	watched bool                 // the goroutine runs
	failed  int                  // attempts to reach it that have failed in a row
	resting time.Time            // no attempt is made before
}

// now is a time that is never 0.
func (p *peer) now() int64 { return int64(time.Since(p.base)) + 1 }

// alive notes a sign of life.
func (p *peer) alive() { p.heard.Store(p.now()) }

func (p *peer) silentFor() time.Duration { return time.Duration(p.now() - p.heard.Load()) }

// add registers a request. The Forwarder's mutex is held.
func (p *peer) add(a *Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.p = p
	p.open[a] = struct{}{}
	if !p.watched {
		p.watched = true
		go p.watch()
	}
}

// values makes the values of Header for a note to the peer.
func (p *peer) values(n Note) []string {
	n.To = p.owner.Incarnation
	return []string{string(n.append(nil, p.f.by))}
}

func (p *peer) remove(a *Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, a)
}

// count counts the POSTs whose clients would not come back.
func (p *peer) count() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.open {
		if a.sent != nil && a.sent.Method == http.MethodPost && !a.mayGo.Load() && !a.mayEnd.Load() {
			n++
		}
	}
	return n
}

func (p *peer) all() []*Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.open))
}

// closes notes that the process keeps no connections any more, because it is about to end. One that was kept before would break under the next request.
func (p *peer) closes() {
	if p.ends.Swap(true) {
		return
	}
	if t, ok := p.f.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// After an attempt to reach a process has failed, others wait before they try: at first this long, then longer, up to a limit.
const (
	firstRest = 20 * time.Millisecond
	maxRest   = 500 * time.Millisecond
)

// rest notes whether the process was reached.
func (p *peer) rest(reached bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reached {
		p.failed = 0
		return
	}
	p.failed = min(p.failed+1, 10)
	p.resting = time.Now().Add(min(firstRest<<(p.failed-1), maxRest))
}

// rests reports whether an attempt has failed just now, so that another one would not be of use.
func (p *peer) rests() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed > 0 && time.Now().Before(p.resting)
}

// Parts of a lease. A process that is silent for looks of them is probed, and has one more to answer. With the time until the next look that is
// less than a lease.
const (
	parts = 5
	looks = 2
)

// watch looks after the requests that wait, and ends when there are none.
func (p *peer) watch() {
	part := p.f.cfg.Lease / parts
	tick := time.NewTicker(part)
	defer tick.Stop()
	over := false
	defer func() {
		if !over { // the Transport of a user has ended the goroutine
			p.mu.Lock()
			p.watched = false
			p.mu.Unlock()
		}
	}()
	for range tick.C {
		if over = p.unwatched(); over {
			return
		}
		if p.f.cfg.Gone(p.owner) { // though it may answer: others adopt its sessions
			p.leave()
		}
		if p.silentFor() < looks*part {
			continue
		}
		like, waits := p.waiting(part)
		if !waits {
			continue
		}
		err := p.probe(part, like)
		switch foreign := (*ForeignError)(nil); {
		case err == nil:
			p.alive()
			continue
		case errors.As(err, &foreign) && !p.f.cfg.Gone(p.owner): // something in between answers, which proves nothing
			continue
		}
		for _, a := range p.all() {
			if a.waitsSince(int64(part)) {
				a.cancel(ErrSilent)
			}
		}
	}
}

// leave ends the streams whose clients can come back or miss nothing: what happens from now on does not come through the owner.
func (p *peer) leave() {
	for _, a := range p.all() {
		if a.mayGo.Load() || a.mayEnd.Load() {
			a.cancel(ErrSilent)
		}
	}
}

// unwatched ends the watch if nothing is open.
func (p *peer) unwatched() bool {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) > 0 {
		return false
	}
	p.watched = false
	if p.f.peers[p.owner] == p {
		delete(p.f.peers, p.owner)
	}
	return true
}

// waiting returns a request that has waited for at least so long, to send a probe like it.
func (p *peer) waiting(least time.Duration) (like *http.Request, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.open {
		if a.waitsSince(int64(least)) {
			return a.sent, true
		}
	}
	return nil, false
}

// ask asks the process whether it answers, before a request is sent.
func (p *peer) ask(ctx context.Context, q *Request) error {
	ctx, cancel := context.WithDeadline(ctx, q.AskUntil)
	defer cancel()
	err := p.f.probe(ctx, p.owner, q.out(ctx, p.at, http.MethodGet, nil))
	if _, foreign := errors.AsType[*ForeignError](err); err == nil || foreign || errors.Is(err, ErrReplaced) {
		p.rest(true)
		if foreign { // it says nothing of the owner
			return nil
		}
		return err
	}
	p.rest(false)
	return fmt.Errorf("%w: %w", ErrUnreached, err)
}

// probe asks the process whether it answers.
func (p *peer) probe(within time.Duration, like *http.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.f.probe(ctx, p.owner, like)
}
