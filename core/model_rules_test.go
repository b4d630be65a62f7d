package core

import (
	"slices"
	"strconv"
	"time"
)

// open reports whether a request is still to be answered.
func (r *request) open() bool { return r.state != settled }

// opens are the requests of a stream that are open.
func (l *log) opens() (open, holding int) {
	for _, r := range l.requests {
		if r.open() {
			open++
		}
		if r.state == held {
			holding++
		}
	}
	return open, holding
}

// committed is how much of a stream can be read.
func (l *log) committed() int {
	if l.pending {
		return len(l.msgs) - 1
	}
	return len(l.msgs)
}

// resumable: the client can be sent away.
func (w *world) resumable(l *log) bool { return w.polls && l.lost < 0 && !l.json && !l.stranded }

// missing are the requests whose response a client at that position does not have, and would have got.
func (l *log) missing(pos int) (ids []string) {
	for _, r := range l.requests {
		if r.open() || r.seq > pos {
			ids = append(ids, r.id)
		}
	}
	return ids
}

func (w *world) post() {
	w.stream++
	c := w.connect()
	p := w.policy
	if w.pick(4) == 0 {
		p.Mode = []Mode{Auto, SSE, JSON}[w.pick(3)]
	}
	in := In{Op: Post, Stream: streamID("r" + strconv.Itoa(w.stream)), Conn: c.id, Dur: c.limit, Nonce: uint64(c.id), Policy: &p}
	ids := []string{strconv.Itoa(w.pick(6))}
	if w.pick(4) == 0 {
		for range 1 + w.pick(2) {
			ids = append(ids, strconv.Itoa(w.pick(6)))
		}
		for _, id := range ids {
			in.Batch = append(in.Batch, Request{ID: id})
		}
	} else {
		in.ID = ids[0]
	}
	if w.pick(8) == 0 {
		in.Flags |= NoFlush
	}
	want, pending := NoReason, 0
	for k, id := range ids {
		if r := w.inflight[id]; r != nil && !r.log.stranded || slices.Contains(ids[:k], id) {
			want = Duplicate
		}
	}
	for _, l := range w.kept {
		open, _ := l.opens()
		pending += open
	}
	if w.maxInFlight > 0 && pending+len(ids) > w.maxInFlight {
		want = TooMany
	}
	if w.draining {
		want = Draining
	}
	w.active = w.at()
	outs := w.step(in)
	w.must(len(outs) == 1, "a POST is refused or started")
	if want != NoReason {
		w.must(outs[0].Do == Refuse && outs[0].Reason == want, "refused for %s: %s", reasonNames[want], show(outs[0]))
		return
	}
	w.must(outs[0].Do == Start, "started: %s", show(outs[0]))
}

// start is what a POST becomes that is not refused.
func (w *world) start(in In, o Out) {
	l := &log{
		id: in.Stream, index: o.Index, policy: *in.Policy, json: in.Policy.Mode == JSON || in.Flags&NoFlush != 0 && !w.polls, undecided: true,
		posted: w.at(), lost: -1,
	}
	l.buffered = in.Flags&NoFlush != 0 && !l.json
	for _, other := range w.kept {
		w.must(other.index != l.index, "each stream has a place of its own")
	}
	ids := []string{in.ID}
	if in.Batch != nil {
		ids = nil
		for _, r := range in.Batch {
			ids = append(ids, r.ID)
		}
	}
	for _, id := range ids {
		r := &request{id: id, log: l}
		l.requests = append(l.requests, r)
		w.inflight[id] = r
	}
	w.logs, w.kept = append(w.logs, l), append(w.kept, l)
	w.byID[l.id] = l
	c := w.conns[in.Conn-1]
	c.log, c.since, l.reader = l, w.at(), c
}

func (w *world) connect() *conn {
	c := &conn{id: ConnID(len(w.conns) + 1)}
	if w.pick(6) == 0 {
		c.limit = 3 * time.Second
	}
	w.conns, w.live = append(w.conns, c), append(w.live, c)
	return c
}

