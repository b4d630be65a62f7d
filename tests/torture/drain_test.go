package torture_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// plan ends a process as a deployment does: it drains, and another one starts in its place, before its end at another address or after it at the same.
func (tt *torture) plan(p *machine) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if tt.calm || p.dead || p.closed || p.draining || tt.healthy() < 2 || time.Since(p.born) < lease/3 {
		return
	}
	grace := time.Duration(3+tt.random.IntN(57)) * time.Second
	ahead := tt.random.IntN(2) == 0
	p.draining, p.deadline = true, time.Now().Add(grace)
	p.out = tt.random.IntN(2) == 0 // the balancer looks whether it is ready
	tt.say("%s drains for %v, out %v", p.name, grace, p.out)
	tt.tally.did("drained")
	if ahead {
		tt.slots = append(tt.slots, tt.start(fmt.Sprintf("http://%d", tt.started)))
	}
	again := time.Duration(tt.random.IntN(5000)) * time.Millisecond
	tt.plans.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		err := p.Drain(ctx)
		tt.say("%s has drained: %v", p.name, err)
		tt.drained(p, err)
		tt.shutDown(p)
		if ahead {
			tt.remove(p)
			return
		}
		kit.Elapse(again)
		tt.renew(p)
	})
}

// drained checks what a drain has left.
func (tt *torture) drained(p *machine, err error) {
	if err != nil {
		tt.tally.did("drain took too long")
		return
	}
	tt.tally.did("drain succeeded")
	kit.Elapse(time.Second) // an adoption that had begun is given back
	now := p.Stats()
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if !p.dead && now.Sessions != 0 {
		tt.fault("%s has drained, and has %d sessions", p.name, now.Sessions)
	}
	for name, r := range tt.runs {
		if r.by == p && !r.over && tt.moods.planned && !tt.tale(r.session).cancelled[name] && !tt.tale(r.session).deleted {
			tt.fault("%s has drained, and %s runs", p.name, name)
		}
	}
}

// shutDown lets connections end, and then ends a process that has drained.
func (tt *torture) shutDown(p *machine) {
	tt.mu.Lock()
	p.out = true
	tt.mu.Unlock()
	left := 1
	for end := time.Now().Add(10 * time.Second); left > 0 && time.Now().Before(end); {
		kit.Elapse(100 * time.Millisecond)
		tt.mu.Lock()
		left = len(p.wires) + p.serving
		tt.mu.Unlock()
	}
	if left > 0 && tt.moods.planned {
		tt.fault("%s has drained, and %d requests do not end", p.name, left)
	}
	p.Close()
	kit.Elapse(time.Second)
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if p.dead {
		return
	}
	tt.say("%s has ended", p.name)
	if left > 0 { // what others have forwarded is lost
		tt.parted = time.Now()
	}
	p.closed = true
	tt.net.Refuse(p.host(), true)
	tt.net.Reset(p.host())
	for x := range p.wires {
		x.end(true)
	}
}

// remove takes a process that has ended out of the cluster.
func (tt *torture) remove(old *machine) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	for i, p := range tt.slots {
		if p == old && !p.dead {
			tt.slots = append(tt.slots[:i:i], tt.slots[i+1:]...)
			tt.graves = append(tt.graves, old)
			return
		}
	}
}

// renew starts a new process at the address of one that has ended.
func (tt *torture) renew(old *machine) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	for i, p := range tt.slots {
		if p == old && !p.dead {
			tt.slots[i] = tt.start(old.self)
			tt.graves = append(tt.graves, old)
		}
	}
}

// ranTooLong reports whether the process that ran a call drained, and the call did not end in the time that it was given. The mu is held.
func (tt *torture) ranTooLong(name string) bool {
	r := tt.runs[name]
	return r != nil && r.isTooLong()
}

// isTooLong is ranTooLong for a run. The mu is held.
func (r *run) isTooLong() bool {
	const toRecord = time.Second
	deadline := r.by.deadline
	return !deadline.IsZero() && !time.Now().Before(deadline) && (!r.over || r.end.Add(toRecord).After(deadline))
}

// mustServe requires that a client is served where nothing but planned ends happens.
func (tt *torture) mustServe(what string, x *wire, status int) {
	tt.mu.Lock()
	draining := x.p.draining
	tt.mu.Unlock()
	if draining && x.forwarded.Load() && status != 0 && status < 300 {
		tt.tally.did("handed on")
	}
	if tt.moods.planned && (status == 0 || status >= http.StatusInternalServerError) {
		body, _ := x.body(time.Now().Add(patience))
		tt.fault("%s: %d from %s: %s", what, status, x.p.name, body)
	}
}
