package clustertest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

func adopt(e *exam) {
	a := e.begin("s")
	other := e.begin("other")
	want := a.record()
	f := a.fence
	for i := range 4 {
		to := process(fmt.Sprint("p", i), fmt.Sprint("p", i, "-1"))
		next := fence(to.Incarnation, f.Epoch+1)
		want.Fence, want.Self, want.Generation = next, to.Self, as(to).Generation
		r, streams, err := e.two.Adopt(e.ctx, "s", f, as(to), ttl)
		e.nilError(err, "adopt")
		e.wantRecord(r, want, "what Adopt returned")
		e.wantStreams(streams, nil, "a session without logs")
		e.wantRecord(e.find("s"), want, "after an adoption")
		f = next
	}
	self := process("p3", "p3-1")
	r, _, err := e.one.Adopt(e.ctx, "s", f, as(self), ttl)
	e.nilError(err, "the owner itself adopts")
	want.Fence = fence("p3-1", f.Epoch+1) // the generation stays
	e.wantRecord(r, want, "the owner itself adopts")
	e.wantRecord(e.find("other"), other.record(), "another session")
}

func adoptNeedsFence(e *exam) {
	a := e.begin("s")
	b := e.adopt(a)
	want := e.find("s")
	for _, from := range append(otherFences(b.fence), a.fence) {
		to := process("d", "d1")
		r, streams, err := e.one.Adopt(e.ctx, "s", from, as(to), ttl)
		e.wantError(err, eventstore.ErrFenced, "adopt from %v where there is %v", from, b.fence)
		if r != nil || streams != nil {
			e.Fatalf("a refused Adopt returned %v, %v", r, streams)
		}
		e.wantFenced(owner{e.one, to, "s", fence("d1", from.Epoch+1)}, "after a refused adoption")
	}
	e.wantRecord(e.find("s"), want, "after refused adoptions")
	_, _, err := e.one.Adopt(e.ctx, "unknown", a.fence, as(a.process), ttl)
	e.wantError(err, cluster.ErrUnknown, "adopt an unknown session")
	e.nilError(b.End(e.ctx, "s", b.fence), "end")
	_, _, err = e.one.Adopt(e.ctx, "s", b.fence, as(a.process), ttl)
	e.wantError(err, cluster.ErrEnded, "adopt a session that has ended")
}

func adoptersAtOnce(e *exam) {
	for i := range 20 {
		a := e.begin(fmt.Sprint(i))
		e.append(a, "a", 1, 5, false)
		n := 2 + 6*(i%2)
		var owners []owner
		var adoptions []func() error
		for j := range n {
			o := owner{[]client{e.one, e.two}[j%2], process(fmt.Sprint(j), fmt.Sprint("run ", j)), a.session, fence(fmt.Sprint("run ", j), 2)}
			owners = append(owners, o)
			adoptions = append(adoptions, func() error {
				r, streams, err := o.Adopt(e.ctx, o.session, a.fence, as(o.process), ttl)
				if err == nil && (r.Fence != o.fence || r.Self != o.process.Self || r.Generation != as(o.process).Generation || len(streams) != 1 || streams[0].Last != 5) {
					return fmt.Errorf("adopted %+v with %+v", r, streams)
				}
				return err
			})
		}
		winner := e.wantOneWinner(a.session, owners, at(adoptions...), fmt.Sprint(n, " adopters at once"))
		e.wantFenced(a, "the former owner")
		e.append(winner, "a", 6, 6, false)
		e.wantLog(winner, "a", 1, 6, false, "after a race")
	}
}

