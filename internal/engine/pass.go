package engine

import (
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// pass is one step on its way: what it needs, and what is to be done when the lock is free again.
type pass struct {
	start *stream // of a Post
	of    *stream // whose turn it is; of a message that has waited
	cause error   // what the session ends with, if it does; nil: what the host says

	started   bool
	refused   core.Reason // of an operation without a connection
	discarded core.Reason // the message goes nowhere
	record    *stream     // the message is to be appended there
	seq       uint64
	seal      bool
	batch     []batched // what is appended with it

	released []Message
	yield    eventstore.Log // what was written of it may go, up to yieldTo
	yieldTo  uint64
	cancels  []verdict
	drops    []eventstore.Log
	doubt    bool
	stranded []*Request
	ended    core.Reason
}

// verdict is what the machine decided about a request.
type verdict struct {
	request *Request
	why     core.Reason
	fail    bool // answer it with an error
}

// step feeds the machine and notes what it asks for. Under the lock.
func (s *Session) step(in *core.In, p *pass) { s.stepMessage(in, nil, p) }

// stepMessage is step for an Emit or Reply, which is about a message.
func (s *Session) stepMessage(in *core.In, msg *Message, p *pass) {
	now := time.Now()
	s.active = now.Sub(s.created)
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
	s.armed = 0
	s.step(&core.In{Op: core.Tick, Rand: spread()}, &p)
	s.active = active
	s.trim()
	s.mu.Unlock()
	s.finish(&p)
}

// arm sets the timer if it must fire sooner than it is set to. It often fires too early; setting it at each step would cost more.
func (s *Session) arm(now time.Time) {
	at := s.m.Deadline()
	if at.IsZero() {
		return
	}
	due := at.Sub(s.created)
	if s.armed != 0 && due >= s.armed {
		return
	}
	s.armed = due
	if s.timer == nil {
		s.timer = time.AfterFunc(at.Sub(now), s.tick)
		return
	}
	s.timer.Reset(at.Sub(now))
}

// obey does at once what is only bookkeeping, and leaves the rest to finish. Under the lock.
func (s *Session) obey(o *core.Out, msg *Message, p *pass) {
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
		p.record.naming(s.id, s.owner != nil)
		if msg != nil && msg.ask != "" {
			s.asked(msg.ask, p.record, o.Seq)
		}
		if o.Seal { // what is kept for a client that comes back needs nothing of the requests
			p.record.requests, p.record.one[0] = nil, nil
			if w := p.record.pending; w != nil { // nothing follows
				w.quickUntil = 0
			}
		}
	case core.Hold:
		w := s.streams[o.Index].wait()
		w.held = append(w.held, *msg)
	case core.Release:
		p.released = s.streams[o.Index].release()
	case core.CancelApp:
		if r := s.streams[o.Index].request(o.ID); r != nil {
			if o.Reason != core.Terminated { // the app need not answer what it has ended
				r.ended()
			}
			p.cancels = append(p.cancels, verdict{request: r, why: o.Reason})
		}
	case core.Fail:
		p.cancels[len(p.cancels)-1].fail = true
	case core.Strand:
		p.stranded = append(p.stranded, s.streams[o.Index].requests...)
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
		p.ended, s.over = o.Reason, o.Reason
		if o.Reason == core.Terminated {
			s.withdrawAtEnd(o.Reason)
		}
		if s.timer != nil {
			s.timer.Stop()
		}
	}
}

// direct gives a connection its orders. Under the lock.
func (s *Session) direct(c *Conn, o *core.Out, msg *Message, p *pass) {
	switch o.Do {
	case core.Start:
		s.startStream(c, int(o.Index), p.start)
		p.started = true
		return
	case core.Attach:
		c.orders.from, c.stream = o.Seq, o.Stream
		if c.orders.acked {
			s.engine.Counters.Resumed.Add(1)
		}
		if o.Index < 0 { // what it wants is gone
			s.engine.Counters.Expired.Add(1)
			return
		}
		c.st = s.streams[o.Index]
		c.st.conn = c
		c.st.announce()
	case core.Head:
		c.orders.head, c.orders.wait = true, o.Dur
	case core.Primer:
		c.orders.greeting, c.orders.primerOf, c.orders.primerSeq, c.orders.nonce, c.orders.retry = primer, o.Stream, o.Seq, o.Nonce, o.Dur
	case core.Comment:
		c.orders.greeting = comment
	case core.Older:
		c.addOlder(o)
	case core.Expire:
		if e := c.orders.expire; o.Nonce == 0 && len(e) > 0 && e[0].nonce != 0 {
			c.orders.expire = nil
		}
		c.orders.expire = append(c.orders.expire, expiry{o.Seq, o.Nonce, s.host.Failure([]byte(o.ID), o.Reason)})
	case core.AnswerJSON:
		c.named = c.opens && s.ready && len(c.orders.expire) == 0 // never on an error
		c.orders.json = c.jsonAnswer(msg)
	case core.End:
		s.endOrder(c, o)
	case core.Refuse:
		c.orders.refuse = o.Reason
		if c.st != nil && c.st.conn == c {
			c.st.conn = nil
		}
	}
	c.fresh.Store(true)
	// If a message is about to be appended by a store that never waits, the reader is woken after that: then what it writes first (the head, the
	// primer) and the message leave together.
	if msg == nil || o.Do == core.AnswerJSON || !s.engine.instant {
		c.wake()
	}
}