// fresh opens the standalone stream without a cursor.
func (w *world) fresh() {
	c := w.connect()
	in := In{Op: Get, Conn: c.id, Nonce: uint64(c.id), Dur: c.limit}
	c.fresh, c.noflush = true, w.pick(8) == 0
	want := NoReason
	if c.noflush {
		in.Flags |= NoFlush
	}
	if w.off || c.noflush {
		want = NoStandalone
	}
	if w.draining {
		want = Draining
	}
	w.active = w.at()
	w.step(in)
	w.must(c.refused == (want != NoReason) && c.reason == want, "a fresh GET: refused for %q, not %q", reasonNames[c.reason], reasonNames[want])
	w.must(c.refused || c.head, "a fresh GET is served at once")
}

// resume comes back with a cursor, and returns the connection if there is something to read.
func (w *world) resume(cur cursor) *conn {
	if w.over {
		return nil
	}
	c, l := w.connect(), cur.log
	c.asked, c.noflush = &cur, w.pick(8) == 0
	in := In{Op: Get, Flags: HasCursor, Conn: c.id, Nonce: uint64(c.id), Stream: l.id, Seq: uint64(cur.seq), Dur: c.limit}
	if c.noflush {
		in.Flags |= NoFlush
	}
	missing := l.missing(cur.seq)
	nothing := l.cancelled || !l.stranded && l.ended && cur.seq == len(l.msgs) || cur.seq > len(l.msgs) || l.dropped && len(missing) == 0
	w.active = w.at()
	outs := w.step(in)
	switch {
	case l.forgotten:
		w.must(c.refused && c.reason == Unknown, "what was forgotten is unknown")
	case cur.hole && c.refused:
		w.must(c.reason == NothingLeft, "a cursor that was issued is not refused, whatever came of it")
		return nil
	case cur.hole:
	case nothing:
		w.must(c.refused && c.reason == NothingLeft, "nothing is left after %d of %d: %q", cur.seq, len(l.msgs), reasonNames[c.reason])
		return nil
	case l.dropped, l.stranded:
		w.must(c.empty && !c.refused, "what is gone is told in a stream")
		var ids []string
		for _, o := range outs {
			if o.Do == Expire {
				ids = append(ids, o.ID)
			}
		}
		w.must(slices.Equal(ids, missing), "errors for %v, not for %v", missing, ids)
	default:
		w.must(!c.refused && !c.empty && c.head, "a cursor that was issued is served")
		brief := c.noflush && w.resumable(l) || l == w.standalone && (c.noflush || w.final || w.draining && w.resumable(l))
		w.must((c.end != nil) == (l.ended || brief), "it ends at once only if nothing more can come")
	}
	if c.refused {
		return nil
	}
	return c
}

// forge comes with a cursor that was never issued.
func (w *world) forge() {
	c := w.connect()
	in := In{Op: Get, Flags: HasCursor, Conn: c.id, Nonce: uint64(c.id), Stream: streamID("x"), Seq: uint64(w.pick(3))}
	if l := w.logs[w.pick(len(w.logs))]; w.pick(3) > 0 {
		in.Stream = l.id
		if l.sse || len(l.msgs) > 0 {
			in.Seq = uint64(len(l.msgs) + 100)
		}
	}
	w.active = w.at()
	w.step(in)
	w.must(c.refused && c.reason == Unknown, "a cursor that was never issued is unknown")
}

// attach makes a connection the reader of a stream.
func (w *world) attach(c *conn, l *log, o Out) {
	c.pos = int(o.Seq)
	c.base, c.from, c.poll = c.pos, c.pos, !c.fresh
	c.log, c.since = l, w.at()
	if c.asked != nil {
		w.must(c.pos == c.asked.seq, "a resume goes on where its cursor says")
		c.base, c.got, c.hole = c.asked.base, slices.Clone(c.asked.got), c.asked.hole
	} else {
		w.must(l == w.standalone && c.pos == l.sent, "a fresh GET goes on after what was written")
	}
	if o.Index < 0 {
		w.must(l.dropped || l.stranded, "only what is gone cannot be read")
		c.empty = true
		return
	}
	w.must(l.reader == nil && (l.closing == nil || l.closing.end.Reason == TakenOver), "the old reader ends before the new one begins")
	l.reader, l.closing = c, nil
	if c.asked != nil {
		l.known = true
		l.acked = max(l.acked, min(c.pos, l.committed()))
	}
}

