package clustertest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

func putAndFind(e *exam) {
	o := e.begin("s")
	e.wantRecord(e.find("s"), o.record(), "after Put")
	for i, state := range [][]byte{nil, {}, {0}, []byte("text")} {
		r := o.record()
		r.Session, r.State, r.Format, r.Released = fmt.Sprint(i), state, i-2, true
		e.nilError(e.one.Put(e.ctx, r, ttl), "put")
		r.Released = false // no process puts a session to let go of it
		e.wantRecord(e.find(r.Session), r, "after Put")
	}
	r := o.record()
	r.Session, r.About, r.Self, r.Fence = "plain", nil, "", fence("", 1<<63)
	e.nilError(e.one.Put(e.ctx, r, ttl), "put")
	e.wantRecord(e.find("plain"), r, "a record with little in it")
	e.wantRecord(e.find("s"), o.record(), "after other records came")
}

func putAgain(e *exam) {
	o := e.begin("s")
	e.append(o, "a", 1, 3, false)
	r := o.record()
	e.nilError(o.Put(e.ctx, r, ttl), "repeat Put")
	e.wantRecord(e.find("s"), r, "after a repeat of Put")
	r.Format, r.About, r.State = 4, []byte("about more"), nil
	e.nilError(o.Put(e.ctx, r, ttl), "put again")
	e.wantRecord(e.find("s"), r, "Put replaces Format, About and State")
	e.wantLog(o, "a", 1, 3, false, "Put leaves the logs of a record that is there")
	e.append(o, "a", 4, 4, false)

	e.nilError(o.Release(e.ctx, "s", o.fence), "release")
	e.nilError(o.Put(e.ctx, r, ttl), "put when released")
	r.Released = true
	e.wantRecord(e.find("s"), r, "Put does not take a release back")
}

func putUnderAnotherFence(e *exam) {
	a := e.begin("s")
	b := e.adopt(a)
	e.append(b, "a", 1, 2, false)
	want := e.find("s")
	for _, f := range otherFences(b.fence) {
		r := a.record()
		r.Fence = f
		e.wantError(e.one.Put(e.ctx, r, ttl), eventstore.ErrFenced, "put with fence %v where there is %v", f, b.fence)
	}
	e.wantRecord(e.find("s"), want, "after refused Puts")
	e.wantLog(b, "a", 1, 2, false, "after refused Puts")
}

// otherFences are fences that differ from f in one part or both.
func otherFences(f eventstore.Fence) []eventstore.Fence {
	return []eventstore.Fence{
		{Incarnation: f.Incarnation + "x", Epoch: f.Epoch},
		{Incarnation: "", Epoch: f.Epoch},
		{Incarnation: f.Incarnation, Epoch: f.Epoch + 1},
		{Incarnation: f.Incarnation, Epoch: f.Epoch - 1},
		{Incarnation: f.Incarnation, Epoch: 1<<64 - 1},
		{Incarnation: "another", Epoch: f.Epoch + 1},
		{Incarnation: "another", Epoch: f.Epoch - 1},
		{Incarnation: "a1", Epoch: f.Epoch - 1},
	}
}

func putsAtOnce(e *exam) {
	for i := range 20 {
		session := fmt.Sprint(i)
		owners := []owner{
			{e.one, process("a", "a1"), session, fence("a1", 2)},
			{e.two, process("b", "b1"), session, fence("b1", 2)},
			{e.one, process("d", "d1"), session, fence("d1", 3)},
		}
		var puts []func() error
		for _, o := range owners {
			puts = append(puts, func() error { return o.Put(e.ctx, o.record(), ttl) })
		}
		e.wantOneWinner(session, owners, at(puts...), "puts at once")
	}
}

// wantOneWinner checks that one owner of several got the session, and that all the others are fenced.
func (e *exam) wantOneWinner(session string, owners []owner, errs []error, why string) owner {
	e.Helper()
	winner := -1
	for i, err := range errs {
		switch {
		case err != nil:
			e.wantError(err, eventstore.ErrFenced, "%s: one that was slower", why)
		case winner >= 0:
			e.Fatalf("%s: %v and %v both got session %q", why, owners[winner].fence, owners[i].fence, session)
		default:
			winner = i
		}
	}
	if winner < 0 {
		e.Fatalf("%s: nobody got session %q", why, session)
	}
	if r := e.find(session); r.Fence != owners[winner].fence || r.Self != owners[winner].process.Self {
		e.Fatalf("%s: the record is %+v, and %v won", why, r, owners[winner].fence)
	}
	for i, o := range owners {
		if i != winner {
			e.wantFenced(o, why)
		}
	}
	e.append(owners[winner], "of the winner", 1, 2, false)
	e.nilError(owners[winner].Save(e.ctx, session, owners[winner].fence, 9, []byte("saved")), "%s: save of the winner", why)
	return owners[winner]
}

