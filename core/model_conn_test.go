package core

import (
	"slices"
	"strconv"
	"time"
)

func (w *world) someConn() *conn {
	if len(w.live) == 0 {
		return nil
	}
	return w.live[w.pick(len(w.live))]
}

// someLog prefers streams that run.
func (w *world) someLog() *log {
	for range 4 {
		if l := w.logs[w.pick(len(w.logs))]; !l.ended {
			return l
		}
	}
	return w.logs[w.pick(len(w.logs))]
}

// give gives the client an id, unless the stream has none any more.
func (w *world) give(c *conn) {
	w.cursors = append(w.cursors, cursor{log: c.log, seq: c.pos, base: c.base, got: slices.Clone(c.got), hole: c.hole})
}

// givePrimer gives the client the id of the primer, if there is one that it does not have.
func (w *world) givePrimer(c *conn) {
	if !c.primer {
		return
	}
	c.primer = false
	if c.asked != nil && c.asked.log != c.log && slices.Contains(w.older, c.asked.log) {
		w.cursors = append(w.cursors, cursor{log: c.asked.log, seq: c.asked.seq})
		return
	}
	w.give(c)
}

// write lets a connection write up to n events, and report it if it was seen to succeed.
func (w *world) write(c *conn, n int, report bool) {
	l := c.log
	switch {
	case c.gone || w.over:
		return
	case c.refused || c.json || c.empty || !c.head && c.end != nil:
		w.givePrimer(c)
		w.gone(c)
		return
	case !c.head:
		return
	}
	w.givePrimer(c)
	n = w.writeChain(c, n)
	for range n {
		limit := l.committed()
		if c.end != nil {
			limit = min(limit, int(c.end.Seq))
		}
		gone := l.dropped && (c.end == nil || c.pos < int(c.end.Seq))
		if c.pos >= limit && !gone {
			break
		}
		if gone || c.pos < l.trimmed || l.lost >= 0 && w.pick(16) == 0 {
			if l == w.standalone && c.pos < l.trimmed {
				c.pos, c.hole = l.trimmed, true
				continue
			}
			w.gap(c)
			break
		}
		c.got = append(c.got, l.msgs[c.pos])
		c.pos++
		w.must(c.hole || slices.Equal(c.got, l.msgs[c.base:c.pos]), "a client gets each message once, in order: %v of %v", c.got, l.msgs[c.base:])
		c.unnamed = l.lost >= 0 && c.pos > l.lost
		if !c.unnamed {
			w.give(c)
		}
	}
	if report {
		w.written(c)
	}
	done := c.end != nil && c.pos >= int(c.end.Seq) && (len(c.chain) == 0 || !c.end.Older)
	may := c.end != nil && c.end.Least > 0 && (c.pos >= int(c.end.Least) || c.brought)
	if c.end != nil && !c.gone && (done || may && w.pick(2) == 0) {
		w.must(!c.unnamed || l == w.standalone || c.end.Dur == 0 || c.end.Reason != NoReason, "who is sent away has an id for all that it was given: c%d, %s", c.id, show(*c.end))
		if w.polls && !c.hole && (c.end.Reason == NoReason || c.end.Reason == Ended) {
			back := c.end.Dur > 0 && (c.end.Reason == NoReason || c.pos < int(c.end.Seq))
			w.must(back || l.ended && c.pos == len(l.msgs) && len(c.late) == len(l.missing(len(l.msgs))), "who does not have everything is told when to come back")
		}
		for _, o := range c.late {
			if c.pos >= int(o.Seq) { // errors are cursors, too
				w.cursors = append(w.cursors, cursor{log: l, seq: int(o.Seq), hole: true})
			}
		}
		w.gone(c)
	}
}

// writeOut lets a connection that was told to end do so.
func (w *world) writeOut(c *conn) {
	for n := 0; c.end != nil && !c.gone && !w.over; n++ {
		w.must(n < 1000, "a connection that was told to end ends")
		w.write(c, 3, true)
	}
}

func (w *world) written(c *conn) {
	l := c.log
	if !l.dropped && !w.over {
		c.reported = min(c.pos, len(l.msgs))
		l.sent = max(l.sent, min(c.pos, len(l.msgs)))
		l.known = l.known || w.polls || c.pos > 0 && l.lost < 0
		w.list(l)
		w.step(In{Op: Written, Conn: c.id, Stream: l.id, Seq: uint64(c.pos)})
	}
}