func adoptAgain(e *exam) {
	a := e.begin("s")
	e.append(a, "a", 1, 3, false)
	b := e.adopt(a)
	want := e.find("s")
	for range 3 {
		r, streams, err := b.Adopt(e.ctx, "s", a.fence, as(b.process), ttl)
		e.nilError(err, "repeat Adopt")
		e.wantRecord(r, want, "a repeat of Adopt")
		e.wantStreams(streams, []cluster.Stream{{Name: "a", About: "about a", First: 1, Last: 3}}, "a repeat of Adopt")
	}
	e.append(b, "a", 4, 4, true)
	e.nilError(b.Save(e.ctx, "s", b.fence, 2, nil), "save")
	e.nilError(b.Release(e.ctx, "s", b.fence), "release")
	want.State, want.Version, want.Released = nil, 2, true
	r, streams, err := b.Adopt(e.ctx, "s", a.fence, as(b.process), ttl)
	e.nilError(err, "a late repeat of Adopt")
	e.wantRecord(r, want, "a late repeat of Adopt takes nothing back")
	e.wantStreams(streams, []cluster.Stream{{Name: "a", About: "about a", First: 1, Last: 4, Sealed: true}}, "a late repeat of Adopt")
	d := process("d", "d1")
	_, _, err = e.one.Adopt(e.ctx, "s", b.fence, as(d), ttl)
	e.nilError(err, "adopt from the second owner")
	_, _, err = b.Adopt(e.ctx, "s", a.fence, as(b.process), ttl)
	e.wantError(err, eventstore.ErrFenced, "a repeat of Adopt when another owner has come")
	if r := e.find("s"); r.Fence != fence("d1", 3) {
		e.Fatalf("a late repeat of Adopt has changed the record to %+v", r)
	}
}

func adoptedStreams(e *exam) {
	a := e.begin("s")
	e.begin("t")
	key := func(stream, about string, backlog bool) eventstore.Key {
		return eventstore.Key{Session: "s", Stream: stream, Fence: a.fence, About: about, Backlog: backlog}
	}
	z := a.Log(key("z", "first of all", true))
	e.nilError(z.Append(e.ctx, 1, nil, false), "begin a log")
	e.nilError(z.Append(e.ctx, 1, nil, false), "begin a log again")
	a.Log(key("never used", "", false))
	refused := a.Log(key("refused", "", false))
	if err := refused.Append(e.ctx, 2, texts("refused", 2, 2), false); err == nil {
		e.Fatal("event 2 was taken by an unknown log")
	}
	for i := range 40 {
		name := fmt.Sprint("stream ", 100-i) // neither in order nor against it as text
		l := a.Log(key(name, "about\x00 "+name, false))
		e.nilError(l.Append(e.ctx, 1, texts(name, 1, uint64(i%5+1)), i%3 == 0), "append")
	}
	for i := range 40 {
		if i%4 == 1 {
			e.nilError(a.log(fmt.Sprint("stream ", 100-i)).Drop(e.ctx), "drop")
		}
	}
	e.append(a.under(a.fence), "a", 1, 1, false)
	e.nilError(z.Append(e.ctx, 1, texts("z", 1, 2), false), "append to a log that was begun")
	later := a.Log(key("z", "not what the log was begun with", true))
	e.nilError(later.Append(e.ctx, 3, texts("z", 3, 3), false), "append through another handle")

	want := []cluster.Stream{{Name: "z", About: "first of all", Backlog: true, First: 1, Last: 3}}
	for i := range 40 {
		if name := fmt.Sprint("stream ", 100-i); i%4 != 1 {
			want = append(want, cluster.Stream{Name: name, About: "about\x00 " + name, First: 1, Last: uint64(i%5 + 1), Sealed: i%3 == 0})
		}
	}
	want = append(want, cluster.Stream{Name: "a", About: "about a", First: 1, Last: 1})
	_, streams, err := e.two.Adopt(e.ctx, "s", a.fence, as(process("b", "b1")), ttl)
	e.nilError(err, "adopt")
	e.wantStreams(streams, want, "after an adoption")

	// The new owner goes on with the streams of the former, and adds its own.
	b := owner{e.two, process("b", "b1"), "s", fence("b1", 2)}
	e.append(b, "0", 1, 1, false)
	e.append(b, "z", 4, 4, false)
	e.nilError(b.log("stream 100").Drop(e.ctx), "drop a stream of the former owner")
	want[0].Last = 4
	want = append(slices.Delete(want, 1, 2), cluster.Stream{Name: "0", About: "about 0", First: 1, Last: 1})
	_, streams, err = e.one.Adopt(e.ctx, "s", b.fence, as(a.process), ttl)
	e.nilError(err, "adopt once more")
	e.wantStreams(streams, want, "after a second adoption")
	_, streams, err = e.one.Adopt(e.ctx, "t", fence("a1", 1), as(process("b", "b1")), ttl)
	e.nilError(err, "adopt another session")
	e.wantStreams(streams, nil, "another session")
}

