package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

func endedContext(e *exam) {
	l := e.log("a")
	ended, cancel := context.WithCancel(e.ctx)
	cancel()
	e.wantError(l.Append(ended, 1, [][]byte{text("a", 1)}, false), context.Canceled, "append with a context that has ended")
	e.wantState(l, eventstore.State{First: 1}, "an append with a context that has ended")
	e.append(l, "a", 1, 2, false)
	e.wantError(l.Append(ended, 3, [][]byte{text("a", 3)}, true), context.Canceled, "append with a context that has ended")
	e.wantError(l.Restore(ended, 2, texts("a", 2, 4), true), context.Canceled, "restore with a context that has ended")
	_, _, err := l.Read(ended, 0, make([]eventstore.Event, 4), 0)
	e.wantError(err, context.Canceled, "read with a context that has ended")
	e.wantEvents(l, "a", 1, 2, false, "after operations with a context that has ended")

	late, cancelLate := context.WithTimeout(e.ctx, -1)
	defer cancelLate()
	e.wantError(l.Append(late, 3, [][]byte{text("a", 3)}, true), context.DeadlineExceeded, "append after the deadline")
	e.append(l, "a", 3, 3, true)

	// A drop may ignore that its context has ended. If it does not, it says so.
	if err := l.Drop(ended); err != nil {
		e.wantError(err, context.Canceled, "drop with a context that has ended")
		e.wantEvents(l, "a", 1, 3, true, "after a failed drop")
		e.nilError(l.Drop(e.ctx), "drop")
	}
	e.wantGone(l, 4, "after a drop")
	b := e.log("b")
	e.append(b, "b", 1, 1, false)
	if err := e.store.DropSession(ended, "s"); err != nil {
		e.wantError(err, context.Canceled, "drop a session with a context that has ended")
		e.wantEvents(b, "b", 1, 1, false, "after a failed drop")
		e.nilError(e.store.DropSession(e.ctx, "s"), "drop a session")
	}
	e.wantGone(b, 2, "after a drop of the session")
}

func drop(e *exam) {
	a, unused, other := e.log("a"), e.log("a"), e.log("other")
	e.append(a, "a", 1, 5, false)
	e.append(other, "other", 1, 3, false)
	e.append(e.log("sealed"), "sealed", 1, 3, true)
	e.nilError(a.Drop(e.ctx), "drop")
	for _, seq := range []uint64{1, 5, 6} {
		e.wantGone(a, seq, "after a drop")
		e.wantGone(unused, seq, "after a drop, through a handle that was there but not used")
	}
	for seq := uint64(2); seq <= 6; seq++ {
		err := e.log("a").Append(e.ctx, seq, [][]byte{text("a", seq)}, true)
		e.wantUnknown(err, "append event %d through a new handle after a drop", seq)
	}
	e.wantNothing(e.log("a"), "after a drop and late appends")
	a.Mark(eventstore.Mark{Written: 5, Acked: 5})
	e.wantNothing(e.log("a"), "after a drop and a late mark")
	e.wantEvents(other, "other", 1, 3, false, "another log, after a drop")

	e.nilError(a.Drop(e.ctx), "drop again")
	e.nilError(unused.Drop(e.ctx), "drop again through another handle")
	e.nilError(e.log("a").Drop(e.ctx), "drop again through a new handle")

	sealed := e.log("sealed")
	e.nilError(e.log("sealed").Drop(e.ctx), "drop a sealed log through a new handle")
	e.wantGone(sealed, 4, "after a drop of a sealed log")
	e.wantGone(sealed, 3, "a repeat of the seal, after a drop")
}

func dropBeforeUse(e *exam) {
	a, twin := e.log("a"), e.log("a")
	e.nilError(a.Drop(e.ctx), "drop a log that was never appended to")
	e.wantGone(a, 1, "after a drop of a log that was never appended to")
	e.wantGone(twin, 1, "… through another handle")
	e.wantNothing(e.log("a"), "after a drop of a log that was never appended to")
}