func (w *world) emit() {
	in := In{Op: Emit, Flags: []Flags{0, 0, Progress, Ask, Progress | Task}[w.pick(5)]}
	var call *log
	if w.pick(6) > 0 {
		call = w.logs[w.pick(len(w.logs))]
		in.Stream = call.id
	}
	to, why := w.route(call, in.Flags)
	if to != nil {
		w.settle(to)
		to, why = w.route(call, in.Flags)
	}
	if w.over {
		return
	}
	w.messages++
	w.message = w.messages
	w.want = to
	if to != nil {
		w.must(w.m.Route(&in) == to.index, "the route is known beforehand")
	} else {
		w.must(w.m.Route(&in) == -1, "that there is no route is known beforehand")
	}
	outs := w.step(in)
	if to == nil {
		w.must(len(outs) == 1 && outs[0].Do == Discard && outs[0].Reason == why, "discarded for %s", reasonNames[why])
		return
	}
	w.must(recorded(outs), "a message is recorded where it belongs")
}

// route says on which stream a message of a call belongs.
func (w *world) route(call *log, f Flags) (*log, Reason) {
	if call == w.standalone {
		call = nil
	}
	switch {
	case call == nil:
	case call.ended:
		if f&Progress != 0 && f&Task == 0 {
			return nil, Worthless
		}
	case call.stranded:
		return nil, Unreachable
	case !call.json && !(call.buffered && call.undecided):
		return call, NoReason
	case f&Progress != 0:
		return nil, Worthless
	case f&Ask != 0 && w.standalone.reader == nil:
		return nil, NoStream
	}
	if w.off {
		return nil, NoStandalone
	}
	return w.standalone, NoReason
}

// reply answers some request, once more if it was answered already.
func (w *world) reply() {
	l := w.someLog()
	if l == nil || len(l.requests) == 0 {
		return
	}
	w.messages++
	w.replyWith(l, l.requests[w.pick(len(l.requests))], w.messages)
}

// answer answers a request if it is open.
func (w *world) answer(l *log, r *request) {
	if !w.over && r.state == awaited {
		w.messages++
		w.replyWith(l, r, w.messages)
	}
}

func (w *world) replyWith(l *log, r *request, message int) {
	w.settle(l)
	if w.over {
		return
	}
	w.message = message
	open, holding := l.opens()
	in := In{Op: Reply, Stream: l.id, ID: r.id}
	first := func(outs []Out, do Do, why Reason) {
		w.must(len(outs) > 0 && outs[0].Do == do && outs[0].Reason == why, "the response: %v", outs)
	}
	switch {
	case l.ended || r.state != awaited:
		first(w.step(in), Discard, Ended)
	case l.stranded:
		if l.sse || len(l.msgs) > 0 {
			r.seq = 1 << 30 // it counts as one that was dropped
		}
		w.done(r)
		first(w.step(in), Discard, Unreachable)
		w.must(l.dropped == l.ended, "an unreachable stream is not kept")
	case l.undecided && (l.json || l.buffered || l.policy.Mode != SSE) && open > holding+1:
		r.state, r.wanted = held, message
		first(w.step(in), Hold, NoReason)
	case l.undecided && (l.json || l.buffered || l.policy.Mode != SSE):
		first(w.step(in), AnswerJSON, NoReason)
		w.must(l.dropped, "an answer in JSON is not kept")
	default:
		w.want = l
		w.must(recorded(w.step(in)), "a response is recorded")
	}
}

