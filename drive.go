package rejoin

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// pass is one step on its way through the driver: what it needs, and what is to be done when the lock is free again. No store
// call, network write or user code runs under the session's lock.
type pass struct {
	start *stream // of a Post

	started   bool
	refused   core.Reason // of an operation without a connection
	discarded core.Reason
	record    *stream
	seq       uint64
	seal      bool

	released []message
	yield    eventstore.Log // what was written of it may go, up to yieldTo
	yieldTo  uint64
	cancels  []verdict
	drops    []eventstore.Log
	doubt    bool
	stranded []*Call
	ended    core.Reason
	app      AppSession // of an ended session
}

// verdict is what the machine decided about a call.
type verdict struct {
	call *Call
	why  core.Reason
	fail bool // answer it with an error
}

// step feeds the machine and notes what it asks for. Under the lock.
func (s *Session) step(in *core.In, p *pass) { s.stepMessage(in, nil, p) }

// stepMessage is step for an Emit or Reply, which is about a message.
func (s *Session) stepMessage(in *core.In, msg *message, p *pass) {
	now := time.Now()
	s.active = now
	s.outs = s.m.Step(now, in, s.outs[:0])
	for i := range s.outs {
		s.obey(&s.outs[i], msg, p)
	}
	if in.Op == core.Stop {
		s.withdrawAtEnd(core.Shutdown)
	}
	s.arm(now)
}

// tick is the timer's function.
func (s *Session) tick() {
	var p pass
	s.mu.Lock()
	active := s.active
	s.armed = time.Time{}
	s.step(&core.In{Op: core.Tick, Rand: rand.Uint32()}, &p) //nolint:gosec // spreads retries
	s.active = active
	s.trim()
	s.mu.Unlock()
	s.finish(&p)
}

// arm sets the timer, if it has to fire sooner than it would. That it often fires too early is cheaper than setting it anew at
// each step.
func (s *Session) arm(now time.Time) {
	at := s.m.Deadline()
	if at.IsZero() || !s.armed.IsZero() && !at.Before(s.armed) {
		return
	}
	s.armed = at
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.tick)
		return
	}
	s.timer.Reset(at.Sub(now))
}

func (s *Session) conn(id core.ConnID) *conn {
	for _, c := range s.conns {
		if c.id == id {
			return c
		}
	}
	return nil
}

// obey does at once what is only bookkeeping, and leaves the rest to finish. Under the lock.
func (s *Session) obey(o *core.Out, msg *message, p *pass) {
	if o.Conn != 0 {
		if c := s.conn(o.Conn); c != nil {
			s.direct(c, o, msg, p)
		}
		return
	}
	switch o.Do {
	case core.Refuse:
		p.refused = o.Reason
	case core.Discard:
		p.discarded = o.Reason
	case core.Record:
		p.record, p.seq, p.seal = s.streams[o.Index], o.Seq, o.Seal
		p.record.last = o.Seq
		if msg != nil && msg.ask != "" {
			s.asked(msg.ask, p.record, o.Seq)
		}
		if o.Seal { // what is kept for those who come back needs nothing of the requests
			p.record.calls, p.record.one[0] = nil, nil
		}
	case core.Hold:
		st := s.streams[o.Index]
		st.held = append(st.held, *msg)
	case core.Release:
		st := s.streams[o.Index]
		p.released, st.held = st.held, nil
	case core.CancelApp:
		if c := s.streams[o.Index].call(o.ID); c != nil {
			if o.Reason != core.Terminated { // what an app has ended it need not answer
				c.work.ended(c)
			}
			p.cancels = append(p.cancels, verdict{call: c, why: o.Reason})
		}
	case core.Fail:
		p.cancels[len(p.cancels)-1].fail = true
	case core.Strand:
		p.stranded = append(p.stranded, s.streams[o.Index].calls...)
	case core.Doubt:
		p.doubt = true
	case core.Yield:
		p.yield, p.yieldTo = s.streams[o.Index].log, o.Seq
	case core.DropLog:
		st := s.streams[o.Index]
		s.streams[o.Index], st.dropped = nil, true
		if st.log != nil {
			p.drops = append(p.drops, st.log)
		}
	case core.EndSession:
		p.ended = o.Reason
		if o.Reason == core.Terminated {
			s.withdrawAtEnd(o.Reason)
		}
		s.over, s.cause = true, causeOf(o.Reason)
		p.app = s.app
		if s.timer != nil {
			s.timer.Stop()
		}
	}
}