func findCounts(e *exam) {
	o := e.begin("s")
	ended := e.begin("ended")
	e.nilError(ended.End(e.ctx, "ended", ended.fence), "end")
	a := e.join(e.one, process("a", "a1"))
	a.Count = 7
	e.renew(e.one, a)
	for _, c := range []struct {
		by   cluster.Process
		want uint64
		who  string
	}{
		{a.Process, 7, "a member"},
		{process("a", "a2"), 0, "another process with the Self of a member"},
		{process("b", "a1"), 0, "a process without an entry"},
		{cluster.Process{}, 0, "nobody"},
	} {
		for session, want := range map[string]error{"s": nil, "ended": cluster.ErrEnded, "unknown": cluster.ErrUnknown} {
			f, err := o.Find(e.ctx, session, c.by)
			e.wantError(err, want, "find session %q", session)
			if f.Count != c.want || (f.Record != nil) != (want == nil) {
				e.Fatalf("%s found session %q: %+v, want count %d", c.who, session, f, c.want)
			}
		}
	}
	a.Count = 8
	e.renew(e.one, a)
	if f, err := e.two.Find(e.ctx, "s", a.Process); err != nil || f.Count != 8 {
		e.Fatalf("after a renewal Find says count %d, %v", f.Count, err)
	}
}

func save(e *exam) {
	o := e.begin("s")
	want := o.record()
	for i, state := range [][]byte{[]byte("one"), {}, []byte("two"), nil, {0, 255, '\n'}, bytes.Repeat([]byte("long "), 1000)} {
		want.State, want.Version = state, uint64(i*i+7)
		e.nilError(o.Save(e.ctx, "s", o.fence, want.Version, state), "save")
		e.wantRecord(e.find("s"), want, "after Save")
	}
	b := e.adopt(o)
	r := e.find("s")
	want.Fence, want.Self, want.Generation = b.fence, b.process.Self, as(b.process).Generation
	e.wantRecord(r, want, "a saved state, after an adoption")
	want.State, want.Version = []byte("three"), want.Version+1
	e.nilError(b.Save(e.ctx, "s", b.fence, want.Version, want.State), "save of the new owner")
	e.wantRecord(e.find("s"), want, "after Save of the new owner")
	e.wantError(b.Save(e.ctx, "unknown", b.fence, 9, nil), cluster.ErrUnknown, "save a session without a record")
	e.wantNotFound("unknown", cluster.ErrUnknown, "after a refused Save")
}

func largeRecords(e *exam) {
	o := e.begin("s")
	r := o.record()
	for i := range 1 << 20 {
		r.State = append(r.State, byte(i*i>>8))
	}
	r.About = r.State[:200_000]
	e.nilError(o.Put(e.ctx, r, ttl), "put a large record")
	e.wantRecord(e.find("s"), r, "a large record")
	r.State, r.Version = r.State[1:], 2
	e.nilError(o.Save(e.ctx, "s", o.fence, 2, r.State), "save a large state")
	e.wantRecord(e.find("s"), r, "a large state")
	var held []cluster.Held
	for i := range 3000 {
		held = append(held, cluster.Held{Session: fmt.Sprint("unknown", i), Fence: o.fence})
	}
	e.wantTouched(o, append(held, cluster.Held{Session: "s", Fence: o.fence}), ttl, held, "many sessions")
	e.wantTouched(o, nil, ttl, nil, "no session")
}