func streamsOfRestoredLogs(e *exam) {
	a := e.begin("s")
	restore := func(stream string, first, last uint64, seal bool) {
		e.Helper()
		e.nilError(a.log(stream).Restore(e.ctx, first, texts(stream, first, last), seal), "restore %q", stream)
	}
	restore("tail", 5, 9, false)
	restore("sealed", 3, 4, true)
	restore("empty", 8, 7, false)
	e.append(a, "new", 1, 2, false)
	restore("new", 2, 4, false)
	restore("tail", 5, 9, false) // repeats do not change the order
	restore("sealed", 3, 4, true)
	restore("gone", 1, 2, false)
	e.nilError(a.log("gone").Drop(e.ctx), "drop a restored log")
	backlog := a.Log(eventstore.Key{Session: "s", Stream: "backlog", Fence: a.fence, About: "standalone", Backlog: true})
	e.nilError(backlog.Restore(e.ctx, 40, texts("backlog", 40, 41), false), "restore a backlog")
	e.append(a, "tail", 10, 10, true)
	want := []cluster.Stream{
		{Name: "tail", About: "about tail", First: 5, Last: 10, Sealed: true},
		{Name: "sealed", About: "about sealed", First: 3, Last: 4, Sealed: true},
		{Name: "empty", About: "about empty", First: 8, Last: 7},
		{Name: "new", About: "about new", First: 2, Last: 4},
		{Name: "backlog", About: "standalone", Backlog: true, First: 40, Last: 41},
	}
	_, streams, err := e.two.Adopt(e.ctx, "s", a.fence, as(process("b", "b1")), ttl)
	e.nilError(err, "adopt")
	e.wantStreams(streams, want, "logs that were restored")
	b := owner{e.two, process("b", "b1"), "s", fence("b1", 2)}
	e.wantLog(b, "tail", 5, 10, true, "a restored log")
	e.append(b, "empty", 8, 8, false)
	e.wantLog(b, "empty", 8, 8, false, "a log that was restored without events")
}

func fencesOfLogs(e *exam) {
	a := e.begin("s")
	e.append(a, "a", 1, 3, false)
	e.append(a, "sealed", 1, 2, true)
	b := e.adopt(a)
	e.append(b, "a", 4, 4, false)
	for _, f := range append(otherFences(b.fence), a.fence) {
		e.wantLogsFenced(b.under(f), "a log of another owner")
	}
	e.wantLog(b, "a", 1, 4, false, "after refused operations")
	e.wantLog(b, "sealed", 1, 2, true, "after refused operations")

	// A handle without a fence may read. The zero fence is not the owner's.
	plain := b.Log(eventstore.Key{Session: "s", Stream: "a"})
	e.wantError(plain.Append(e.ctx, 5, texts("a", 5, 5), false), eventstore.ErrFenced, "append without a fence")
	e.wantError(plain.Restore(e.ctx, 1, texts("a", 1, 9), false), eventstore.ErrFenced, "restore without a fence")
	e.wantError(plain.Drop(e.ctx), eventstore.ErrFenced, "drop without a fence")
	e.wantLog(b, "a", 1, 4, false, "after refused operations without a fence")

	l := b.log("a") // the owner itself
	n, st, err := l.Read(e.ctx, 2, make([]eventstore.Event, 8), 0)
	if want := (eventstore.State{First: 1, Last: 4}); err != nil || n != 2 || st != want {
		e.Fatalf("the owner reads %d events, %+v, %v", n, st, err)
	}
	e.nilError(l.Restore(e.ctx, 2, texts("a", 2, 5), false), "the owner restores")
	e.wantLog(b, "a", 2, 5, false, "after a restore")
	e.nilError(l.Drop(e.ctx), "the owner drops")
	e.wantNoEvents(b, "a", "after a drop")
}

