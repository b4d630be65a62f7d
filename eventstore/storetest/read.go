package storetest

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// blob is an event of n bytes.
func blob(n int) []byte {
	return bytes.Repeat([]byte("x"), n)
}

func anyName(e *exam) {
	long := string(blob(4096))
	keys := []eventstore.Key{
		{Session: "", Stream: ""},
		{Session: "a", Stream: ""},
		{Session: "", Stream: "a"},
		{Session: "a", Stream: "b"},
		{Session: "a", Stream: "bc"}, // the two names must not simply be joined
		{Session: "ab", Stream: "c"},
		{Session: "a:b", Stream: "c"},
		{Session: "a", Stream: "b:c"},
		{Session: "a/b", Stream: "../c"},
		{Session: "a_b", Stream: "c%5f"},
		{Session: "a\x00b", Stream: "c"},
		{Session: "a", Stream: "b\x00c"},
		{Session: "a\nb", Stream: "\r\n"},
		{Session: "\xff\xfe", Stream: "\xc3\x28"}, // not UTF-8
		{Session: "é", Stream: "e\u0301"},
		{Session: "A", Stream: "BC"},
		{Session: "a ", Stream: " bc"},
		{Session: "{a}", Stream: "*"},
		{Session: long, Stream: long},
		{Session: long + "1", Stream: long},
		{Session: long, Stream: long + "1"},
	}
	for i, k := range keys {
		e.append(e.store.Log(k), fmt.Sprint(i), 1, 3, false)
	}
	for i, k := range keys {
		e.wantEvents(e.store.Log(k), fmt.Sprint(i), 1, 3, false, fmt.Sprintf("session %.20q, stream %.20q", k.Session, k.Stream))
	}
	for i, k := range keys {
		e.nilError(e.store.Log(k).Drop(e.ctx), "drop session %.20q, stream %.20q", k.Session, k.Stream)
		for j, other := range keys[i+1:] {
			j += i + 1
			e.wantEvents(e.store.Log(other), fmt.Sprint(j), 1, 3, false, fmt.Sprintf("after the drop of log %d", i))
		}
	}
}

func sessionsApart(e *exam) {
	for i := range 5 {
		l := e.store.Log(eventstore.Key{Session: fmt.Sprint(i), Stream: "standalone"})
		e.append(l, fmt.Sprint(i), 1, uint64(i+1), false)
	}
	for i := range 5 {
		l := e.store.Log(eventstore.Key{Session: fmt.Sprint(i), Stream: "standalone"})
		e.wantEvents(l, fmt.Sprint(i), 1, uint64(i+1), false, "streams of one name in several sessions")
	}
}

func readWindows(e *exam) {
	const last = 23
	l := e.log("a")
	e.append(l, "a", 1, last, false)
	for _, size := range []int{0, 1, 2, 5, last, 100} {
		for after := uint64(0); after <= last+2; after++ {
			buf := make([]eventstore.Event, size)
			n, st, err := l.Read(e.ctx, after, buf, 0)
			e.nilError(err, "read after %d", after)
			if st != (eventstore.State{First: 1, Last: last}) {
				e.Fatalf("read after %d: the state is %+v", after, st)
			}
			want := 0
			if after < last {
				want = min(size, int(last-after))
			}
			if n != want {
				e.Fatalf("read %d events after %d of %d into a buffer for %d, want %d", n, after, last, size, want)
			}
			if n > 0 {
				e.wantText(buf[:n], "a", after+1, after+uint64(n), "a window")
			}
		}
	}
	n, _, err := l.Read(e.ctx, 1<<64-1, make([]eventstore.Event, 1), 0)
	e.nilError(err, "read after the largest number there is")
	if n != 0 {
		e.Fatal("something follows the largest number there is")
	}
}

func byteBound(e *exam) {
	const size, last = 100, 10
	l := e.log("a")
	for seq := range uint64(last) {
		e.nilError(l.Append(e.ctx, seq+1, [][]byte{blob(size)}, false), "append")
	}
	read := func(l eventstore.Log, after uint64, buf, maxBytes, want int) {
		e.Helper()
		events := make([]eventstore.Event, buf)
		n, st, err := l.Read(e.ctx, after, events, maxBytes)
		e.nilError(err, "read after %d", after)
		if whole := e.state(l); st != whole {
			e.Fatalf("read at most %d bytes: the state is %+v, want %+v", maxBytes, st, whole)
		}
		if n != want {
			e.Fatalf("read %d events after %d into a buffer for %d and at most %d bytes, want %d", n, after, buf, maxBytes, want)
		}
		for i, ev := range events[:n] {
			if ev.Seq != after+uint64(i)+1 {
				e.Fatalf("event %d came in the place of %d", ev.Seq, after+uint64(i)+1)
			}
		}
	}
	for maxBytes, want := range map[int]int{-1: last, 0: last, 1: 1, size - 1: 1, size: 1, 2*size - 1: 1, 2 * size: 2, 5*size + 1: 5, 99 * size: last} {
		read(l, 0, 32, maxBytes, want)
		read(l, 0, 3, maxBytes, min(want, 3))
		read(l, last-2, 32, maxBytes, min(want, 2))
		read(l, 0, 0, maxBytes, 0)
		read(l, last, 32, maxBytes, 0)
	}
	empty := e.log("empty")
	e.nilError(empty.Append(e.ctx, 1, [][]byte{{}, {}, blob(2), {}, blob(1)}, true), "append")
	read(empty, 0, 32, 1, 2)
	read(empty, 0, 32, 2, 4)
	read(empty, 2, 32, 1, 1)
	read(empty, 3, 32, 1, 2)
}