// direct gives a connection its orders. Under the lock.
func (s *Session) direct(c *conn, o *core.Out, msg *message, p *pass) {
	switch o.Do {
	case core.Start:
		st := p.start
		for int(o.Index) >= len(s.streams) {
			s.streams = append(s.streams, nil)
		}
		s.lastStream++
		st.n, st.conn = s.lastStream, c
		s.streams[o.Index] = st
		c.st, p.started = st, true
		return
	case core.Attach:
		c.orders.from = o.Seq
		if c.orders.acked {
			s.srv.stats.resumed.Add(1)
		}
		if o.Index < 0 { // what it wants is gone
			s.srv.stats.expired.Add(1)
			return
		}
		c.st = s.streams[o.Index]
		c.st.conn = c
		c.st.announce()
	case core.Head:
		c.orders.head, c.orders.wait = true, o.Dur
	case core.Primer:
		c.orders.greeting, c.orders.primerSeq, c.orders.nonce, c.orders.retry = primer, o.Seq, o.Nonce, o.Dur
		c.stream = o.Stream
	case core.Comment:
		c.orders.greeting, c.stream = comment, o.Stream
	case core.Expire:
		c.orders.expire = append(c.orders.expire, expiry{o.Seq, o.Nonce, o.ID, o.Reason})
	case core.AnswerJSON:
		c.named = c.opens && s.ready && len(c.orders.expire) == 0 // never on an error
		c.orders.json = s.jsonAnswer(c, msg)
	case core.End:
		s.endOrder(c, o)
	case core.Refuse:
		c.orders.refuse = o.Reason
		if c.st != nil && c.st.conn == c {
			c.st.conn = nil
		}
	}
	c.fresh.Store(true)
	// With a message that is about to be appended, in no time, the reader is woken after that: then what it writes first (the head,
	// the primer) and the message leave together.
	if msg == nil || o.Do == core.AnswerJSON || !s.srv.instant {
		c.wake()
	}
}

// endOrder tells a connection to end, and keeps it as the one that still reads.
func (s *Session) endOrder(c *conn, o *core.Out) {
	again := c.orders.end // the sequence that it was to end with was given back
	c.orders.end, c.orders.endSeq, c.orders.endRetry, c.orders.least, c.orders.last = true, o.Seq, o.Dur, o.Least, o.Reason == core.Ended
	if st := c.st; st != nil && st.conn == c {
		st.conn, st.closing = nil, c
	}
	switch {
	case again:
	case o.Reason == core.NoReason:
		s.srv.stats.closed.Add(1)
	case o.Reason == core.TakenOver:
		s.srv.stats.takenOver.Add(1)
	}
}

// jsonAnswer is the body of a plain JSON answer: the response, or those of the whole batch. Where the session ends there are errors in
// place of a response.
func (s *Session) jsonAnswer(c *conn, m *message) []byte {
	st, errs := c.st, c.orders.expire
	c.orders.expire = nil
	switch {
	case !st.batch && len(errs) > 0:
		return errs[0].response()
	case !st.batch:
		return m.data
	}
	body := []byte{'['}
	for _, h := range st.held {
		body = append(append(body, h.data...), ',')
	}
	if m != nil {
		body = append(append(body, m.data...), ',')
	}
	for _, e := range errs {
		body = append(append(body, e.response()...), ',')
	}
	st.held = nil
	body[len(body)-1] = ']'
	return body
}

// finish does what a step left to do, with the lock free, in the order in which it matters: a tool's context is cancelled before
// its request is answered for it.
func (s *Session) finish(p *pass) {
	for _, v := range p.cancels {
		cause := causeOf(v.why)
		// Before its tool notices, which would withdraw the questions too, and, where it gives up, answer without saying why.
		open := s.failAsks(v.call, cause)
		claimed := v.fail && v.call.done.CompareAndSwap(false, true)
		v.call.ctx.cancel(cause)
		if v.why == core.Abandoned {
			s.srv.stats.abandoned.Add(1)
		}
		if p.ended != core.NoReason || len(open) == 0 && !claimed {
			continue
		}
		s.srv.aside(func() {
			s.withdrawAll(v.call, open, cause.Error())
			if claimed {
				_ = v.call.respondError(failure(v.why)) // the request may have been cancelled
			}
		})
	}
	if p.yield != nil {
		s.srv.mark(p.yield, eventstore.Mark{Written: p.yieldTo, Acked: p.yieldTo})
	}
	for _, m := range p.released {
		s.srv.aside(func() { _ = s.send(m) })
	}
	for _, c := range p.stranded {
		s.failAsks(c, ErrNoStream)
	}
	if p.doubt {
		s.srv.logDoubt(s)
	}
	for _, log := range p.drops {
		s.srv.aside(func() { s.srv.dropLog(log) })
	}
	if p.ended != core.NoReason {
		s.lifeOver()
		s.srv.forget(s)
		if p.ended == core.Moved { // what the store has of it is another process's now
			s.srv.logMoved(s)
			s.failAsks(nil, ErrMoved)
		} else {
			s.failAsks(nil, ErrSessionEnded)
			s.srv.aside(func() { s.srv.dropSession(s.id) })
		}
		if p.app != nil { // App.Open may not have returned yet
			s.tellEnded(p.app, causeOf(p.ended))
		}
	}
	if s.srv.draining.Load() {
		s.srv.nudge()
	}
}

// tellEnded tells the app, which must not harm others when it panics: a timer's goroutine has nobody to recover it.
func (s *Session) tellEnded(app AppSession, cause error) {
	defer s.srv.recovered("AppSession.Ended", func() {})
	app.Ended(cause)
}

// aside does what may take as long as the store does. Whoever ends a session or a request does not wait for it.
func (s *Server) aside(f func()) {
	if s.instant {
		f()
		return
	}
	go f()
}

// deadline bounds one operation of a store that may wait for a network.
func (s *Server) deadline() (context.Context, context.CancelFunc) {
	if s.instant || s.cfg.StoreTimeout == 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), s.cfg.StoreTimeout)
}
