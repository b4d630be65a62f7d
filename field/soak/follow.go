package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// follow polls until the result of the call has come, or the call is lost.
func (c *call) follow(ctx context.Context) {
	s := c.s
	var retry time.Duration
	for n := 0; ; n++ {
		_, _, named := c.track.newest()
		done, cancelled := c.isAnswered(), c.cancelled.Load()
		switch {
		case c.hung.Load():
			c.faultf(nil, "no result after %v; %d of %d events, last contact %v ago", c.about()+2*maxSilence, c.next, c.args.Events, time.Since(c.contact))
			return
		case s.gone.Load() && !done:
			s.ledger.count("lost: the session was given up")
			return
		case !named && !done:
			s.ledger.count("lost: cut before any id")
			return
		case done && (n > 8 || c.r.IntN(6) > 0 || s.gone.Load() || c.lost()):
			return
		case !done && cancelled && n > 8:
			s.ledger.count("lost: cancelled")
			return
		}
		if !done {
			c.away(retry)
		}
		var status int
		if c.r.IntN(8) == 0 {
			status = c.twice(ctx)
		} else {
			retry, status = c.resume(ctx, c.r, c.stale())
		}
		switch {
		case status == http.StatusNoContent && cancelled && !done:
			s.ledger.count("lost: cancelled")
			return
		case status == http.StatusNoContent && !c.cancelled.Load() && !c.isAnswered():
			c.faultf(nil, "204 where a result was due")
			return
		case status >= http.StatusBadRequest && !s.explained(status, nil):
			c.faultf(nil, "status %d to a resume", status)
			return
		}
	}
}

func (c *call) isAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// lost reports whether an error came in place of the result.
func (c *call) lost() bool {
	c.track.mu.Lock()
	defer c.track.mu.Unlock()
	return c.track.dead
}

// stale is how many ids before the newest one a resume begins: mostly 0.
func (c *call) stale() int {
	if c.r.IntN(4) == 0 {
		return 1 + c.r.IntN(10)
	}
	return 0
}

// away waits before a resume: as long as told, less, more, or much too long.
func (c *call) away(retry time.Duration) {
	d := retry
	switch c.r.IntN(16) {
	case 0, 1, 2:
		d = 0
	case 3, 4, 5:
		d += time.Duration(c.r.IntN(3000)) * time.Millisecond
	case 6:
		if c.r.IntN(6) == 0 {
			d += c.s.job.Retain/2 + time.Duration(c.r.Int64N(int64(c.s.job.Retain)))
		}
	}
	c.s.wait(d)
}

// resume polls with the newest id, or with the one back ids before it.
func (c *call) resume(ctx context.Context, r *rand.Rand, back int) (retry time.Duration, status int) {
	s := c.s
	id, pos, _ := c.track.newest()
	if back > 0 {
		id, pos = c.track.cursor(back)
	}
	w, err := s.pool.get(ctx, s.site.Addr)
	if err != nil {
		if !s.gone.Load() && !c.hung.Load() {
			c.faultf(nil, "%v", err)
		}
		return 0, 0
	}
	defer context.AfterFunc(ctx, func() { w.disconnect(false) })()
	s.planEnd(r, w, c.about()/2+time.Second)
	h := s.header()
	h["Last-Event-ID"] = id
	resp, err := w.send(http.MethodGet, s.site, h, nil)
	s.ledger.count("resumes")
	if err != nil {
		s.drop(w)
		w.disconnect(false)
		switch {
		case w.cut.Load():
			s.ledger.count("cuts")
			c.mu.Lock()
			c.unanswered++
			c.mu.Unlock()
		case !s.gone.Load() && !c.hung.Load():
			c.faultf(w, "a resume: %v", err)
		}
		s.noteContact()
		return 0, 0
	}
	s.noteContact()
	if resp.streams() {
		retry = c.read(w, resp, pos)
		c.mu.Lock()
		c.mayHaveNoID = false
		c.mu.Unlock()
		return retry, resp.status
	}
	_, _ = resp.text()
	s.drop(w)
	s.pool.put(w)
	return 0, resp.status
}

// twice resumes on two connections at once. Either may win; both must end.
func (c *call) twice(ctx context.Context) int {
	var both sync.WaitGroup
	statuses := make([]int, 2)
	c.s.ledger.count("takeovers")
	c.takeovers.Add(1)
	for i := range statuses {
		r, back := rand.New(rand.NewPCG(c.r.Uint64(), 0)), c.stale() //nolint:gosec // the same for the same seed
		both.Go(func() { _, statuses[i] = c.resume(ctx, r, back) })
	}
	both.Wait()
	c.takeovers.Add(-1)
	return max(statuses[0], statuses[1])
}

// cancel sends notifications/cancelled for the call.
func (c *call) cancel(ctx context.Context) {
	if c.isAnswered() || c.s.gone.Load() {
		return
	}
	c.cancelled.Store(true)
	c.s.ledger.count("cancels")
	c.s.notify(ctx, "cancel "+c.name, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.id))
}