// gap reports that what follows was dropped, or cannot be read.
func (w *world) gap(c *conn) {
	l := c.log
	in := In{Op: Gap, Conn: c.id, Stream: l.id, Seq: uint64(c.pos), Nonce: uint64(c.id)<<8 | 1<<7, Reason: Expired}
	if w.pick(2) == 0 {
		in.Reason = StoreFailed
	}
	var want []string
	if !l.forgotten && (l.dropped || c == l.reader || c == l.closing) {
		want = l.missing(c.pos)
	}
	if c == l.closing {
		l.poll = pollNone
	}
	c.cut = true
	outs := w.step(in)
	var ids []string
	for _, o := range outs {
		if o.Do == Expire {
			ids = append(ids, o.ID)
		}
	}
	w.must(slices.Equal(ids, want), "errors for %v, not for %v", want, ids)
	c.hole = true
	w.must(c.end != nil && int(c.end.Seq) <= c.pos, "a reader that cannot read on ends")
}

// expire gives the client an error in place of a response.
func (w *world) expire(c *conn, l *log, o Out) {
	w.must(c.head || c.end != nil || l.undecided && l.reader == c, "an error is an event, or part of an answer")
	w.must(slices.ContainsFunc(l.requests, func(r *request) bool { return r.id == o.ID }), "an error for a request of the stream")
	if o.Nonce != 0 {
		id := primerID{o.Stream, o.Seq, o.Nonce}
		w.must(!w.primers[id], "an id is never used again")
		w.primers[id] = true
		w.must(int(o.Seq) > len(l.msgs) || l.orphaned || l.restored && o.Reason == StoreFailed, "only past the end, or where the numbers after it may have been given")
		w.must((o.Reason == OwnerLost) == slices.ContainsFunc(l.requests, func(r *request) bool { return r.id == o.ID && r.state == orphaned }), "who was lost")
		c.late = append(c.late, o)
		return
	}
	c.late = nil
	c.hole = true
	w.cursors = append(w.cursors, cursor{log: l, seq: int(o.Seq), hole: true})
}

// lose breaks a connection; some of what it wrote may have got through unreported.
func (w *world) lose(c *conn) {
	if w.pick(2) == 0 {
		w.write(c, w.pick(4), w.pick(2) == 0)
	}
	w.gone(c)
}

// gone reports the end of a connection.
func (w *world) gone(c *conn) {
	if c.gone || w.over {
		return
	}
	c.gone = true
	w.live = slices.DeleteFunc(w.live, func(other *conn) bool { return other == c })
	in := In{Op: Gone, Conn: c.id}
	l := c.log
	current := false
	if l != nil {
		in.Stream = l.id
		if current = !l.dropped && (l.reader == c || l.closing == c); current {
			l.reader, l.closing = nil, nil
			l.undecided = false
			w.away(l)
		}
	}
	w.active = w.at()
	w.step(in)
	if !current || l == w.standalone || w.over {
		return
	}
	switch {
	case l.cancelled:
		w.must(l.dropped, "what was cancelled is not kept")
	case !l.known:
		w.must(l.stranded || l.dropped, "what nobody has an id of is not kept")
	default:
		w.must(!l.stranded && !l.dropped, "what somebody has an id of is kept")
	}
}

// away notes when the client of a stream is due back.
func (w *world) away(l *log) {
	l.dueBack = w.at() + l.retry
	w.dueBack = max(w.dueBack, l.dueBack)
}

