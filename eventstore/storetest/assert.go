package storetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// text is an event that names its stream and number, so that an event in the wrong place is noticed.
func text(stream string, seq uint64) []byte {
	return fmt.Appendf(nil, `{"stream":%q,"seq":%d}`, stream, seq)
}

// append appends the events from first to last, as text makes them. seal is for the last one.
func (e *exam) append(l eventstore.Log, stream string, first, last uint64, seal bool) {
	e.Helper()
	for seq := first; seq <= last; seq++ {
		e.nilError(l.Append(e.ctx, seq, [][]byte{text(stream, seq)}, seal && seq == last), "append event %d of %q", seq, stream)
	}
}

func (e *exam) nilError(err error, format string, args ...any) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

func (e *exam) wantError(err, want error, format string, args ...any) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("%s: got error %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

// wantBehind checks that an append was refused because the store has only last events.
func (e *exam) wantBehind(err error, last uint64, format string, args ...any) {
	e.Helper()
	behind, ok := errors.AsType[*eventstore.BehindError](err)
	if !ok || behind.Last != last {
		e.Fatalf("%s: got error %v, want a BehindError with Last %d", fmt.Sprintf(format, args...), err, last)
	}
}

// wantUnknown checks that an append to an unknown log of another event than the first was refused.
func (e *exam) wantUnknown(err error, format string, args ...any) {
	e.Helper()
	if !errors.Is(err, eventstore.ErrGone) { // a store may have a tombstone
		e.wantBehind(err, 0, format, args...)
	}
}

// state reads the state of a log.
func (e *exam) state(l eventstore.Log) eventstore.State {
	e.Helper()
	n, st, err := l.Read(e.ctx, 0, nil, 0)
	e.nilError(err, "read into an empty buffer")
	if n != 0 {
		e.Fatalf("read %d events into an empty buffer", n)
	}
	return st
}

func (e *exam) wantState(l eventstore.Log, want eventstore.State, why string) {
	e.Helper()
	if st := e.state(l); st != want {
		e.Fatalf("%s: the state of the log is %+v, want %+v", why, st, want)
	}
}

// wantGone checks that l was dropped.
func (e *exam) wantGone(l eventstore.Log, nextSeq uint64, why string) {
	e.Helper()
	_, _, err := l.Read(e.ctx, 0, make([]eventstore.Event, 4), 0)
	e.wantError(err, eventstore.ErrGone, "%s: read", why)
	for _, seal := range []bool{false, true} {
		err = l.Append(e.ctx, nextSeq, [][]byte{text("late", nextSeq)}, seal)
		e.wantError(err, eventstore.ErrGone, "%s: append event %d, seal %v", why, nextSeq, seal)
		err = l.Restore(e.ctx, nextSeq, [][]byte{text("late", nextSeq)}, seal)
		e.wantError(err, eventstore.ErrGone, "%s: restore event %d, seal %v", why, nextSeq, seal)
	}
	e.wantError(e.begin(l, nextSeq), eventstore.ErrGone, "%s: append no events", why)
}

// wantNothing checks that a new handle finds no events of a dropped log. A store may still know that the log was dropped.
func (e *exam) wantNothing(l eventstore.Log, why string) {
	e.Helper()
	_, st, err := l.Read(e.ctx, 0, nil, 0)
	if err == nil && st != (eventstore.State{First: 1}) {
		e.Fatalf("%s: a new handle reads %+v", why, st)
	}
	if err != nil {
		e.wantError(err, eventstore.ErrGone, "%s: read through a new handle", why)
	}
}

// all reads a log after event after to its end, into a buffer of size.
func (e *exam) all(l eventstore.Log, after uint64, size int) (events []eventstore.Event, st eventstore.State) {
	e.Helper()
	buf := make([]eventstore.Event, size)
	for {
		clear(buf)
		n, st, err := l.Read(e.ctx, after, buf, 0)
		e.nilError(err, "read after %d", after)
		if n < 0 || n > size {
			e.Fatalf("read %d events into a buffer for %d", n, size)
		}
		if n == 0 {
			if max(after, st.First-1) < st.Last {
				e.Fatalf("read nothing after %d of a log with state %+v", after, st)
			}
			return events, st
		}
		for _, ev := range buf[:n] {
			if ev.Seq <= after {
				e.Fatalf("event %d follows event %d", ev.Seq, after)
			}
			after = ev.Seq
		}
		events = append(events, buf[:n]...)
	}
}

// wantEvents checks that l has exactly the events from first to last, as text makes them, and the state that follows from that.
func (e *exam) wantEvents(l eventstore.Log, stream string, first, last uint64, sealed bool, why string) {
	e.Helper()
	for _, size := range []int{3, 64} {
		events, st := e.all(l, first-1, size)
		if want := (eventstore.State{First: first, Last: last, Sealed: sealed}); st != want {
			e.Fatalf("%s: the state of the log is %+v, want %+v", why, st, want)
		}
		e.wantText(events, stream, first, last, why)
	}
}

func (e *exam) wantText(events []eventstore.Event, stream string, first, last uint64, why string) {
	e.Helper()
	if want := int(last - first + 1); len(events) != want {
		e.Fatalf("%s: read %d events, want %d", why, len(events), want)
	}
	for i, ev := range events {
		seq := first + uint64(i)
		if ev.Seq != seq {
			e.Fatalf("%s: event %d came in the place of %d", why, ev.Seq, seq)
		}
		if want := text(stream, seq); !bytes.Equal(ev.Data, want) {
			e.Fatalf("%s: event %d reads %.80q, want %q", why, seq, ev.Data, want)
		}
	}
}
