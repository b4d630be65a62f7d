package core

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// unanswered reports whether a request is still to be answered.
func (r *request) unanswered() bool { return r.state == awaited || r.state == held }

// unanswered returns how many requests of a stream are not answered, and for how many of them the response is held.
func (l *log) unanswered() (n, holding int) {
	for _, r := range l.requests {
		if r.unanswered() {
			n++
		}
		if r.state == held {
			holding++
		}
	}
	return n, holding
}

// committed is how much of a stream can be read.
func (l *log) committed() int {
	if l.pending {
		return len(l.msgs) - 1
	}
	return len(l.msgs)
}

// resumable: the client can be sent away.
func (w *world) resumable(l *log) bool { return w.trusted() && l.lost < 0 && !l.json && !l.stranded }

// missing are the requests whose response a client at that position does not have, and would have got.
func (l *log) missing(pos int) (ids []string) {
	for _, r := range l.requests {
		if r.state != settled || r.seq > pos {
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
	in := In{Op: Post, Stream: streamID("r" + strconv.Itoa(w.stream)), Conn: c.id, Dur: c.limit, Nonce: uint64(c.id) << 8, Policy: &p}
	ids := []string{strconv.Itoa(w.pick(6))}
	if w.pick(4) == 0 {
		for range 1 + w.pick(2) {
			ids = append(ids, strconv.Itoa(w.pick(6)))
		}
		for _, id := range ids {
			in.Batch = append(in.Batch, w.spelt(id))
		}
	} else {
		alone := w.spelt(ids[0])
		in.ID, in.Key = alone.ID, alone.Key
	}
	if w.pick(8) == 0 {
		in.Flags |= NoFlush
	}
	places := len(ids)
	if w.pick(4) == 0 { // one of them is a ping
		places--
		if in.Batch != nil {
			in.Batch[0].Ping = true
		} else {
			in.Flags |= Ping
		}
	}
	want, pending := NoReason, 0
	for k, id := range ids {
		if r := w.inflight[id]; r != nil && !r.log.stranded || slices.Contains(ids[:k], id) {
			want = Duplicate
		}
	}
	for _, l := range w.kept {
		for _, r := range l.requests {
			if r.unanswered() && !r.ping {
				pending++
			}
		}
	}
	if w.maxInFlight > 0 && pending+places > w.maxInFlight {
		want = TooMany
	} else if in.Stale = w.pick(2) * w.pick(30); w.maxInFlight > 0 && pending+places+in.Stale > 4*w.maxInFlight {
		want = Stuck
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

// spelt is a request whose id may be another spelling of the value that ids are compared by.
func (w *world) spelt(value string) Request {
	switch w.pick(4) {
	case 0:
		return Request{ID: value, Key: value}
	case 1:
		return Request{ID: value + ".0", Key: value}
	case 2:
		return Request{ID: "+" + value, Key: value}
	}
	return Request{ID: value}
}

// start is what a POST becomes that is not refused.
func (w *world) start(in In, o Out) {
	l := &log{
		id: in.Stream, index: o.Index, policy: *in.Policy, json: in.Policy.Mode == JSON || in.Flags&NoFlush != 0 && !w.trusted(), undecided: true,
		posted: w.at(), lost: -1,
	}
	l.batch = in.Batch != nil
	l.buffered = in.Flags&NoFlush != 0 && !l.json
	for _, other := range w.kept {
		w.must(other.index != l.index, "each stream has a place of its own")
	}
	posted := in.Batch
	if posted == nil {
		posted = []Request{{ID: in.ID, Key: in.Key}}
	}
	for _, p := range posted {
		r := &request{id: p.ID, value: strings.Trim(strings.TrimSuffix(p.ID, ".0"), "+"), log: l, ping: in.Flags&Ping != 0 || p.Ping}
		l.requests = append(l.requests, r)
		w.inflight[r.value] = r
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
	in := In{Op: Get, Conn: c.id, Nonce: uint64(c.id) << 8, Dur: c.limit}
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
	in := In{Op: Get, Flags: HasCursor | ofStandalone(l.id), Conn: c.id, Nonce: uint64(c.id) << 8, Stream: l.id, Seq: uint64(cur.seq), Dur: c.limit}
	if c.noflush {
		in.Flags |= NoFlush
	}
	if l.id[0] == 'S' && l != w.standalone {
		return w.resumeOlder(c, cur, in)
	}
	if l.restored && !l.forgotten && cur.seq > len(l.msgs) {
		w.active = w.at()
		w.beyond(c, l, in)
		return nil
	}
	missing := l.missing(cur.seq)
	nothing := l.cancelled || !l.stranded && l.ended && cur.seq == len(l.msgs) && len(missing) == 0 || cur.seq > len(l.msgs)
	nothing = nothing || l.dropped && len(missing) == 0
	w.active = w.at()
	outs := w.step(in)
	switch {
	case l.forgotten:
		w.must(c.refused && c.reason == NothingLeft, "nothing is left of what was forgotten")
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
		w.mustLose(c, l)
	}
	if c.refused {
		return nil
	}
	return c
}

// forge comes with a cursor that was never issued.
func (w *world) forge() {
	c := w.connect()
	in := In{Op: Get, Flags: HasCursor, Conn: c.id, Nonce: uint64(c.id) << 8, Stream: streamID("x"), Seq: uint64(w.pick(3)), Dur: c.limit}
	if l := w.logs[w.pick(len(w.logs))]; w.pick(3) > 0 {
		in.Stream = l.id
		if l.sse || len(l.msgs) > 0 {
			in.Seq = uint64(len(l.msgs) + 100)
		}
	}
	w.active = w.at()
	l := w.byID[in.Stream]
	in.Flags |= ofStandalone(in.Stream)
	never := l != nil && !(w.polls && l.sse) && len(l.msgs) == 0 && !l.orphaned
	switch {
	case in.Flags&OfStandalone != 0 && l != w.standalone:
		w.beyondOlder(c, l, in)
		return
	case never && !l.dropped && !l.forgotten:
		w.step(in)
		w.must(c.refused && c.reason == Unknown, "a cursor that was never issued is unknown")
		return
	case l == nil, never, l.forgotten:
		w.cameBack(l)
		w.step(in)
		w.must(c.refused && c.reason == NothingLeft, "what the machine does not know was forgotten")
		return
	}
	w.beyond(c, l, in)
}

// beyond comes with a cursor past the end of a stream of which there are ids: its client keeps its session.
func (w *world) beyond(c *conn, l *log, in In) {
	if l == w.standalone {
		w.step(in)
		w.must(!c.refused && c.head && !c.empty, "the standalone stream goes on from what was written")
		return
	}
	w.cameBack(l)
	want := l.missing(0)
	outs := w.step(in)
	if len(want) == 0 {
		w.must(c.refused && c.reason == NothingLeft, "nothing ever comes of what was cancelled")
		return
	}
	var ids []string
	for _, o := range outs {
		if o.Do == Expire {
			ids = append(ids, o.ID)
		}
	}
	w.must(c.empty && slices.Equal(ids, want), "errors for %v, not for %v", want, ids)
	w.must(l.reader == nil || l.reader != c, "the one that reads goes on")
}

// attach makes a connection the reader of a stream.
func (w *world) attach(c *conn, l *log, o Out) {
	c.pos = int(o.Seq)
	c.base, c.from, c.poll = c.pos, c.pos, !c.fresh
	if o.Index < 0 && c.asked == nil { // past the end
		w.must(c.pos > len(l.msgs), "what there is can be read")
		c.log, c.since, c.empty, c.hole = l, w.at(), true, true
		return
	}
	c.log, c.since = l, w.at()
	if c.asked != nil && c.asked.log != l {
		w.must(l == w.standalone && c.asked.log.id[0] == 'S', "only the name of a standalone stream becomes another")
		want := l.sent
		if slices.Contains(w.older, c.asked.log) {
			want = 0
		}
		w.must(c.pos == want, "it reads all of the stream that comes after, or what was not written")
	} else if c.asked != nil {
		w.must(c.pos == c.asked.seq, "a resume goes on where its cursor says")
		c.base, c.got, c.hole = c.asked.base, slices.Clone(c.asked.got), c.asked.hole
	} else {
		w.must(l == w.standalone && c.pos == l.sent, "a fresh GET goes on after what was written")
	}
	if c.asked != nil {
		w.cameBack(c.asked.log)
	}
	if o.Index < 0 {
		w.must(l.dropped || l.stranded || c.pos > len(l.msgs), "only what is gone cannot be read")
		c.empty = true
		return
	}
	w.must(l.reader == nil && (l.closing == nil || l.closing.end.Reason == TakenOver), "the old reader ends before the new one begins")
	l.reader, l.closing, l.poll = c, nil, pollNone
	if c.asked != nil && c.asked.log == l {
		l.known = true
		l.acked = max(l.acked, min(c.pos, l.committed()))
	}
}

func (w *world) emit() {
	in := In{Op: Emit, Flags: []Flags{0, 0, Progress, Ask, Progress | Augmented}[w.pick(5)]}
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
		if f&Progress != 0 && f&Augmented == 0 {
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

// answer answers a request if it is still to be answered.
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
	unanswered, holding := l.unanswered()
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
	case l.undecided && (l.json || l.buffered || l.policy.Mode != SSE) && unanswered > holding+1:
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
