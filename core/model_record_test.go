package core

import (
	"slices"
	"time"
)

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
	if w.inflight[r.value] == r {
		delete(w.inflight, r.value)
	}
	if n, _ := r.log.unanswered(); n == 0 && !r.log.ended {
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
			if r.id == in.ID && r.unanswered() {
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
		at = min(at, w.late(l))
		switch {
		case l.ended:
			if w.cuttable(l) && !l.closing.cut {
				when(l.closing.since, l.policy.CloseAfter)
				when(l.closing.since, l.closing.limit)
			}
			if l.reader == nil && l.closing == nil {
				when(max(l.endedAt, l.dueBack), l.policy.Retain)
			}
		default:
			if l.reader != nil && l.undecided && !l.json && !l.buffered {
				when(l.posted, l.policy.StreamAfter)
			}
			if c := l.reader; c != nil && w.resumable(l) {
				when(c.since, l.policy.CloseAfter)
				when(c.since, c.limit)
			} else if w.cuttable(l) && !l.closing.cut {
				when(l.closing.since, l.policy.CloseAfter)
				when(l.closing.since, l.closing.limit)
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