// wantLogsFenced checks that o can do nothing with the logs of its session.
func (e *exam) wantLogsFenced(o owner, why string) {
	e.Helper()
	for _, stream := range []string{"a", "sealed", "new"} {
		l := o.log(stream)
		for first := uint64(1); first < 6; first++ {
			e.wantError(l.Append(e.ctx, first, texts(stream, first, first), first%2 == 0), eventstore.ErrFenced,
				"%s: append event %d to %q as %v", why, first, stream, o.fence)
		}
		e.wantError(l.Append(e.ctx, 1, nil, false), eventstore.ErrFenced, "%s: begin %q as %v", why, stream, o.fence)
		e.wantError(l.Restore(e.ctx, 1, texts(stream, 1, 9), true), eventstore.ErrFenced, "%s: restore %q as %v", why, stream, o.fence)
		e.wantError(l.Drop(e.ctx), eventstore.ErrFenced, "%s: drop %q as %v", why, stream, o.fence)
		_, _, err := l.Read(e.ctx, 0, make([]eventstore.Event, 8), 0)
		e.wantError(err, eventstore.ErrFenced, "%s: read %q as %v", why, stream, o.fence)
		l.Mark(eventstore.Mark{Written: 2})
	}
}

// wantFenced checks that o is not the owner of its session, wherever it tries.
func (e *exam) wantFenced(o owner, why string) {
	e.Helper()
	before := e.find(o.session)
	e.wantLogsFenced(o, why)
	e.wantError(o.Save(e.ctx, o.session, o.fence, 9, []byte("stolen")), eventstore.ErrFenced, "%s: save as %v", why, o.fence)
	e.wantError(o.Release(e.ctx, o.session, o.fence), eventstore.ErrFenced, "%s: release as %v", why, o.fence)
	e.wantError(o.End(e.ctx, o.session, o.fence), eventstore.ErrFenced, "%s: end as %v", why, o.fence)
	r := o.record()
	r.About, r.State, r.Version = []byte("stolen"), []byte("stolen"), 9
	e.wantError(o.Put(e.ctx, r, ttl), eventstore.ErrFenced, "%s: put as %v", why, o.fence)
	e.wantMissing(o, why)
	e.wantRecord(e.find(o.session), before, why)
}

func fencesOfRecords(e *exam) {
	a := e.begin("s")
	b := e.adopt(a)
	e.append(b, "a", 1, 3, false)
	for _, f := range append(otherFences(b.fence), a.fence) {
		e.wantFenced(b.under(f), "another fence")
	}
	e.wantLog(b, "a", 1, 3, false, "after refused operations")
	e.nilError(b.Save(e.ctx, "s", b.fence, 2, nil), "save of the owner")
	e.nilError(b.Release(e.ctx, "s", b.fence), "release of the owner")
	for _, f := range append(otherFences(b.fence), a.fence) {
		e.wantFenced(b.under(f), "another fence, when the owner has let go")
	}
	e.nilError(b.End(e.ctx, "s", b.fence), "end of the owner")
}

func formerOwner(e *exam) {
	a := e.begin("s")
	e.append(a, "a", 1, 3, false)
	e.append(a, "sealed", 1, 2, true)
	used, unused := a.log("a"), a.log("a")
	e.nilError(used.Append(e.ctx, 4, texts("a", 4, 4), false), "append")
	b := e.adopt(a)
	for name, l := range map[string]eventstore.Log{"used": used, "unused": unused} {
		e.wantError(l.Append(e.ctx, 5, texts("a", 5, 5), false), eventstore.ErrFenced, "append through an older handle, %s", name)
		e.wantError(l.Append(e.ctx, 4, texts("a", 4, 4), false), eventstore.ErrFenced, "repeat an append through an older handle, %s", name)
		_, _, err := l.Read(e.ctx, 0, nil, 0)
		e.wantError(err, eventstore.ErrFenced, "read through an older handle, %s", name)
	}
	e.wantFenced(a, "the former owner")
	e.wantLog(b, "a", 1, 4, false, "after operations of the former owner")
	e.wantLog(b, "sealed", 1, 2, true, "after operations of the former owner")
	e.append(b, "a", 5, 5, true)

	// The first process takes the session back. Its first fence is as dead as the second owner's.
	_, _, err := e.one.Adopt(e.ctx, "s", b.fence, as(a.process), ttl)
	e.nilError(err, "adopt back")
	e.wantFenced(a, "the fence of an earlier time as owner")
	e.wantFenced(b, "the second owner")
	again := a.under(fence("a1", 3))
	e.append(again, "new", 1, 1, false)
	e.wantLog(again, "a", 1, 5, true, "after two adoptions")
}

// manyEvents is how many events a log gets beside something. Then the last one is repeated: a store may be small.
const manyEvents = 2000