// largeBatches gives the store as much in one call as rejoin does. It seals, so a store that is small takes it too.
func largeBatches(e *exam) {
	o := e.begin("s")
	small, big := make([][]byte, 128), make([][]byte, 128)
	for i := range big {
		small[i], big[i] = fmt.Append(nil, i), bytes.Repeat([]byte{byte(i)}, 1<<13)
	}
	want := func(stream string, events [][]byte) {
		e.Helper()
		buf := make([]eventstore.Event, len(events)+1)
		var got [][]byte
		for {
			n, _, err := o.log(stream).Read(e.ctx, uint64(len(got)), buf, 1<<18)
			e.nilError(err, "read %q", stream)
			if n == 0 {
				break
			}
			for _, ev := range buf[:n] {
				got = append(got, ev.Data)
			}
		}
		if !slices.EqualFunc(got, events, bytes.Equal) {
			e.Fatalf("%q: %d events come back as %d, or others", stream, len(events), len(got))
		}
	}
	for name, events := range map[string][][]byte{"128 events": small, "1 MiB in 128 events": big, "an event of 3 MiB": {make([]byte, 3<<20)}} {
		e.nilError(o.log(name).Append(e.ctx, 1, events, true), "append %s", name)
		want(name, events)
		e.nilError(o.log(name).Drop(e.ctx), "drop")
		again := "again, " + name
		e.nilError(o.log(again).Restore(e.ctx, 1, events, true), "restore %s", name)
		want(again, events)
		e.nilError(o.log(again).Drop(e.ctx), "drop")
	}
}

func anyName(e *exam) {
	names := []string{
		"", "s", "S", " s", "s ", "s:", "s\x00", "s\x00t", "s:t", "s/t", "{s}", "{s}t", "s*", "s?", "s\n", "\r\n", "\xff\xfe", "ä", "a\u0308",
		string(make([]byte, 500)),
	}
	for i, name := range names {
		o := owner{e.one, process("a", name), name, fence(name+"i", uint64(i+1))}
		r := o.record()
		r.Self = name
		e.nilError(o.Put(e.ctx, r, ttl), "put session %q", name)
		err := o.log(name).Append(e.ctx, 1, texts(name, 1, uint64(i+1)), false)
		e.nilError(err, "append to log %q of session %q", name, name)
	}
	for i, name := range names {
		o := owner{e.two, process("a", name), name, fence(name+"i", uint64(i+1))}
		want := o.record()
		want.Self = name
		e.wantRecord(e.find(name), want, fmt.Sprintf("session %q", name))
		to := cluster.Process{Cluster: name, Incarnation: "new " + name, Self: "new " + name}
		want.Fence, want.Self, want.Generation = fence("new "+name, uint64(i+2)), to.Self, as(to).Generation
		r, streams, err := e.two.Adopt(e.ctx, name, o.fence, as(to), ttl)
		e.nilError(err, "adopt session %q", name)
		e.wantRecord(r, want, fmt.Sprintf("session %q, adopted", name))
		e.wantStreams(streams, []cluster.Stream{{Name: name, About: "about " + name, First: 1, Last: uint64(i + 1)}}, fmt.Sprintf("session %q", name))
	}
}

// bytesStay checks that what was given out or taken does not change with the record.
func bytesStay(e *exam) {
	o := e.begin("s")
	state := make([]byte, 5, 100)
	copy(state, "first")
	e.nilError(o.Save(e.ctx, "s", o.fence, 2, state), "save")
	before := e.find("s")
	_ = append(before.State, "more"...)
	_ = append(before.About, "more"...)
	e.nilError(o.Save(e.ctx, "s", o.fence, 3, []byte("other")), "save")
	if string(before.State) != "first" || string(state) != "first" {
		e.Fatalf("a record that was found before has the state %q after Save", before.State)
	}
	now := e.find("s")
	now.Self, now.Fence, now.Released, now.Format = "mine", fence("mine", 9), true, 99
	want := o.record()
	want.State, want.Version = []byte("other"), 3
	e.wantRecord(e.find("s"), want, "when somebody has changed the record that was returned")
	put := o.record()
	put.Version = 4
	want = o.record()
	want.Version = 4
	e.nilError(o.Put(e.ctx, put, ttl), "put")
	put.Self, put.Fence, put.Format, put.About, put.State, put.Version = "mine", fence("mine", 9), 99, nil, nil, 99
	e.wantRecord(e.find("s"), want, "when somebody has changed the record that was put")
}

func unknownSessions(e *exam) {
	o := owner{e.one, process("a", "a1"), "s", fence("a1", 1)}
	e.wantUnknown(o, "a session that never was")
	e.wantMissing(o, "an unknown session")
	e.wantUnknown(o, "after operations on a session that never was")
	early := o.log("early")
	e.nilError(o.Put(e.ctx, o.record(), ttl), "put")
	e.nilError(early.Append(e.ctx, 1, texts("early", 1, 2), false), "append through a handle that is older than the record")
	e.wantLog(o, "early", 1, 2, false, "a handle that is older than the record")
	e.wantLog(o, "a", 1, 0, false, "what was refused before there was a record")
}