// startStream gives the stream of a POST its place and its number. Under the lock.
func (s *Session) startStream(c *Conn, index int, st *stream) {
	for index >= len(s.streams) {
		s.streams = append(s.streams, nil)
	}
	s.lastStream++
	st.n, st.conn, c.st = s.lastStream, c, st
	s.streams[index] = st
}

// endOrder tells a connection to end. It stays the stream's closing connection until it has ended. Under the lock.
func (s *Session) endOrder(c *Conn, o *core.Out) {
	again := c.orders.end // the sequence that it was to end with was given back
	c.orders.end, c.orders.endSeq, c.orders.endRetry, c.orders.least, c.orders.last = true, o.Seq, o.Dur, o.Least, o.Reason == core.Ended
	c.orders.older = o.Older
	if st := c.st; st != nil && st.conn == c {
		st.conn, st.closing = nil, c
	}
	switch {
	case again:
	case o.Reason == core.NoReason:
		s.engine.Counters.Closed.Add(1)
	case o.Reason == core.TakenOver:
		s.engine.Counters.TakenOver.Add(1)
	}
}

// finish does what a step left to do, with the lock free, in the order in which it matters: a tool's context is cancelled before
// its request is answered for it.
func (s *Session) finish(p *pass) {
	for i := range p.cancels {
		s.cancel(&p.cancels[i], p)
	}
	if p.yield != nil {
		s.mark(p.yield, eventstore.Mark{Written: p.yieldTo, Acked: p.yieldTo})
	}
	for _, m := range p.released {
		s.engine.aside(func() { s.Send(m) })
	}
	for _, r := range p.stranded {
		s.failAsks(r, s.host.Cause(core.NoStream))
	}
	if p.doubt {
		s.host.Report(Event{Kind: Doubted})
	}
	for _, log := range p.drops {
		s.engine.aside(func() { s.dropLog(log) })
	}
	if p.ended != core.NoReason {
		s.end(p)
	}
	if s.engine.draining.Load() {
		s.engine.Notify()
	}
}

// end does what is left to do when the session has ended.
func (s *Session) end(p *pass) {
	asked := core.Deleted // whatever the reason: a question has failed because its session is gone
	if p.ended == core.Moved || p.cause != nil {
		asked = p.ended
	}
	s.failAsks(nil, p.causeOf(s, asked))
	switch {
	case p.ended != core.Moved && !s.outlives(p.ended):
		s.engine.aside(s.dropSession)
	case p.ended == core.Shutdown:
		s.engine.aside(s.release)
	case s.owner != nil: // what the store has of it is another process's now
		s.owner.Record.Forget()
		s.dropTail()
	}
	s.host.Ended(p.ended, p.causeOf(s, p.ended))
}

// cancel ends a request as the machine decided.
func (s *Session) cancel(v *verdict, p *pass) {
	r, cause := v.request, p.causeOf(s, v.why)
	// Before its tool notices, which would withdraw the questions too, and, where it gives up, answer without saying why.
	open := s.failAsks(r, cause)
	claimed := v.fail && r.Claim()
	r.tool.Cancel(cause)
	if v.why == core.Abandoned {
		s.engine.Counters.Abandoned.Add(1)
	}
	if p.ended != core.NoReason || len(open) == 0 && !claimed {
		return
	}
	why := v.why
	s.engine.aside(func() {
		s.withdrawAll(r, open, cause.Error())
		if claimed {
			r.fail(why) // the request may have been cancelled
		}
	})
}

// causeOf is the error for a reason.
func (p *pass) causeOf(s *Session, why core.Reason) error {
	if p.cause != nil && why == p.ended {
		return p.cause
	}
	return s.host.Cause(why)
}
