package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// restore restores a log to the events from first to last.
func (e *exam) restore(l eventstore.Log, stream string, first, last uint64, seal bool) {
	e.Helper()
	e.nilError(l.Restore(e.ctx, first, texts(stream, first, last), seal), "restore events %d to %d of %q, seal %v", first, last, stream, seal)
}

func (e *exam) noRestore(l eventstore.Log, want error, first, last uint64, seal bool) {
	e.Helper()
	err := l.Restore(e.ctx, first, texts("a", first, last), seal)
	e.wantError(err, want, "restore events %d to %d, seal %v", first, last, seal)
}

// restoreUnknown restores logs of which the store knows nothing.
func restoreUnknown(e *exam) {
	a := e.log("a")
	e.restore(a, "a", 1, 3, false)
	e.wantEvents(e.log("a"), "a", 1, 3, false, "after a restore of an unknown log")
	e.append(a, "a", 4, 5, true)
	e.wantEvents(a, "a", 1, 5, true, "after a restore and appends")

	b := e.log("b")
	e.restore(b, "b", 5, 7, false)
	e.wantEvents(e.log("b"), "b", 5, 7, false, "after a restore from event 5 on")
	e.append(b, "b", 7, 8, false)
	e.wantBehind(b.Append(e.ctx, 10, texts("b", 10, 10), false), 8, "append event 10 after a restore to event 7, and event 8")
	e.wantEvents(b, "b", 5, 8, false, "after a restore from event 5 on, and appends")

	c := e.log("c")
	e.restore(c, "c", 4, 3, false)
	e.wantState(e.log("c"), eventstore.State{First: 4, Last: 3}, "after a restore without events")
	e.wantBehind(c.Append(e.ctx, 5, texts("c", 5, 5), false), 3, "append event 5 after event 3")
	e.appendBatch(c, "c", 4, 6, true)
	e.wantEvents(c, "c", 4, 6, true, "after a restore without events, and appends")
	begun := e.log("begun")
	e.restore(begun, "begun", 1, 0, false)
	e.wantState(begun, eventstore.State{First: 1}, "after a restore without events from event 1 on")
	e.append(begun, "begun", 1, 2, false)

	d := e.log("d")
	e.restore(d, "d", 2, 3, true)
	e.wantEvents(e.log("d"), "d", 2, 3, true, "after a restore that seals")
	e.append(d, "d", 3, 3, true)
	e.wantError(d.Append(e.ctx, 4, texts("d", 4, 4), true), eventstore.ErrSealed, "append event 4 after a restore that sealed with event 3")
	over := e.log("over")
	e.restore(over, "over", 4, 3, true)
	e.wantState(over, eventstore.State{First: 4, Last: 3, Sealed: true}, "after a restore without events that seals")

	none := e.log("none")
	e.noRestore(none, eventstore.ErrSequence, 0, 2, false)
	e.noRestore(none, eventstore.ErrSequence, 1, 0, true)
	e.wantState(none, eventstore.State{First: 1}, "after refused restores")
}

// restoreKnown restores logs of which the store has something.
func restoreKnown(e *exam) {
	for i, c := range []struct {
		first, last uint64
		seal        bool
	}{
		{1, 3, false}, // what the log has
		{1, 6, false},
		{1, 3, true},
		{2, 6, true},
		{3, 3, false},
		{4, 6, false}, // right behind
		{10, 12, true},
		{10, 12, false}, // behind a gap
		{4, 3, false},
		{4, 3, true},
		{10, 9, false}, // nothing, behind a gap
	} {
		stream := fmt.Sprint(i)
		l := e.log(stream)
		e.append(l, stream, 1, 3, false)
		before, _ := e.all(l, 0, 8)
		l.Mark(eventstore.Mark{Written: 2, Acked: 1})
		e.restore(e.log(stream), stream, c.first, c.last, c.seal)
		why := fmt.Sprintf("after a restore of %d to %d of a log that had 3 events", c.first, c.last)
		e.wantState(l, eventstore.State{First: c.first, Last: c.last, Sealed: c.seal}, why)
		events, _ := e.all(l, 0, 8)
		e.wantText(events, stream, c.first, c.last, why)
		e.wantText(before, stream, 1, 3, "what was read before a restore")
		if !c.seal {
			e.appendBatch(l, stream, c.last+1, c.last+2, true)
			events, st := e.all(l, 0, 8)
			if st.First != c.first && st.First > 2 { // event 1 was acknowledged, so the appends may have removed it
				e.Fatalf("after a restore from event %d on, and appends, the log begins with event %d", c.first, st.First)
			}
			e.wantText(events, stream, st.First, c.last+2, "after a restore and appends")
		}
	}
}

