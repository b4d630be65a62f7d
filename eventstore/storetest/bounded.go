package storetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

const (
	chunk    = 16 << 10
	maxLimit = 16 << 20 // of a session; see Features.Bounded
)

// fill appends chunks to l until nothing fits, and returns the last event that fitted.
func (e *exam) fill(l eventstore.Log, from uint64) uint64 {
	e.Helper()
	for seq := from; seq < from+maxLimit/chunk; seq++ {
		if err := l.Append(e.ctx, seq, [][]byte{blob(chunk)}, false); err != nil {
			e.wantError(err, eventstore.ErrFull, "append event %d", seq)
			return seq - 1
		}
	}
	e.Fatalf("%d bytes of a running log fit in one session: see Features.Bounded", maxLimit)
	return 0
}

// wantFilled checks that a log that fill filled has lost nothing.
func (e *exam) wantFilled(l eventstore.Log, last uint64, why string) {
	e.Helper()
	events, st := e.all(l, 0, 64)
	if st.First != 1 || st.Last != last || len(events) != int(last) {
		e.Fatalf("%s: a running log has %d of %d events and the state %+v", why, len(events), last, st)
	}
	for _, ev := range events {
		if !bytes.Equal(ev.Data, blob(chunk)) {
			e.Fatalf("%s: event %d changed", why, ev.Seq)
		}
	}
}

func full(e *exam) {
	a, b := e.log("a"), e.log("b")
	e.nilError(a.Append(e.ctx, 1, [][]byte{blob(chunk)}, false), "append")
	last := e.fill(b, 1)
	if last < 8 {
		e.Fatalf("a session holds less than %d bytes: see Features.Bounded", 9*chunk)
	}
	a.Mark(eventstore.Mark{Written: 1}) // what was written is not acknowledged
	b.Mark(eventstore.Mark{Written: last})
	for range 3 {
		err := b.Append(e.ctx, last+1, [][]byte{blob(chunk)}, false)
		e.wantError(err, eventstore.ErrFull, "append to a full session")
	}
	e.wantFilled(a, 1, "when the session is full")
	e.wantFilled(b, last, "when the session is full")
	e.nilError(b.Append(e.ctx, last, [][]byte{blob(chunk)}, false), "repeat the last append of a full session")

	other := e.store.Log(eventstore.Key{Session: "other", Stream: "a"})
	e.nilError(other.Append(e.ctx, 1, [][]byte{text("other", 1)}, false), "a full session, and another one")

	e.nilError(a.Drop(e.ctx), "drop")
	e.nilError(b.Append(e.ctx, last+1, [][]byte{blob(chunk)}, false), "the same event, when a drop made room")
	e.wantFilled(b, last+1, "after a drop made room")
}

func fullTakesSeal(e *exam) {
	a, b := e.log("a"), e.log("b")
	e.nilError(a.Append(e.ctx, 1, [][]byte{blob(chunk)}, false), "append")
	last := e.fill(b, 1)
	for i := range 3 {
		l := e.log(fmt.Sprint("new", i))
		e.nilError(l.Append(e.ctx, 1, [][]byte{blob(4 * chunk)}, true), "seal a new log in a full session")
	}
	e.nilError(a.Append(e.ctx, 2, [][]byte{blob(4 * chunk)}, true), "seal a log in a full session")
	events, st := e.all(a, 0, 8)
	if len(events) != 2 || st != (eventstore.State{First: 1, Last: 2, Sealed: true}) {
		e.Fatalf("a seal in a full session: %d events, %+v", len(events), st)
	}
	e.wantFilled(b, last, "after seals in a full session")
	e.nilError(b.Append(e.ctx, last+1, [][]byte{text("b", last+1)}, true), "seal the log that fills the session")
}

func fullTakesNoPart(e *exam) {
	a, b := e.log("a"), e.log("b")
	last := e.fill(a, 1)
	part := [][]byte{text("a", last+1), blob(chunk), blob(chunk)}
	for range 2 {
		e.wantError(a.Append(e.ctx, last+1, part, false), eventstore.ErrFull, "append three events to a full log")
		again := append([][]byte{blob(chunk)}, part...)
		e.wantError(a.Append(e.ctx, last, again, false), eventstore.ErrFull, "repeat the last append to a full log, with three events behind")
		e.wantFilled(a, last, "after refused batches")
		e.wantError(b.Append(e.ctx, 1, part, false), eventstore.ErrFull, "append three events to a new log in a full session")
		e.wantState(b, eventstore.State{First: 1}, "after a refused batch")
	}
	e.nilError(b.Append(e.ctx, 1, part, true), "append three events to a new log in a full session, and seal it")
	events, st := e.all(b, 0, 8)
	if len(events) != 3 || st != (eventstore.State{First: 1, Last: 3, Sealed: true}) {
		e.Fatalf("three events that seal, in a full session: %d events, %+v", len(events), st)
	}
	e.nilError(a.Append(e.ctx, last+1, part, true), "append three events to a full log, and seal it")
}