// ordered notes that a connection was told to end.
func (w *world) ordered(in In, c *conn, l *log, o Out) {
	w.must(c.head || o.Reason == Deleted || o.Reason == Moved, "who ends has begun")
	w.must(o.Dur == 0 || w.polls, "only who can poll is told when")
	w.must(int(o.Seq) <= len(l.msgs), "it ends after what is there")
	w.must(o.Older == (c.chained && (o.Reason == NoReason || o.Reason == Shutdown)), "who has the time gets what is before, and nobody else")
	before := c.end
	again := before != nil
	c.end = &o
	current := l.reader == c
	switch {
	case c.empty || l.dropped:
		return
	case o.Reason == Moved: // for this process
		w.must(o.Dur == 0 || w.polls, "only who can poll is told when")
		comes := l == w.standalone || l.known && w.trusted() // others got errors
		w.must(o.Dur > 0 || !w.polls || c.hole || !comes, "who can come back and has no answer is told to")
		return
	case o.Reason == Deleted || o.Reason == Idle || o.Reason == Terminated: // the session ends
		w.must(o.Dur == 0, "there is nothing to come back to")
		return
	case in.Op == Tick && again:
		w.checkCut(c, l, before, o)
		return
	case o.Reason == TakenOver:
		w.must(in.Op == Get && o.Seq == 0 && (current || l.closing == c), "the old reader ends at once")
		if current {
			l.reader = nil
		}
		return
	case in.Op == Full:
		w.must(l.closing == c && int(o.Seq) == len(l.msgs), "it ends before what was taken back")
		return
	case in.Op == Lost:
		w.must(l.closing == c && int(o.Seq) == len(l.msgs)-1 && !(l.ended && l.response && l.poll != pollDue), "it ends before what has no id")
		return
	case in.Op == Gap && !current:
		return
	case in.Op != Gap:
		w.must(int(o.Seq) == len(l.msgs), "it ends after all that is there")
	}
	w.must(current && !again, "only who reads is told to end")
	if l.ended {
		w.must(o.Dur == 0, "nobody is told to come back to what has ended")
	} else if in.Op != Gap {
		w.checkLetGo(in, c, l, o)
	}
	l.reader, l.closing, l.poll = nil, c, pollNone
	if o.Dur > 0 {
		l.retry = o.Dur
	}
	if o.Dur > 0 && o.Reason == NoReason && l != w.standalone {
		l.poll = pollDue
	}
	w.away(l)
}

// checkLetGo checks a close before the response.
func (w *world) checkLetGo(in In, c *conn, l *log, o Out) {
	w.must(l == w.standalone || w.resumable(l), "nobody is sent away who cannot come back")
	least := 0
	if in.Op == Tick {
		w.checkTime(c, l)
		if c.cut = true; len(l.msgs) > c.from+1 || c.chained {
			least = c.from + 1
		}
	}
	w.must(int(o.Least) == least, "whose time is over may leave when it has written something, and nobody else")
	if !w.polls {
		return
	}
	switch {
	case in.Op == Tick:
		l.empties = 0 // it was held
	case o.Reason != Shutdown && c.poll && len(l.msgs) == c.from && !c.chained:
		l.empties++
	}
	d := l.policy.Retry
	for range l.empties {
		d = min(d*3/2, l.policy.RetryMax)
	}
	switch {
	case in.Op == Close && in.Dur > 0:
		d = in.Dur
	case in.Op == Press:
		d = minRetry
	}
	w.must(o.Dur >= d && o.Dur <= d+d/5, "retry %v after %d empty polls, not %v", o.Dur, l.empties, d)
}

// checkTime checks that a connection has lasted as long as it may.
func (w *world) checkTime(c *conn, l *log) {
	reached := func(d time.Duration) bool { return d > 0 && w.at() >= c.since+d }
	w.must(reached(l.policy.CloseAfter) || reached(c.limit), "nobody is let go before it is time")
}

// checkCut checks that a connection need not write all that it was told to: its time is over, and the rest can be fetched.
func (w *world) checkCut(c *conn, l *log, before *Out, o Out) {
	w.checkTime(c, l)
	w.must(l.closing == c && w.cuttable(l), "once, and only who has something left")
	w.must(o.Seq == before.Seq && int(o.Least) == c.from+1, "it gets something, and may get all")
	c.cut = true
	switch d := l.policy.Retry; {
	case l.cancelled:
		w.must(o.Dur == 0, "nothing of it is to be fetched")
	case l.ended && int(o.Seq) == len(l.msgs):
		w.must(o.Reason == Ended && o.Dur >= d && o.Dur <= d+d/5, "the rest can be fetched soon, not in %v", o.Dur)
		l.retry, l.empties = o.Dur, 0
	default:
		w.must(o.Dur == l.retry, "it was told already when to be back")
		l.empties = 0
	}
	w.away(l)
}

// cuttable: a connection that was told to end has something left to write that its client could come back for.
func (w *world) cuttable(l *log) bool {
	c := l.closing
	return c != nil && w.resumable(l) && (int(c.end.Seq) > c.from+1 || c.chained)
}

func (w *world) close() {
	l := w.someLog()
	in := In{Op: Close, Stream: l.id, Dur: time.Duration(w.pick(3)) * 7 * time.Second}
	reader := l.reader
	can := !l.ended && w.resumable(l)
	w.must(w.m.Resumable(l.id) == can, "who can be let go is known beforehand")
	outs := w.step(in)
	switch {
	case l.ended:
		w.must(len(outs) == 1 && outs[0].Do == Refuse && outs[0].Reason == Ended, "what has ended cannot be closed")
	case reader == nil:
		w.must(len(outs) == 0, "who is away stays away")
	case !can:
		w.must(len(outs) == 1 && outs[0].Do == Refuse && outs[0].Reason == NotResumable, "who cannot come back stays")
	default:
		w.must(reader.end != nil && l.reader == nil, "who can come back is let go")
	}
}