func restoreRefused(e *exam) {
	l := e.log("a")
	e.append(l, "a", 1, 5, false)
	for _, seal := range []bool{false, true} {
		e.noRestore(l, eventstore.ErrSequence, 1, 4, seal)
		e.noRestore(l, eventstore.ErrSequence, 5, 4, seal)
		e.noRestore(l, eventstore.ErrSequence, 0, 7, seal)
	}
	e.wantEvents(l, "a", 1, 5, false, "after restores that would lose events")
	e.append(l, "a", 6, 6, true)
	for _, seal := range []bool{false, true} {
		e.noRestore(l, eventstore.ErrSequence, 1, 5, seal)
		e.noRestore(l, eventstore.ErrSequence, 1, 7, seal)
		e.noRestore(l, eventstore.ErrSequence, 8, 7, seal)
	}
	e.noRestore(l, eventstore.ErrSequence, 1, 6, false)
	e.noRestore(l, eventstore.ErrSequence, 7, 6, false)
	e.wantError(l.Restore(e.ctx, 5, texts("b", 5, 6), true), eventstore.ErrSequence, "restore a sealed log with another last event")
	e.wantEvents(l, "a", 1, 6, true, "after restores that a sealed log refuses")
}

func restoreRepeated(e *exam) {
	l := e.log("a")
	for range 3 {
		e.restore(l, "a", 3, 6, false)
		e.wantEvents(l, "a", 3, 6, false, "after repeats of a restore")
	}
	for range 3 {
		e.restore(l, "a", 7, 6, false)
		e.wantState(l, eventstore.State{First: 7, Last: 6}, "after repeats of a restore without events")
	}
	e.append(l, "a", 7, 7, false)
	e.noRestore(l, eventstore.ErrSequence, 3, 6, false)
	e.wantEvents(l, "a", 7, 7, false, "a restore is repeated after the next append")
	for range 3 {
		e.restore(l, "a", 6, 8, true)
		e.wantEvents(e.log("a"), "a", 6, 8, true, "after repeats of a restore that seals")
	}
	e.append(l, "a", 8, 8, true)
	b := e.log("b")
	e.append(b, "b", 1, 3, true)
	e.restore(b, "b", 1, 3, true)
	e.wantEvents(b, "b", 1, 3, true, "after a restore of what a sealed log has")
	over := e.log("over")
	for range 3 {
		e.restore(over, "over", 4, 3, true)
		e.wantState(over, eventstore.State{First: 4, Last: 3, Sealed: true}, "after repeats of a restore without events that seals")
	}
}

// restoreBesideReaders checks that a reader sees a log before or after a restore, and nothing between.
func restoreBesideReaders(e *exam) {
	const last = 300
	e.besideReaders(func(l eventstore.Log) error {
		for seq := uint64(1); seq <= last; seq++ {
			first, seal := seq, seq == last
			var err error
			if seq%3 == 0 {
				first = seq - min(seq-1, seq%5)
				err = l.Restore(e.ctx, first, texts("a", first, seq), seal)
			} else {
				err = l.Append(e.ctx, seq, texts("a", seq, seq), seal)
			}
			if err != nil {
				return fmt.Errorf("events %d to %d: %w", first, seq, err)
			}
		}
		return nil
	}, func(st eventstore.State) error {
		if st.Last > 0 && st.First > st.Last {
			return errors.New("the log is empty")
		}
		return nil
	})
}

// besideReaders runs write, which seals log "a", beside readers that read the log to its end. check looks at every state that they see.
func (e *exam) besideReaders(write func(l eventstore.Log) error, check func(st eventstore.State) error) {
	e.Helper()
	var reading, done sync.WaitGroup
	l := e.log("a")
	for i := range 3 {
		reading.Add(1)
		done.Go(func() {
			begun := sync.OnceFunc(reading.Done)
			defer begun()
			if err := e.watch(e.log("a"), i+1, check, begun); err != nil {
				e.Errorf("reader %d: %v", i, err)
			}
		})
	}
	reading.Wait()
	err := write(l)
	if err != nil {
		_ = e.store.DropSession(e.ctx, "s") // the readers wait for the end of the log
	}
	done.Wait()
	e.nilError(err, "write beside readers")
}

// watch reads a log to its seal, into a buffer of size. The log may lose events that it has not read yet.
func (e *exam) watch(l eventstore.Log, size int, check func(st eventstore.State) error, begun func()) error {
	buf := make([]eventstore.Event, size)
	after, seen := uint64(0), eventstore.State{First: 1}
	for {
		n, st, err := l.Read(e.ctx, after, buf, 0)
		begun()
		if err == nil {
			err = check(st)
		}
		if err != nil {
			return fmt.Errorf("read after %d, state %+v: %w", after, st, err)
		}
		if st.First < seen.First || st.Last < seen.Last || seen.Sealed && !st.Sealed {
			return fmt.Errorf("the state %+v follows %+v", st, seen)
		}
		seen = st
		if want := min(size, int(st.Last-min(max(after, st.First-1), st.Last))); n != want {
			return fmt.Errorf("%d events after %d, want %d; the state is %+v", n, after, want, st)
		}
		after = max(after, st.First-1)
		for _, ev := range buf[:n] {
			if after++; ev.Seq != after || !bytes.Equal(ev.Data, text("a", after)) {
				return fmt.Errorf("got event %d, %q, in the place of %d", ev.Seq, ev.Data, after)
			}
		}
		if st.Sealed && after == st.Last {
			return nil
		}
		runtime.Gosched()
	}
}