// chunks are the events of a filled log from first to last.
func chunks(first, last uint64) (events [][]byte) {
	for range last + 1 - first {
		events = append(events, blob(chunk))
	}
	return events
}

func fullAndRestore(e *exam) {
	a, b := e.log("a"), e.log("b")
	last := e.fill(a, 1)
	for range 2 {
		e.nilError(a.Restore(e.ctx, 1, chunks(1, last), false), "restore what a full log has")
		e.wantFilled(a, last, "after a restore")
		e.wantError(a.Restore(e.ctx, 1, chunks(1, last+2), false), eventstore.ErrFull, "restore more than a full log has")
		e.wantFilled(a, last, "after a refused restore")
		e.wantError(b.Restore(e.ctx, 5, chunks(1, 2), false), eventstore.ErrFull, "restore a log in a full session")
		e.wantState(b, eventstore.State{First: 1}, "after a refused restore")
	}
	e.nilError(b.Restore(e.ctx, 5, chunks(5, 6), true), "restore a sealed log in a full session")
	events, st := e.all(b, 0, 8)
	if len(events) != 2 || st != (eventstore.State{First: 5, Last: 6, Sealed: true}) {
		e.Fatalf("a restore that seals, in a full session: %d events, %+v", len(events), st)
	}
	e.nilError(b.Drop(e.ctx), "drop")

	half := last / 2
	e.nilError(a.Restore(e.ctx, half, chunks(half, last), false), "restore a part of what a full log has")
	if st := e.state(a); st != (eventstore.State{First: half, Last: last}) {
		e.Fatalf("after a restore from event %d on, the state is %+v", half, st)
	}
	if now := e.fill(a, last+1); now < last+half-2 {
		e.Fatalf("a log that was full with %d events takes only %d after a restore without the first %d", last, now-last, half-1)
	}
}

func sealedMakeRoom(e *exam) {
	running := e.log("running")
	e.append(running, "running", 1, 3, false)
	first := e.log("0")
	for i := range 2 * maxLimit / chunk {
		l := e.log(fmt.Sprint(i))
		e.nilError(l.Append(e.ctx, 1, [][]byte{blob(chunk)}, false), "the first event of log %d", i)
		e.nilError(l.Append(e.ctx, 2, [][]byte{text("sealed", 2)}, true), "the seal of log %d", i)
		n, st, err := l.Read(e.ctx, 1, make([]eventstore.Event, 4), 0)
		if err != nil || n != 1 || st != (eventstore.State{First: 1, Last: 2, Sealed: true}) {
			e.Fatalf("log %d was just sealed: %d events after the first, %+v, %v", i, n, st, err)
		}
		if i%2 == 0 {
			l.Mark(eventstore.Mark{Written: 2})
		}
	}
	e.wantEvents(running, "running", 1, 3, false, "a running log, while sealed ones come and go")
	e.wantState(first, eventstore.State{First: 3, Last: 2, Sealed: true}, "the numbers of a log outlive its events")
	e.nilError(first.Append(e.ctx, 2, [][]byte{text("sealed", 2)}, true), "repeat the seal of an evicted log")
	e.wantError(first.Append(e.ctx, 3, [][]byte{text("sealed", 3)}, true), eventstore.ErrSealed, "append to an evicted log")
	e.nilError(first.Drop(e.ctx), "drop an evicted log")
	e.wantGone(first, 3, "after a drop of an evicted log")
	err := e.log("1").Append(e.ctx, 3, [][]byte{text("sealed", 3)}, true)
	if !errors.Is(err, eventstore.ErrSealed) {
		e.wantUnknown(err, "append event 3 to an evicted log through a new handle")
	}
}

func backlogsMakeRoom(e *exam) {
	running := e.log("running")
	e.append(running, "running", 1, 3, false)
	backlog := e.store.Log(eventstore.Key{Session: "s", Stream: "backlog", Backlog: true})
	const last = 2 * maxLimit / chunk
	for seq := uint64(1); seq <= last; seq++ {
		e.nilError(backlog.Append(e.ctx, seq, [][]byte{blob(chunk)}, false), "append event %d to a backlog", seq)
	}
	events, st := e.all(backlog, 0, 16)
	if st.Last != last || st.First < 2 || st.First > last || st.Sealed || len(events) != int(last-st.First+1) {
		e.Fatalf("a backlog that was given %d events has %d and the state %+v", last, len(events), st)
	}
	if events[0].Seq != st.First {
		e.Fatalf("a backlog begins at %d and gives %d first", st.First, events[0].Seq)
	}
	e.fill(running, 4)
	if st := e.state(running); st.First != 1 {
		e.Fatalf("a running log lost events to a backlog: %+v", st)
	}
}
