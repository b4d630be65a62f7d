package core

import "slices"

// expectedErrors is what a connection must be told when its session ends: errors in place of responses.
type expectedErrors struct {
	c    *conn
	ids  []string
	have int // responses that it has written, or that are held for it
	all  int
}

// end ends the session from outside. At Terminated, who waits for responses gets each of them, or an error for it, exactly once; at
// Moved, who has no head yet or cannot come back.
func (w *world) end(why Reason) {
	var all []*expectedErrors
	for _, l := range w.kept {
		c := l.reader
		if c == nil {
			c = l.closing
		}
		if c == nil || l == w.standalone || c.cut && c.hole { // who could not read on has its errors
			continue
		}
		d := &expectedErrors{c: c}
		for _, r := range l.requests {
			switch {
			case r.state == settled && r.seq == 0: // cancelled
			case r.state == held, r.seq > 0 && r.seq <= c.pos:
				d.have++
				fallthrough
			default:
				d.all++
			}
		}
		all = append(all, d)
		if why != Terminated && (why != Moved || !l.undecided && l.known && w.trusted()) {
			continue
		}
		for _, r := range l.requests {
			if r.state == awaited || r.state == orphaned || r.seq > c.pos {
				d.ids = append(d.ids, r.id)
			}
		}
	}
	outs := w.step(In{Op: Delete, Reason: why})
	w.must(w.over, "the session ends")
	for _, d := range all {
		var ids []string
		for _, o := range outs {
			if o.Do == Expire && o.Conn == d.c.id && int(o.Seq) > d.c.pos {
				ids = append(ids, o.ID)
			}
		}
		w.must(slices.Equal(ids, d.ids), "errors for %v, not for %v", d.ids, ids)
		w.must(why != Terminated || len(ids)+d.have == d.all, "each request has one answer")
		w.must(why != Terminated || !d.c.refused, "nobody is refused who waits for an answer")
	}
}