func (w *world) cancel() {
	r := w.inflight[strconv.Itoa(w.pick(6))]
	if r == nil || r.state == held {
		id := "none"
		if r != nil {
			id = r.id
		}
		w.active = w.at()
		w.must(len(w.step(In{Op: Cancel, ID: id})) == 0, "what does not run cannot be cancelled")
		return
	}
	l := r.log
	w.active = w.at()
	w.done(r)
	l.cancelled = l.ended && !slices.ContainsFunc(l.requests, func(r *request) bool { return r.seq > 0 })
	unanswered, holding := l.unanswered()
	reader := l.reader
	named := w.spelt(r.value)
	outs := w.step(In{Op: Cancel, ID: named.ID, Key: named.Key})
	w.must(len(outs) > 0 && outs[0].Do == CancelApp && outs[0].ID == r.id && outs[0].Stream == l.id, "a cancellation reaches its request")
	if unanswered > 0 && unanswered == holding {
		w.must(reader.json && l.dropped, "what was held does not wait for what was cancelled")
		return
	}
	w.must(!l.ended || reader == nil || reader.end != nil || reader.refused, "a cancelled request has no reader")
}

// pass lets time pass, and ticks if something is due; sometimes late, sometimes early.
func (w *world) pass() {
	deadline := w.m.Deadline()
	switch w.pick(6) {
	case 0:
		w.now = w.now.Add(time.Duration(w.pick(200)) * time.Millisecond)
	case 1:
		w.now = w.now.Add(time.Duration(w.pick(60)) * time.Second)
	case 2:
		w.now = w.now.Add(time.Duration(w.pick(20)) * time.Minute)
	default:
		if deadline.After(w.now) {
			w.now = deadline
		}
	}
	late := !deadline.IsZero() && !deadline.After(w.now)
	if w.pick(8) == 0 && late {
		return
	}
	w.healed = false
	outs := w.ticks()
	w.must(late || len(outs) == 0, "nothing is done before it is due")
	if w.healed && !w.over && !w.m.Deadline().After(w.now) { // whose time was over meanwhile may be let go now
		w.ticks()
	}
	if !w.over {
		next := w.m.Deadline()
		w.must(next.IsZero() || next.After(w.now), "what was due is done")
	}
}

// settle lets an append that is under way end: well, or not.
func (w *world) settle(l *log) {
	if !l.pending || w.over {
		return
	}
	l.pending = false
	seq := uint64(len(l.msgs))
	switch k := w.pick(8); {
	case k == 0 && !l.response:
		l.msgs = l.msgs[:len(l.msgs)-1]
		w.list(l)
		w.step(In{Op: Full, Stream: l.id, Seq: seq})
	case k == 1:
		if l.lost < 0 {
			l.lost = int(seq) - 1
		}
		w.step(In{Op: Lost, Stream: l.id, Seq: seq})
	case k <= 4 && l.lost >= 0:
		l.lost, w.healed = -1, true
		w.step(In{Op: Healed, Stream: l.id, Seq: seq})
	}
}

// trim drops events: of a stream that runs only what a client has acknowledged by coming back with a later cursor.
func (w *world) trim() {
	l := w.someLog()
	n := l.acked
	if l.ended {
		n = l.committed()
	}
	l.trimmed = max(l.trimmed, min(n, l.committed()))
}

func (w *world) adjust() {
	l := w.someLog()
	d := func() time.Duration { return []time.Duration{0, -1, 5 * time.Second, 5 * time.Minute}[w.pick(4)] }
	p := Policy{CloseAfter: d(), AbandonAfter: d(), MaxRuntime: d(), Retain: time.Second, StreamAfter: time.Second}
	if !l.ended {
		for _, f := range []struct {
			dst *time.Duration
			v   time.Duration
		}{{&l.policy.CloseAfter, p.CloseAfter}, {&l.policy.AbandonAfter, p.AbandonAfter}, {&l.policy.MaxRuntime, p.MaxRuntime}} {
			if f.v != 0 {
				*f.dst = f.v
			}
		}
	}
	outs := w.step(In{Op: Adjust, Stream: l.id, Policy: &p})
	w.must(l.ended == (len(outs) > 0), "what runs can be changed")
}
