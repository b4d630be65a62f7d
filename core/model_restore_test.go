package core

import (
	"slices"
	"strconv"
)

func ofStandalone(id StreamID) Flags {
	if id[0] == 'S' {
		return OfStandalone
	}
	return 0
}

// issued reports whether a client may know an id of a stream.
func (w *world) issued(l *log) bool { return w.polls && l.sse || len(l.msgs) > 0 || l.orphaned }

// restore goes on with the session in another process: connections, requests that run, streams without an id, and what did not reach the
// store are gone.
func (w *world) restore() {
	snap := w.m.Snapshot()
	w.must(snap.CanPoll == w.polls && snap.Standalone == w.standalone.id && snap.Version == map[bool]string{true: "2025-11-25", false: "2025-03-26"}[w.polls],
		"the session is the same")
	w.must(len(snap.Older) == len(w.older), "older standalone streams are kept")
	for k, l := range w.older {
		w.must(snap.Older[k] == OlderStream{l.id, uint64(len(l.msgs))}, "each as it was")
	}
	for _, c := range w.live {
		c.gone = true
	}
	w.live = nil
	kept := w.kept[1:]
	w.kept = w.kept[:1]
	for _, l := range w.logs {
		l.forgotten = l.forgotten || l.dropped
	}
	w.remembered = nil
	for _, at := range snap.Streams {
		w.must(slices.ContainsFunc(kept, func(l *log) bool { return l.id == at.ID }), "%s is still there", at.ID)
	}
	for _, l := range kept {
		k := slices.IndexFunc(snap.Streams, func(at StreamSnapshot) bool { return at.ID == l.id })
		w.must((k >= 0) == (w.issued(l) && !l.cancelled), "%s is kept if a client may come back for it", l.id)
		if k < 0 {
			w.vanish(l)
			continue
		}
		w.checkSnapshot(l, &snap.Streams[k])
		w.orphan(l, &snap.Streams[k])
	}
	w.renewStandalone(snap)
	w.inflight = map[string]*request{}
	w.clientTrust, w.draining, w.final = clientTrust{}, false, false
	w.active, w.dueBack = w.at(), 0
	w.m = Restore(w.config(), snap, w.now)
	check(w, &w.m)
	for _, at := range snap.Streams {
		l := w.byID[at.ID]
		w.kept = append(w.kept, l)
		w.list(l)
	}
	for first := w.evictable(); first != nil && w.crowded(); first = w.evictable() {
		w.must(w.m.Index(first.id) == -1, "what has no room is not restored")
		first.dropped = true
		w.rememberDropped(first)
		w.kept = slices.DeleteFunc(w.kept, func(l *log) bool { return l == first })
	}
	for _, l := range w.kept {
		l.index = w.m.Index(l.id)
		w.must(l.index >= 0, "what has room is restored")
	}
	w.compare()
}

// vanish forgets a stream whose client has no id to come back with.
func (w *world) vanish(l *log) {
	l.dropped, l.forgotten, l.ended, l.pending, l.undecided, l.reader, l.closing = true, true, true, false, false, nil, nil
	for _, r := range l.requests {
		r.state = settled
	}
}

// checkSnapshot checks what a machine says of a stream to the next one.
func (w *world) checkSnapshot(l *log, at *StreamSnapshot) {
	w.must(int(at.Last) == len(l.msgs) && at.Sealed == (l.ended && !l.orphaned) && at.Retain == l.policy.Retain, "a stream is as it was")
	l.requests = slices.DeleteFunc(l.requests, func(r *request) bool { return r.state == settled && r.seq == 0 }) // cancelled
	for k, r := range l.requests {
		if r.seq > len(l.msgs) {
			r.seq, r.state = 0, orphaned
		}
		w.must(at.Requests[k] == Request{ID: r.id, Seq: uint64(r.seq)}, "and so are its requests: %s, %+v", l.id, at.Requests)
	}
	w.must(len(at.Requests) == len(l.requests), "all of them")
}

// orphan makes a stream one of another process: what has reached the store is there, and no more comes.
func (w *world) orphan(l *log, at *StreamSnapshot) {
	n := w.stored(l)
	at.Sealed = at.Sealed && n == len(l.msgs)
	at.Last, l.msgs = uint64(n), l.msgs[:n]
	for k, r := range l.requests {
		switch {
		case r.seq > n, r.state != settled:
			at.Requests[k].Seq, r.seq, r.state = 0, 0, orphaned
		case at.Sealed && len(l.requests) == 1 && r.seq == n && w.pick(2) == 0: // known without being said
			at.Requests[k].Seq = 0
		}
	}
	policy := w.policy
	policy.Retain = l.policy.Retain
	*l = log{
		id: l.id, msgs: l.msgs, trimmed: min(l.trimmed, n), acked: min(l.acked, n), requests: l.requests, batch: len(l.requests) != 1, policy: policy,
		sse: true, known: true, restored: true, ended: true, orphaned: !at.Sealed, posted: w.at(), endedAt: w.at(), lost: -1,
	}
}