// adoptBesideAppends lets owners append to several logs while another process adopts the session. What Adopt returns must be all that is
// there, then and later, and all that was acknowledged.
func adoptBesideAppends(e *exam) {
	for round := range 25 {
		a := e.begin(fmt.Sprint(round))
		const logs = 3
		var acked [logs]uint64
		var streams []cluster.Stream
		started := make(chan struct{}, logs)
		var work []func() error
		for i := range logs {
			work = append(work, func() error {
				l := a.log(fmt.Sprint(i))
				for seq := uint64(1); ; seq = min(seq+1, manyEvents) {
					err := l.Append(e.ctx, seq, texts(fmt.Sprint(i), seq, seq), false)
					if seq == uint64(round%4+1) || err != nil && seq <= uint64(round%4) {
						started <- struct{}{}
					}
					if err != nil {
						return err
					}
					acked[i] = seq
					runtime.Gosched() // the adoption is to come among appends, on one processor too
				}
			})
		}
		work = append(work, func() (err error) {
			for range logs {
				<-started
			}
			_, streams, err = e.two.Adopt(e.ctx, a.session, a.fence, as(process("b", "b1")), ttl)
			return err
		})
		errs := at(work...)
		e.nilError(errs[logs], "adopt beside appends")
		b := owner{e.two, process("b", "b1"), a.session, fence("b1", 2)}
		for i, err := range errs[:logs] {
			stream := fmt.Sprint(i)
			e.wantError(err, eventstore.ErrFenced, "an append after the adoption")
			at := slices.IndexFunc(streams, func(s cluster.Stream) bool { return s.Name == stream })
			if at < 0 && acked[i] == 0 {
				continue
			}
			if at < 0 {
				e.Fatalf("Adopt does not know log %q, which has %d events that were acknowledged", stream, acked[i])
			}
			if last := streams[at].Last; last != acked[i] {
				e.Fatalf("Adopt says that log %q ends with event %d, and event %d was acknowledged", stream, last, acked[i])
			}
			e.wantLog(b, stream, 1, acked[i], false, "after an adoption beside appends")
		}
	}
}

func release(e *exam) {
	a := e.begin("s")
	e.append(a, "a", 1, 2, false)
	want := a.record()
	want.Released = true
	for range 2 {
		e.nilError(a.Release(e.ctx, "s", a.fence), "release")
		e.wantRecord(e.find("s"), want, "after Release")
	}
	e.nilError(a.Save(e.ctx, "s", a.fence, 2, nil), "save when released: the fence stays")
	want.State, want.Version = nil, 2
	e.wantRecord(e.find("s"), want, "Save does not take a release back")
	e.append(a, "a", 3, 3, true) // the same for logs
	to := process("b", "b1")
	r, streams, err := e.two.Adopt(e.ctx, "s", a.fence, as(to), ttl)
	e.nilError(err, "adopt a released session")
	want.Released, want.Fence, want.Self, want.Generation = false, fence("b1", 2), to.Self, as(to).Generation
	e.wantRecord(r, want, "a released session, adopted")
	e.wantStreams(streams, []cluster.Stream{{Name: "a", About: "about a", First: 1, Last: 3, Sealed: true}}, "a released session, adopted")
	e.wantError(a.Release(e.ctx, "s", a.fence), eventstore.ErrFenced, "repeat Release when another has adopted")
	e.wantRecord(e.find("s"), want, "after a late Release")
	e.wantError(a.Release(e.ctx, "unknown", a.fence), cluster.ErrUnknown, "release an unknown session")
}

func releaseBesideAdoption(e *exam) {
	for i := range 30 {
		a := e.begin(fmt.Sprint(i))
		b := owner{e.two, process("b", "b1"), a.session, fence("b1", 2)}
		errs := at(
			func() error { return a.Release(e.ctx, a.session, a.fence) },
			func() error {
				r, _, err := b.Adopt(e.ctx, b.session, a.fence, as(b.process), ttl)
				if err == nil && r.Released {
					return errors.New("a session that was just adopted is released")
				}
				return err
			},
		)
		if errs[0] != nil {
			e.wantError(errs[0], eventstore.ErrFenced, "release beside an adoption")
		}
		e.nilError(errs[1], "adopt beside a release")
		want := b.record()
		e.wantRecord(e.find(b.session), want, "after release and adoption at once")
		e.wantFenced(a, "after release and adoption at once")
	}
}