// wantUnknown checks that the engine knows nothing of a session of which o thinks that it is the owner.
func (e *exam) wantUnknown(o owner, why string) {
	e.Helper()
	e.wantNotFound(o.session, cluster.ErrUnknown, why)
	for _, f := range []eventstore.Fence{o.fence, {Incarnation: "x", Epoch: 7}} {
		e.wantError(o.Save(e.ctx, o.session, f, 9, nil), cluster.ErrUnknown, "%s: save", why)
		e.wantError(o.Release(e.ctx, o.session, f), cluster.ErrUnknown, "%s: release", why)
		_, _, err := o.Adopt(e.ctx, o.session, f, as(process("x", "x")), ttl)
		e.wantError(err, cluster.ErrUnknown, "%s: adopt", why)
		l := o.under(f).log("a")
		e.wantBehind(l.Append(e.ctx, 1, texts("a", 1, 1), false), "%s: append event 1", why)
		e.wantBehind(l.Append(e.ctx, 1, nil, false), "%s: begin a log", why)
		e.wantBehind(l.Append(e.ctx, 5, texts("a", 5, 6), true), "%s: append the events 5 and 6", why)
		e.wantBehind(l.Restore(e.ctx, 3, texts("a", 3, 4), false), "%s: restore", why)
		_, _, err = l.Read(e.ctx, 0, nil, 0)
		e.wantBehind(err, "%s: read", why)
		e.nilError(l.Drop(e.ctx), "%s: drop", why)
	}
}

func recordsExpire(e *exam) {
	e.begin("other")
	o := e.begin("s")
	e.append(o, "a", 1, 3, false)
	old := o.log("a")
	time.Sleep(ttl - time.Second)
	e.wantRecord(e.find("s"), o.record(), "one second before the end of its life")
	e.nilError(o.Put(e.ctx, o.record(), ttl), "put again, which begins a new life")
	time.Sleep(ttl - time.Second)
	e.append(o, "a", 4, 4, false)
	b := e.adopt(o) // the same
	time.Sleep(ttl - time.Second)
	e.wantLog(b, "a", 1, 4, false, "one second before the end of its life")
	e.append(b, "a", 5, 5, true)
	time.Sleep(2 * time.Second)
	e.wantUnknown(b, "at the end of its life")
	e.wantUnknown(o, "at the end of its life")
	e.nilError(o.Put(e.ctx, o.record(), ttl), "put when the record has expired, which leaves no tombstone")
	e.wantLog(o, "a", 1, 0, false, "logs live as long as their record")
	e.nilError(old.Append(e.ctx, 1, texts("a", 1, 2), false), "append through a handle from before")
	e.wantLog(o, "a", 1, 2, false, "a new life")
}

func touch(e *exam) {
	o, fenced, ended := e.begin("s"), e.begin("fenced"), e.begin("ended")
	b := e.adopt(fenced)
	e.nilError(ended.End(e.ctx, "ended", ended.fence), "end")
	held := []cluster.Held{{Session: "fenced", Fence: fenced.fence}, {Session: "ended", Fence: ended.fence}, {Session: "unknown", Fence: o.fence}}
	for _, f := range otherFences(b.fence) {
		held = append(held, cluster.Held{Session: "fenced", Fence: f})
	}
	held = append(held, cluster.Held{Session: "s", Fence: o.fence})
	e.append(o, "a", 1, 2, false)
	half := cluster.TombstoneTTL / 2
	time.Sleep(half)
	e.wantTouched(o, held, 2*ttl, held[:len(held)-1], "one of several")
	time.Sleep(half + time.Second)
	e.wantNotFound("ended", cluster.ErrUnknown, "a tombstone that was touched")
	time.Sleep(ttl - 2*half - 2*time.Second)
	e.wantRecord(e.find("fenced"), &cluster.Record{
		Session: "fenced", Fence: b.fence, Self: b.process.Self, Generation: as(b.process).Generation, Format: 3, About: []byte("about fenced"),
		State: []byte("state of fenced"), Version: 1,
	}, "one second before the end of its life")
	time.Sleep(2 * time.Second)
	e.wantNotFound("fenced", cluster.ErrUnknown, "a record that others touched")
	e.wantNotFound("unknown", cluster.ErrUnknown, "an unknown session that was touched")
	time.Sleep(ttl)
	e.wantLog(o, "a", 1, 2, false, "a touched record and its logs")
	e.wantRecord(e.find("s"), o.record(), "a touched record")
	time.Sleep(half)
	e.wantUnknown(o, "at the end of a life that was extended")
}