func dropSession(e *exam) {
	e.nilError(e.store.DropSession(e.ctx, "s"), "drop an unknown session")
	var logs []eventstore.Log
	for i := range 20 {
		l := e.log(fmt.Sprint(i))
		e.append(l, "a", 1, 3, i%2 == 0)
		logs = append(logs, l)
	}
	unused := e.log("unused")
	elsewhere := e.store.Log(eventstore.Key{Session: "s2", Stream: "0"})
	e.append(elsewhere, "b", 1, 3, false)
	e.nilError(e.store.DropSession(e.ctx, "s"), "drop a session")
	for i, l := range logs {
		e.wantGone(l, 4, "after a drop of the session")
		e.wantNothing(e.log(fmt.Sprint(i)), "after a drop of the session")
		e.nilError(l.Drop(e.ctx), "drop a log of a dropped session")
	}
	e.wantGone(unused, 1, "after a drop of the session, through a handle that was there but not used")
	e.wantEvents(elsewhere, "b", 1, 3, false, "another session, after a drop")
	e.nilError(e.store.DropSession(e.ctx, "s"), "drop a session again")

	// The first event of a session's only log may still be on its way when the session ends.
	first := e.store.Log(eventstore.Key{Session: "s3", Stream: "a"})
	e.nilError(e.store.DropSession(e.ctx, "s3"), "drop a session that has only a handle")
	e.wantGone(first, 1, "after a drop of a session that had only a handle")
}

func dropBesideAppend(e *exam) {
	for i := range 50 {
		session := fmt.Sprint(i)
		l := e.store.Log(eventstore.Key{Session: session, Stream: "a"})
		e.append(l, "a", 1, 1, false)
		var dropped atomic.Bool
		started, result := make(chan struct{}), make(chan error, 1)
		go func() {
			for seq := uint64(2); ; seq++ {
				late := dropped.Load()
				err := l.Append(e.ctx, seq, [][]byte{text("a", seq)}, false)
				if err != nil || late {
					result <- err
					return
				}
				if seq == 2 {
					close(started)
				}
			}
		}()
		select {
		case <-started:
		case err := <-result:
			e.Fatalf("append event 2: %v", err)
		}
		var err error
		if i%2 == 0 {
			err = e.store.DropSession(e.ctx, session)
		} else {
			err = l.Drop(e.ctx)
		}
		dropped.Store(true)
		last := <-result
		e.nilError(err, "drop beside an append")
		if !errors.Is(last, eventstore.ErrFull) { // a small store was full before the drop
			e.wantError(last, eventstore.ErrGone, "the append that comes after the drop")
		}
		e.wantNothing(e.store.Log(eventstore.Key{Session: session, Stream: "a"}), "a drop beside an append")
	}
}

func closed(e *exam) {
	s := e.store
	l := e.log("a")
	e.append(l, "a", 1, 3, false)
	events, _ := e.all(l, 0, 8)
	logs := []eventstore.Log{l}
	for i := range 4 { // handles of sessions that have no events
		logs = append(logs, s.Log(eventstore.Key{Session: fmt.Sprint("unused", i), Stream: "a"}))
	}
	e.nilError(s.Close(), "close")
	for _, l := range append(logs, e.log("a"), e.log("b")) {
		_, _, err := l.Read(e.ctx, 0, nil, 0)
		e.wantError(err, eventstore.ErrClosed, "read after close")
		e.wantError(l.Append(e.ctx, 1, [][]byte{text("a", 1)}, false), eventstore.ErrClosed, "append after close")
		e.wantError(l.Append(e.ctx, 4, [][]byte{text("a", 4)}, true), eventstore.ErrClosed, "append after close")
		e.wantError(e.begin(l, 1), eventstore.ErrClosed, "append no events after close")
		e.wantError(l.Restore(e.ctx, 1, texts("a", 1, 4), false), eventstore.ErrClosed, "restore after close")
		e.wantError(l.Drop(e.ctx), eventstore.ErrClosed, "drop after close")
		l.Mark(eventstore.Mark{Written: 1})
	}
	e.wantError(s.DropSession(e.ctx, "s"), eventstore.ErrClosed, "drop a session after close")
	e.wantText(events, "a", 1, 3, "what was read stays valid after close")
}
