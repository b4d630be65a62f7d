package storetest

import (
	"errors"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

func emptyLog(e *exam) {
	l := e.log("a")
	e.wantState(l, eventstore.State{First: 1}, "before the first append")
	events, _ := e.all(l, 0, 8)
	if len(events) != 0 {
		e.Fatalf("read %d events of a log that was never appended to", len(events))
	}
	events, _ = e.all(l, 7, 8)
	if len(events) != 0 {
		e.Fatalf("read %d events after event 7 of a log that was never appended to", len(events))
	}
	e.nilError(l.Append(e.ctx, 1, [][]byte{{}}, false), "append an event without bytes")
	events, st := e.all(l, 0, 8)
	if len(events) != 1 || len(events[0].Data) != 0 || st != (eventstore.State{First: 1, Last: 1}) {
		e.Fatalf("read %v and %+v after one event without bytes", events, st)
	}
}

func sequence(e *exam) {
	l := e.log("a")
	for _, seq := range []uint64{2, 7} {
		err := l.Append(e.ctx, seq, [][]byte{text("a", seq)}, false)
		e.wantBehind(err, 0, "append event %d to an unknown log", seq)
	}
	e.wantState(l, eventstore.State{First: 1}, "after refused appends")
	e.append(l, "a", 1, 5, false)
	for _, seq := range []uint64{1, 4} {
		err := l.Append(e.ctx, seq, [][]byte{text("b", seq)}, false)
		e.wantError(err, eventstore.ErrSequence, "append another event %d after event 5", seq)
		e.append(l, "a", seq, seq, false)
	}
	e.wantError(l.Append(e.ctx, 0, [][]byte{text("a", 0)}, false), eventstore.ErrSequence, "append event 0")
	for _, seq := range []uint64{7, 100, 1<<64 - 1} {
		err := l.Append(e.ctx, seq, [][]byte{text("a", seq)}, false)
		e.wantBehind(err, 5, "append event %d after event 5", seq)
	}
	e.wantEvents(l, "a", 1, 5, false, "after refused appends")
	e.append(l, "a", 6, 6, false)
	e.wantEvents(l, "a", 1, 6, false, "the next event is taken")
}

// catchUp does what an owner does after an outage: it appends what the store has missed, beginning with an event that the store may have.
func catchUp(e *exam) {
	l := e.log("a")
	e.append(l, "a", 1, 3, false)
	e.wantBehind(l.Append(e.ctx, 6, [][]byte{text("a", 6)}, true), 3, "append event 6, which seals, after event 3")
	e.wantState(l, eventstore.State{First: 1, Last: 3}, "a refused seal seals nothing")
	e.append(l, "a", 3, 6, true)
	e.wantEvents(l, "a", 1, 6, true, "after all that was missing, from the last one that was there")
}

func repeat(e *exam) {
	l := e.log("a")
	for seq := uint64(1); seq <= 3; seq++ {
		for range 3 {
			e.append(l, "a", seq, seq, false)
		}
		e.wantEvents(l, "a", 1, seq, false, "after repeats of the last append")
	}
	err := l.Append(e.ctx, 3, [][]byte{[]byte("something else")}, false)
	e.wantError(err, eventstore.ErrSequence, "append event 3 again with other bytes")
	err = l.Append(e.ctx, 3, [][]byte{text("a", 3)}, true)
	e.wantError(err, eventstore.ErrSequence, "append event 3 again, this time sealing")
	e.wantEvents(l, "a", 1, 3, false, "after refused repeats")

	e.append(l, "a", 4, 4, true)
	e.append(e.log("a"), "a", 4, 4, true)
	e.wantEvents(l, "a", 1, 4, true, "after a repeat of the seal")
}

func seal(e *exam) {
	l := e.log("a")
	e.append(l, "a", 1, 3, true)
	refused := func(l eventstore.Log, seq uint64, data []byte, seal bool) {
		e.Helper()
		err := l.Append(e.ctx, seq, [][]byte{data}, seal)
		e.wantError(err, eventstore.ErrSealed, "append event %d (%q, seal %v) to a log that was sealed by event 3", seq, data, seal)
	}
	for _, seal := range []bool{false, true} {
		refused(l, 4, text("a", 4), seal)
		refused(e.log("a"), 4, text("a", 4), seal)
		refused(l, 3, []byte("something else"), seal)
	}
	refused(l, 3, text("a", 3), false)
	e.wantEvents(l, "a", 1, 3, true, "after refused appends")

	e.append(e.log("b"), "b", 1, 1, true)
	e.wantEvents(e.log("b"), "b", 1, 1, true, "the first event may seal")
}

func oneLogPerName(e *exam) {
	a, b := e.log("a"), e.log("a")
	e.append(a, "a", 1, 1, false)
	e.append(b, "a", 2, 2, false)
	e.append(e.log("a"), "a", 3, 3, false)
	about := e.store.Log(eventstore.Key{Session: "s", Stream: "a", About: "something", Principal: "p"})
	e.append(about, "a", 4, 4, false)
	for _, l := range []eventstore.Log{a, b, about, e.log("a")} {
		e.wantEvents(l, "a", 1, 4, false, "every handle is the same log")
	}
}

func noLimit(e *exam) {
	l := e.log("a")
	for seq := uint64(1); seq <= 300; seq++ {
		if err := l.Append(e.ctx, seq, [][]byte{blob(64 << 10)}, false); err != nil {
			if errors.Is(err, eventstore.ErrFull) {
				e.Fatalf("event %d does not fit: then set Features.Bounded", seq)
			}
			e.Fatalf("append event %d: %v", seq, err)
		}
	}
	e.wantState(l, eventstore.State{First: 1, Last: 300}, "nothing is evicted without a limit")
}