// stored is how much of a stream the next process finds.
func (w *world) stored(l *log) int {
	n := len(l.msgs)
	if l.lost >= 0 {
		n = min(n, l.lost)
	}
	if l.pending && w.pick(2) == 0 {
		n = min(n, len(l.msgs)-1)
	}
	if w.pick(4) == 0 { // the engine lost some
		n = w.pick(n + 1)
	}
	return n
}

// renewStandalone gives the session a new standalone stream.
func (w *world) renewStandalone(snap *Snapshot) {
	old := w.standalone
	issued := w.issued(old)
	n := w.stored(old)
	w.vanish(old)
	if old.msgs = old.msgs[:n]; issued {
		w.older, snap.Older = append(w.older, old), append(snap.Older, OlderStream{old.id, uint64(n)})
	}
	if len(w.older) > 0 && w.pick(8) == 0 {
		w.older, snap.Older = w.older[1:], snap.Older[1:]
	}
	w.standalones++
	w.standalone = &log{id: streamID("S" + strconv.Itoa(w.standalones)), policy: w.policy, lost: -1}
	snap.Standalone = w.standalone.id
	w.byID[snap.Standalone] = w.standalone
	w.logs, w.kept = append(w.logs, w.standalone), []*log{w.standalone}
}

// resumeOlder comes back with a cursor of a standalone stream of another process.
func (w *world) resumeOlder(c *conn, cur cursor, in In) *conn {
	w.active = w.at()
	w.step(in)
	if w.off {
		w.must(c.refused && c.reason == NoStandalone, "it is off")
		return nil
	}
	l := w.standalone
	w.must(!c.refused && c.head && !c.empty && c.log == l, "the standalone stream goes on")
	w.must((c.end != nil) == (c.noflush || w.final || w.draining && w.resumable(l)), "it ends at once only if nothing more can come")
	var want []part
	if k := slices.Index(w.older, cur.log); k >= 0 {
		for j, older := range w.older[k:] {
			p := part{older, 0, len(older.msgs)}
			if j == 0 {
				p.pos = cur.seq
			}
			if p.pos < p.last {
				want = append(want, p)
			}
		}
	}
	w.must(slices.Equal(c.chain, want), "it begins with what it does not have of the older ones")
	return c
}

// beyondOlder does the same with a cursor past the end.
func (w *world) beyondOlder(c *conn, l *log, in In) {
	c.asked = &cursor{log: l, seq: int(in.Seq)}
	w.resumeOlder(c, *c.asked, in)
}

// mustLose checks what a client is told of requests whose owner was lost.
func (w *world) mustLose(c *conn, l *log) {
	var got, want []string
	for _, o := range c.late {
		w.must(int(o.Seq) == len(l.msgs), "after all that is there")
		got = append(got, o.ID)
	}
	for _, r := range l.requests {
		if r.state == orphaned {
			want = append(want, r.id)
		}
	}
	w.must(slices.Equal(got, want), "errors for %v, not for %v", want, got)
}

// readOlder makes a connection read another log before.
func (w *world) readOlder(c *conn, l *log, o Out) {
	w.must(o.Index == -1 && slices.Contains(w.older, l) && c.log == w.standalone && c.end == nil, "only before the standalone stream")
	w.must(int(o.Last) == len(l.msgs), "up to its end")
	c.chain, c.chained = append(c.chain, part{l, int(o.Seq), int(o.Last)}), true
}

// writeChain lets a connection write up to n events of what comes before its stream, and returns how many it may write of that.
func (w *world) writeChain(c *conn, n int) int {
	before := func() bool { return len(c.chain) > 0 && (c.end == nil || c.end.Older) && !w.over }
	for before() && n > 0 {
		p := &c.chain[0]
		p.pos = max(p.pos, min(p.log.trimmed, p.last))
		if p.pos < p.last {
			if w.pick(32) == 0 {
				w.gap(c)
				return 0
			}
			p.pos++
			n--
			c.brought = true
			w.cursors = append(w.cursors, cursor{log: p.log, seq: p.pos, base: p.pos})
		}
		if p.pos >= p.last {
			c.chain = c.chain[1:]
		}
	}
	if before() {
		return 0
	}
	return n
}
