package core

import "slices"

// drop notes that a stream is gone.
func (w *world) drop(in In, l *log) {
	w.must(l.ended && l.reader == nil, "only what has ended is dropped, and not while it is read")
	switch {
	case l.stranded, len(l.msgs) == 0 && !l.cancelled:
	case l.cancelled && l.closing == nil:
	case in.Op == Reply, in.Op == Cancel:
		w.must(w.crowded() && l == w.evictable(), "only the oldest makes room")
	case in.Op == Gone:
		w.must(!l.known, "what somebody has an id of is not dropped by a disconnect")
	default:
		w.must(in.Op == Tick && l.closing == nil && w.at() >= max(l.endedAt, l.dueBack)+l.policy.Retain, "what is recorded is kept for Retain")
	}
	l.dropped = true
	if w.issued(l) {
		w.rememberDropped(l)
	}
	w.kept = slices.DeleteFunc(w.kept, func(other *log) bool { return other == l })
}

// crowded: more has ended than is kept.
func (w *world) crowded() bool {
	ended, ids := 0, 0
	for _, l := range w.kept {
		if l.ended {
			ended++
			ids += l.idBytes()
		}
	}
	return w.maxEnded > 0 && ended > w.maxEnded || w.idBytes > 0 && ended > 1 && ids > w.idBytes
}

// rememberDropped remembers a stream, as long as there is room for it.
func (w *world) rememberDropped(l *log) {
	if w.idBytes > 0 && l.idBytes() > w.idBytes {
		l.forgotten = true
		return
	}
	w.remembered = append(w.remembered, l)
	for over := true; over; {
		ids := 0
		for _, other := range w.remembered {
			ids += other.idBytes()
		}
		if over = len(w.remembered) > w.remember || w.idBytes > 0 && ids > w.idBytes; over {
			w.remembered[0].forgotten = true
			w.remembered = w.remembered[1:]
		}
	}
}

// idBytes is what the ids of a stream's requests hold.
func (l *log) idBytes() (n int) {
	for _, r := range l.requests {
		n += len(r.id)
		if l.batch {
			n += memberBytes
		}
	}
	return n
}