// list puts an ended stream behind those that ended before it, and one that was written out behind those that were before it.
func (w *world) list(l *log) {
	if read := l.sent >= len(l.msgs); l.ended && (l.rank == 0 || read && !l.read) {
		w.ranks++
		l.rank, l.read = w.ranks, read
	}
}

// evictable is the stream that has to make room: the oldest of those that were written out, else the oldest.
func (w *world) evictable() (first *log) {
	for _, l := range w.kept {
		if l.ended && (first == nil || l.read && !first.read || l.read == first.read && l.rank < first.rank) {
			first = l
		}
	}
	return first
}

func recorded(outs []Out) bool {
	return slices.ContainsFunc(outs, func(o Out) bool { return o.Do == Record })
}

// done takes a request out of flight. The last one ends its stream.
func (w *world) done(r *request) {
	r.state = settled
	if w.inflight[r.id] == r {
		delete(w.inflight, r.id)
	}
	if open, _ := r.log.opens(); open == 0 && !r.log.ended {
		r.log.ended, r.log.endedAt, w.active = true, w.at(), w.at()
		w.list(r.log)
	}
}

// record appends the message that is being stepped.
func (w *world) record(in In, l *log, o Out) {
	w.must(l == w.want, "a message is recorded where it belongs")
	w.must(!l.ended, "nothing is recorded after the end")
	w.must(!l.stranded && !l.undecided && !l.pending, "what is recorded can be read, and comes after what was recorded before")
	w.must(int(o.Seq) == len(l.msgs)+1, "sequences have no gaps")
	l.msgs = append(l.msgs, w.message)
	l.empties = 0
	l.pending, l.response = true, in.Op == Reply
	if in.Op == Reply {
		w.must(in.Stream == l.id, "a response goes to the stream of its request")
		for _, r := range l.requests {
			if r.id == in.ID && r.open() {
				r.seq = len(l.msgs)
				w.done(r)
				break
			}
		}
	}
	w.must(o.Seal == l.ended, "the last response, and nothing else, seals the stream")
	if w.pick(4) > 0 {
		l.pending = false
	}
}

// checkFail checks an error in place of a response.
func (w *world) checkFail(in In, l *log, o Out) {
	reached := func(from, d time.Duration) bool { return in.Op == Tick && d > 0 && w.at() >= from+d }
	switch o.Reason {
	case Overran:
		w.must(reached(l.posted, l.policy.MaxRuntime), "nothing overruns before it is time")
	case Abandoned:
		w.must(reached(l.dueBack, l.policy.AbandonAfter) && l.reader == nil && l.closing == nil, "nobody is overdue before it is time, or while he is there")
	default:
		w.must(in.Op == Stop && o.Reason == Shutdown, "nothing else fails a request")
	}
}

// state is where a stream stands.
func (w *world) state(l *log) State {
	switch {
	case l.dropped:
		return Dropped
	case l.ended:
		return Sealed
	case l.reader == nil:
		return Parked
	case l.undecided:
		return Pending
	}
	return Live
}

// due says when the next thing is to happen, stream by stream.
func (w *world) due() time.Duration {
	at := never
	when := func(from, d time.Duration) {
		if d > 0 {
			at = min(at, from+d)
		}
	}
	running := 0
	for _, l := range w.kept {
		switch {
		case l.ended:
			if l.reader == nil && l.closing == nil {
				when(max(l.endedAt, l.dueBack), l.policy.Retain)
			}
		default:
			if l.reader != nil && l.undecided && !l.json && !l.buffered {
				when(l.posted, l.policy.StreamAfter)
			}
			if l.reader != nil && w.resumable(l) {
				when(l.reader.since, l.policy.CloseAfter)
				when(l.reader.since, l.reader.limit)
			}
			if l == w.standalone {
				continue
			}
			running++
			if !l.failing {
				when(l.posted, l.policy.MaxRuntime)
			}
			if !l.failing && l.reader == nil && l.closing == nil {
				when(l.dueBack, l.policy.AbandonAfter)
			}
		}
	}
	if running == 0 && len(w.live) == 0 {
		when(max(w.active, w.dueBack), w.idle)
	}
	return at
}
