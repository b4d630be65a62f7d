package core

// press says that the store is short of room for a stream: of one connection, or of whichever reads.
func (w *world) press() {
	l := w.someLog()
	in := In{Op: Press, Stream: l.id}
	if c := w.someConn(); c != nil && w.pick(2) == 0 {
		in.Conn = c.id
	}
	reader := l.reader
	due := reader != nil && l != w.standalone && !l.ended && !l.undecided && !l.dropped && reader.reported > reader.from
	due = due && (in.Conn == 0 || in.Conn == reader.id)
	lets := due && w.resumable(l)
	outs := w.step(in)
	switch {
	case !due:
		w.must(len(outs) == 0, "only who has read more since it came has something to acknowledge")
	case lets:
		w.must(len(outs) == 1 && reader.end != nil && l.reader == nil, "who can come back is let go")
	default:
		w.must(len(outs) == 1 && outs[0].Do == Yield, "who cannot need not acknowledge")
	}
}
