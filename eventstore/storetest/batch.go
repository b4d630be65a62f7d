package storetest

import (
	"errors"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// texts are the events from first to last, as text makes them.
func texts(stream string, first, last uint64) (events [][]byte) {
	for seq := first; seq <= last; seq++ {
		events = append(events, text(stream, seq))
	}
	return events
}

// appendBatch appends the events from first to last at once.
func (e *exam) appendBatch(l eventstore.Log, stream string, first, last uint64, seal bool) {
	e.Helper()
	e.nilError(l.Append(e.ctx, first, texts(stream, first, last), seal), "append events %d to %d of %q at once, seal %v", first, last, stream, seal)
}

func batch(e *exam) {
	l := e.log("a")
	e.appendBatch(l, "a", 1, 3, false)
	e.wantEvents(l, "a", 1, 3, false, "after three events at once")
	e.appendBatch(l, "a", 4, 4, false)
	e.appendBatch(l, "a", 5, 70, false)
	e.wantEvents(l, "a", 1, 70, false, "after 66 events at once")
	e.appendBatch(l, "a", 71, 75, true)
	e.wantEvents(l, "a", 1, 75, true, "the last event of several may seal")
	e.appendBatch(e.log("b"), "b", 1, 5, true)
	e.wantEvents(e.log("b"), "b", 1, 5, true, "a whole log at once")

	empty := e.log("empty")
	e.nilError(empty.Append(e.ctx, 1, [][]byte{{}, nil, {}}, false), "append three events without bytes")
	events, st := e.all(empty, 0, 8)
	if len(events) != 3 || st != (eventstore.State{First: 1, Last: 3}) {
		e.Fatalf("read %d events and %+v after three events without bytes", len(events), st)
	}
}

// batchIsWhole checks that a batch that is refused leaves nothing behind.
func batchIsWhole(e *exam) {
	l := e.log("a")
	e.wantBehind(l.Append(e.ctx, 2, texts("a", 2, 4), false), 0, "append events 2 to 4 to an unknown log")
	e.wantState(l, eventstore.State{First: 1}, "after a batch that leaves a gap")
	e.append(l, "a", 1, 3, false)
	e.wantBehind(l.Append(e.ctx, 5, texts("a", 5, 7), true), 3, "append events 5 to 7 after event 3")
	e.wantEvents(l, "a", 1, 3, false, "after a batch that leaves a gap")
	other := append([][]byte{[]byte("something else")}, texts("a", 4, 6)...)
	e.wantError(l.Append(e.ctx, 3, other, true), eventstore.ErrSequence, "append another event 3, and 4 to 6")
	e.wantEvents(l, "a", 1, 3, false, "after a batch that begins with another event 3")
	e.wantError(l.Append(e.ctx, 0, texts("a", 0, 5), false), eventstore.ErrSequence, "append events 0 to 5")
	e.wantEvents(l, "a", 1, 3, false, "after a batch that begins with event 0")
	e.append(l, "a", 4, 4, true)
	e.wantError(l.Append(e.ctx, 3, texts("a", 3, 6), true), eventstore.ErrSealed, "append events 3 to 6 to a log that was sealed by event 4")
	e.wantEvents(l, "a", 1, 4, true, "after a batch that goes beyond the seal")
}

func repeatBatch(e *exam) {
	l := e.log("a")
	e.appendBatch(l, "a", 1, 5, false)
	for _, part := range [][2]uint64{{1, 5}, {4, 5}, {2, 3}, {1, 1}} {
		e.appendBatch(l, "a", part[0], part[1], false)
		e.wantEvents(l, "a", 1, 5, false, "after a repeat")
	}
	e.appendBatch(l, "a", 3, 8, false)
	e.wantEvents(l, "a", 1, 8, false, "after a repeat with more behind")
	refused := func(want error, first uint64, events [][]byte, seal bool) {
		e.Helper()
		err := l.Append(e.ctx, first, events, seal)
		e.wantError(err, want, "append %d events from %d on, seal %v", len(events), first, seal)
	}
	last := e.state(l).Last
	for _, seal := range []bool{false, true} {
		refused(eventstore.ErrSequence, last-1, texts("b", last-1, last), seal)
	}
	for _, part := range [][2]uint64{{8, 8}, {7, 8}, {3, 5}} {
		refused(eventstore.ErrSequence, part[0], texts("a", part[0], part[1]), true)
	}
	e.wantEvents(l, "a", 1, 8, false, "after refused repeats")

	e.appendBatch(l, "a", 7, 10, true)
	e.wantEvents(l, "a", 1, 10, true, "after a repeat with more behind, which seals")
	e.appendBatch(e.log("a"), "a", 7, 10, true)
	e.appendBatch(l, "a", 10, 10, true)
	e.appendBatch(l, "a", 3, 5, false)
	e.wantEvents(l, "a", 1, 10, true, "after repeats to a sealed log")
	refused(eventstore.ErrSealed, 9, texts("a", 9, 10), false)
	refused(eventstore.ErrSealed, 3, texts("a", 3, 5), true)
	for _, seal := range []bool{false, true} {
		refused(eventstore.ErrSealed, 9, texts("a", 9, 11), seal)
		refused(eventstore.ErrSealed, 11, texts("a", 11, 12), seal)
		refused(eventstore.ErrSealed, 13, texts("a", 13, 14), seal)
		refused(eventstore.ErrSealed, 9, texts("b", 9, 10), seal)
	}
	e.wantEvents(l, "a", 1, 10, true, "after appends that a sealed log refuses")
}

// begin appends no events.
func (e *exam) begin(l eventstore.Log, first uint64) error {
	return l.Append(e.ctx, first, nil, false)
}

func begin(e *exam) {
	l := e.log("a")
	e.wantBehind(e.begin(l, 2), 0, "begin an unknown log with event 2")
	e.wantError(e.begin(l, 0), eventstore.ErrSequence, "begin a log with event 0")
	for range 2 {
		e.nilError(e.begin(l, 1), "begin a log")
		e.wantState(e.log("a"), eventstore.State{First: 1}, "a log that has begun")
	}
	e.nilError(l.Append(e.ctx, 1, [][]byte{}, false), "begin a log that has begun, with an empty slice")
	e.wantBehind(l.Append(e.ctx, 2, texts("a", 2, 3), false), 0, "append event 2 to a log that has begun")
	e.append(l, "a", 1, 3, false)
	for first := uint64(1); first <= 4; first++ {
		e.nilError(e.begin(l, first), "append no events after event %d of 3", first-1)
	}
	e.wantBehind(e.begin(l, 5), 3, "append no events after event 4 of 3")
	e.wantError(l.Append(e.ctx, 4, nil, true), eventstore.ErrSequence, "seal without an event")
	e.wantEvents(l, "a", 1, 3, false, "appends without events change nothing")
	e.append(l, "a", 4, 4, true)
	for _, first := range []uint64{1, 4, 5} {
		e.nilError(e.begin(l, first), "append no events after event %d of a log that was sealed by event 4", first-1)
	}
	e.wantError(e.begin(l, 6), eventstore.ErrSealed, "append no events after event 5 of a log that was sealed by event 4")
	e.wantEvents(l, "a", 1, 4, true, "appends without events change nothing")

	b, c := e.log("b"), e.log("c")
	e.nilError(e.begin(b, 1), "begin a log")
	e.nilError(b.Drop(e.ctx), "drop a log that has only begun")
	e.wantGone(b, 1, "after a drop of a log that had only begun")
	e.nilError(e.begin(c, 1), "begin a log")
	e.nilError(e.store.DropSession(e.ctx, "s"), "drop a session")
	e.wantGone(c, 1, "after a drop of the session of a log that had only begun")
}

// sliceIsTheCallers uses the slice of a batch again.
func sliceIsTheCallers(e *exam) {
	a, b := e.log("a"), e.log("b")
	events := texts("a", 1, 3)
	overwrite := func(stream string, first uint64) {
		for i := range events {
			events[i] = text(stream, first+uint64(i))
		}
	}
	e.nilError(a.Append(e.ctx, 1, events, false), "append")
	overwrite("a", 4)
	e.nilError(a.Append(e.ctx, 4, events, false), "append")
	overwrite("b", 2)
	e.nilError(b.Restore(e.ctx, 2, events, true), "restore")
	overwrite("z", 1)
	e.wantEvents(a, "a", 1, 6, false, "when the slices were used again")
	e.wantEvents(b, "b", 2, 4, true, "when the slices were used again")
}

// batchesBesideReaders checks that no reader sees a part of a batch.
func batchesBesideReaders(e *exam) {
	const last, size = 300, 3
	e.besideReaders(func(l eventstore.Log) error {
		for seq := uint64(1); seq <= last; seq += size {
			if err := l.Append(e.ctx, seq, texts("a", seq, seq+size-1), seq+size > last); err != nil {
				return err
			}
		}
		return nil
	}, func(st eventstore.State) error {
		if st.Last%size != 0 || st.First != 1 {
			return errors.New("a part of a batch is there")
		}
		return nil
	})
}