func largeEvents(e *exam) {
	const size = 1 << 20
	for i := range 3 {
		l := e.log(fmt.Sprint(i))
		data := bytes.Repeat([]byte{byte('a' + i)}, size)
		// The event seals, so a bounded store must take it too.
		e.nilError(l.Append(e.ctx, 1, [][]byte{data}, true), "append an event of 1 MiB")
		events, _ := e.all(l, 0, 4)
		if len(events) != 1 || !bytes.Equal(events[0].Data, data) {
			e.Fatalf("an event of 1 MiB comes back as %d events", len(events))
		}
		e.nilError(l.Drop(e.ctx), "drop")
	}
}

func dataStays(e *exam) {
	l := e.log("a")
	given := make([][]byte, 10)
	var batch []byte // the events lie side by side in one buffer
	for i := range given {
		batch = append(batch, text("a", uint64(i+1))...)
	}
	for i, rest := 0, batch; i < len(given); i++ {
		n := len(text("a", uint64(i+1)))
		given[i], rest = rest[:n], rest[n:]
		e.nilError(l.Append(e.ctx, uint64(i+1), [][]byte{given[i]}, false), "append")
	}
	before, _ := e.all(l, 0, 4)
	again, _ := e.all(l, 0, 4)
	// A reader that adds to what it got must not write into the log.
	for i := range again {
		_ = append(again[i].Data, "overwritten"...)
	}
	e.wantText(before, "a", 1, 10, "after a reader grew its slices")
	e.wantEvents(l, "a", 1, 10, false, "after a reader grew its slices")
	e.nilError(l.Drop(e.ctx), "drop")
	for i := range 200 {
		other := e.log(fmt.Sprint("other", i))
		e.append(other, "z", 1, 10, true)
		e.nilError(other.Drop(e.ctx), "drop")
	}
	e.wantText(before, "a", 1, 10, "what was read stays valid after a drop")
	for i, data := range given {
		if !bytes.Equal(data, text("a", uint64(i+1))) {
			e.Fatalf("the store changed the bytes of event %d: %q", i+1, data)
		}
	}
}

func readersBesideAppender(e *exam) {
	const last, readers = 500, 4
	l := e.log("a")
	var reading, done sync.WaitGroup
	for i := range readers {
		reading.Add(1)
		done.Go(func() {
			begun := sync.OnceFunc(reading.Done)
			defer begun()
			if err := e.follow(e.log("a"), last, i+1, begun); err != nil {
				e.Errorf("reader %d: %v", i, err)
			}
		})
	}
	reading.Wait()
	var err error
	for seq := uint64(1); seq <= last && err == nil; seq++ {
		err = l.Append(e.ctx, seq, [][]byte{text("a", seq)}, seq == last)
		_, st, _ := l.Read(e.ctx, 0, nil, 0)
		if want := (eventstore.State{First: 1, Last: seq, Sealed: seq == last}); err == nil && st != want {
			err = fmt.Errorf("the state is %+v after event %d", st, seq)
		}
		runtime.Gosched()
	}
	if err != nil {
		_ = e.store.DropSession(e.ctx, "s") // the readers wait for the end of the log
	}
	done.Wait()
	e.nilError(err, "append beside readers")
}

// follow reads a log to its end, into a buffer of size, and calls begun after the first read.
func (e *exam) follow(l eventstore.Log, last uint64, size int, begun func()) error {
	buf := make([]eventstore.Event, size)
	after, seen := uint64(0), uint64(0)
	for {
		n, st, err := l.Read(e.ctx, after, buf, 0)
		begun()
		if err != nil {
			return fmt.Errorf("read after %d: %w", after, err)
		}
		if st.Last < seen || st.First != 1 || n > len(buf) || st.Last < after+uint64(n) || st.Sealed != (st.Last == last) {
			return fmt.Errorf("%d events after %d, and the state %+v where the last event was %d", n, after, st, seen)
		}
		seen = st.Last
		for _, ev := range buf[:n] {
			if after++; ev.Seq != after || !bytes.Equal(ev.Data, text("a", after)) {
				return fmt.Errorf("got event %d, %q, in the place of %d", ev.Seq, ev.Data, after)
			}
		}
		if after == last {
			return nil
		}
		runtime.Gosched()
	}
}

func marksAreHints(e *exam) {
	l := e.log("a")
	l.Mark(eventstore.Mark{Written: 3, Acked: 3})
	e.wantState(l, eventstore.State{First: 1}, "a mark creates nothing")
	e.append(l, "a", 1, 10, false)
	l.Mark(eventstore.Mark{Written: 8, Acked: 5})
	l.Mark(eventstore.Mark{Written: 2, Acked: 1})
	l.Mark(eventstore.Mark{})
	l.Mark(eventstore.Mark{Written: 1 << 63, Acked: 1 << 63})
	e.append(l, "a", 11, 12, true)
	l.Mark(eventstore.Mark{Written: 12, Acked: 12})
	st := e.state(l)
	if st.Last != 12 || !st.Sealed || st.First > 13 {
		e.Fatalf("after marks the state is %+v", st)
	}
	// Acknowledged events may be evicted, but only from the front; they may also stay.
	events, st := e.all(l, 0, 5)
	if st.First <= 12 {
		e.wantText(events, "a", st.First, 12, "after marks")
	}
}
