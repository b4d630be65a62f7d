package core

import "time"

// clientTrust is what the world has learnt about whether its client polls.
type clientTrust struct {
	proven, doubted bool
	missed          int // all that it ever missed; two count like more
}

// trusted reports whether the client is expected to come back after a detach.
func (w *world) trusted() bool { return w.polls && !w.doubted }

// late is when the client of a stream has failed to come back.
func (w *world) late(l *log) time.Duration {
	switch {
	case w.proven, l.poll != pollDue, l.reader != nil, l.closing != nil, l.stranded, l.dropped, l.ended && l.sent >= len(l.msgs):
		return never
	}
	return l.dueBack + 10*time.Second
}

// ticks lets what is due happen, and expects a word of doubt the first time that a client is late.
func (w *world) ticks() []Out {
	var due []*log
	for _, l := range w.kept {
		at := w.late(l)
		if l.ended && l.policy.Retain > 0 && at != never { // nobody is waited for after that
			at = min(at, max(l.endedAt, l.dueBack)+l.policy.Retain)
		}
		if at <= w.at() {
			due = append(due, l)
		}
	}
	news := len(due) > 0 && !w.draining && !w.doubted
	for _, l := range due {
		l.poll = pollMissed
		if !w.draining {
			w.missed++
		}
	}
	outs, said := w.step(In{Op: Tick}), 0
	for _, o := range outs {
		if o.Do == Doubt {
			said++
			w.must(w.byID[o.Stream].poll == pollMissed, "a doubted client has missed a poll")
		}
	}
	w.must(said == map[bool]int{true: 1}[news], "doubt is expressed once, when it begins: %d of %d", said, len(due))
	return outs
}

// cameBack notes that the client asked for the stream of a request; nil: one that is not known any more.
func (w *world) cameBack(l *log) {
	if l != nil && l.id[0] == 'S' {
		return
	}
	if l != nil && l.poll != pollNone && !l.dropped {
		w.proven = true
	}
	if w.proven || w.missed < 2 {
		w.doubted = false
	}
}
