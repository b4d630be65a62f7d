package main

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"time"
)

// plan is what a client does with a task.
type plan struct {
	listens    bool
	leaves     int // after so many polls; negative: never
	comesBack  bool
	cancels    time.Duration // not positive: never
	afterwards int           // polls after the end
}

func (t *task) newPlan() plan {
	r := t.r
	p := plan{listens: r.IntN(3) == 0, leaves: -1, afterwards: r.IntN(3)}
	switch r.IntN(12) {
	case 0:
		p.leaves, p.comesBack = r.IntN(4), r.IntN(2) == 0
	case 1:
		p.cancels = time.Duration(1+r.IntN(4000)) * time.Millisecond
	}
	return p
}

// follow polls until the task has ended, or until its client has had enough of it.
func (t *task) follow(ctx context.Context) {
	m := t.c.m
	m.ledger.count("tasks")
	defer t.account()
	p := t.newPlan()
	if other := m.strangers.swap(m.site, stranger{t.id, m.user}); other.user != "" && other.user != m.user && t.r.IntN(4) == 0 {
		t.intrude(ctx, other)
	}
	if t.visit(ctx, &p) || !p.comesBack || !m.wait(m.job.Abandon/2+time.Duration(t.random(int(m.job.Abandon+2*m.job.Retain)))) {
		return
	}
	m.ledger.count("tasks whose clients came back late")
	t.mu.Lock()
	t.left, t.asked = false, map[string]bool{} // what was asked before still waits for an answer
	t.mu.Unlock()
	p = plan{leaves: -1}
	t.visit(ctx, &p)
}

// visit polls until the task has ended, or until the client leaves it. It reports whether the client has seen its end.
func (t *task) visit(ctx context.Context, p *plan) (ended bool) {
	m := t.c.m
	ctx, cancel := context.WithCancel(ctx)
	var work group
	defer work.Wait()
	defer cancel()
	if p.listens {
		r := t.fork()
		work.Go(func() { t.listen(ctx, r) })
	}
	if p.cancels > 0 {
		r := t.fork()
		work.Go(func() {
			pause(ctx, int(p.cancels.Milliseconds()))
			t.cancel(ctx, r)
		})
	}
	for polls := 0; ctx.Err() == nil && !m.gone.Load(); polls++ {
		switch over := t.over(); {
		case over && p.afterwards == 0:
			return true
		case over:
			p.afterwards--
		case polls == p.leaves && !m.isStopping():
			t.mu.Lock()
			t.left = true
			t.mu.Unlock()
			return false
		}
		t.rest(ctx)
		if t.random(8) == 0 {
			work.Go(func() { t.poll(ctx, &work) })
		}
		t.poll(ctx, &work)
	}
	return true
}

// fork returns a source of random numbers of its own.
func (t *task) fork() *rand.Rand {
	t.mu.Lock()
	defer t.mu.Unlock()
	return rand.New(rand.NewPCG(t.r.Uint64(), 0)) //nolint:gosec // the same for the same seed
}

func (t *task) random(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.r.IntN(n)
}

// rest waits before a poll: as long as told, less, or more.
func (t *task) rest(ctx context.Context) {
	d := pollInterval
	switch t.random(16) {
	case 0, 1:
		d = 0
	case 2, 3, 4:
		d += time.Duration(t.random(3000)) * time.Millisecond
	}
	if t.c.m.isStopping() {
		d = pollInterval
	}
	pause(ctx, int(d.Milliseconds()))
}

// request makes a request about the task.
func (t *task) request(method string, more map[string]any) modernRequest {
	params := map[string]any{"taskId": t.id}
	maps.Copy(params, more)
	q := t.c.m.request(method, t.id, params, true)
	if t.random(6) == 0 {
		q.head["Accept"] = "text/event-stream"
	}
	return q
}

// ask sends a request about the task, whose connection may be cut. ok: it was answered with a result. Anything but a cut needs an explanation.
func (t *task) ask(ctx context.Context, q modernRequest, at sight) (a modernAnswer, ok bool) {
	m := t.c.m
	a = m.ask(ctx, t.fork(), q, t.random(4) == 0)
	switch {
	case m.gone.Load(), errors.Is(a.err, errCut), ctx.Err() != nil:
		return a, false
	case a.isUnknown():
		t.contacted(at.sent)
		t.unknown(&a)
		return a, false
	case a.err != nil, a.status != http.StatusOK, a.Error != nil, a.Result == nil:
		t.faultf(a.conn, "%s: status %d, %v: %s", q.head["Mcp-Method"], a.status, a.err, a.raw)
		return a, false
	}
	t.contacted(at.sent)
	return a, true
}

func (t *task) poll(ctx context.Context, work *group) {
	t.c.m.ledger.count("task polls")
	at := t.sight()
	if a, ok := t.ask(ctx, t.request("tasks/get", nil), at); ok {
		t.answerAll(ctx, work, t.see(a.conn, a.Result, at))
	}
}

// cancel sends tasks/cancel until it is acknowledged. What is asked for later must show that the task has ended.
func (t *task) cancel(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil && !t.over() {
		t.mu.Lock()
		t.cancels = true
		t.mu.Unlock()
		t.c.m.ledger.count("task cancels")
		if a, ok := t.ask(ctx, t.request("tasks/cancel", nil), t.sight()); ok {
			t.acknowledged(&a)
			t.mu.Lock()
			t.ends = true
			t.mu.Unlock()
			return
		}
		pause(ctx, r.IntN(500))
	}
}

// acknowledged checks an acknowledgement, which says nothing of the task.
func (t *task) acknowledged(a *modernAnswer) {
	if s, ok := members(a.Result); !ok || s["resultType"] != "complete" || s["taskId"] != nil || s["status"] != nil {
		t.faultf(a.conn, "not an acknowledgement: %s", a.raw)
	}
}

// intrude asks for a task of another client. It must get what an unknown task gets, and do nothing to it.
func (t *task) intrude(ctx context.Context, other stranger) {
	m := t.c.m
	methods := []string{"tasks/get", "tasks/cancel", "tasks/update"}
	q := m.request(methods[t.random(len(methods))], other.id, map[string]any{"taskId": other.id, "inputResponses": map[string]any{}}, true)
	a := m.ask(ctx, t.r, q, false)
	m.ledger.count("tasks of others asked for")
	if !a.isUnknown() && !errors.Is(a.err, errCut) && !m.gone.Load() && ctx.Err() == nil {
		t.faultf(a.conn, "the task %s of %s: status %d, %v: %s", other.id, other.user, a.status, a.err, a.raw)
	}
}
