package clustertest

import (
	"context"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

func wentBack(e *exam) {
	member := e.join(e.one, process("b", "b1"))
	member.Count = 3
	e.renew(e.one, member)
	first := e.begin("s")
	ended := e.begin("ended")
	e.append(first, "a", 1, 5, false)
	e.append(first, "sealed", 1, 2, true)
	e.append(first, "dropped", 1, 1, false)
	o := e.adopt(first) // the second owner, at epoch 2
	o.client = e.one
	used, unused, dropped := o.log("a"), o.log("sealed"), o.log("dropped")
	e.nilError(used.Append(e.ctx, 6, texts("a", 6, 6), false), "append")
	e.nilError(dropped.Drop(e.ctx), "drop")
	e.nilError(ended.End(e.ctx, "ended", ended.fence), "end")

	e.forget()
	f, err := e.one.Find(e.ctx, "s", member.Process)
	e.wantError(err, cluster.ErrUnknown, "find after a loss")
	if f.Count != 0 {
		e.Fatalf("after a loss Find says that the count is %d, as if nothing had happened", f.Count)
	}
	e.wantUnknown(o, "after a loss")
	e.wantNotFound("ended", cluster.ErrUnknown, "an engine that has forgotten has no tombstones")
	e.wantBehind(used.Append(e.ctx, 7, texts("a", 7, 7), false), "append through an older handle, after a loss")
	_, _, err = unused.Read(e.ctx, 0, nil, 0)
	e.wantBehind(err, "read through an older handle, after a loss")
	member.Count = 4
	if v := e.renew(e.one, member); v.Was != 0 {
		e.Fatalf("after a loss the renewal found count %d", v.Was)
	}

	r := o.record()
	r.State, r.Version = []byte("the owner has it"), 3
	e.nilError(o.Put(e.ctx, r, ttl), "put a record of epoch 2 where there is none")
	e.wantRecord(e.find("s"), r, "a record that was put again")
	e.wantLog(o, "a", 1, 0, false, "logs of a record that was put again")
	e.wantFenced(first, "the former owner, after the record was put again")
	for _, other := range otherFences(o.fence) {
		e.wantLogsFenced(o.under(other), "another fence, after the record was put again")
	}

	_, _, err = used.Read(e.ctx, 0, nil, 0)
	e.nilError(err, "read through an older handle when the record is there again")
	err = used.Append(e.ctx, 7, texts("a", 7, 7), false)
	e.wantBehind(err, "append to a log that was not restored")
	for range 2 {
		e.nilError(used.Restore(e.ctx, 4, texts("a", 4, 6), false), "restore through an older handle")
		e.nilError(unused.Restore(e.ctx, 2, texts("sealed", 2, 2), true), "restore a sealed log")
	}
	e.wantLog(o, "a", 4, 6, false, "a restored log")
	e.wantLog(o, "sealed", 2, 2, true, "a restored log")
	e.nilError(used.Append(e.ctx, 7, texts("a", 7, 8), false), "append after a restore")
	e.wantLogsFenced(first, "the former owner, after a restore")
	_, streams, err := e.two.Adopt(e.ctx, "s", o.fence, as(process("d", "d1")), ttl)
	e.nilError(err, "adopt after a restore")
	e.wantStreams(streams, []cluster.Stream{
		{Name: "a", About: "about a", First: 4, Last: 8}, {Name: "sealed", About: "about sealed", First: 2, Last: 2, Sealed: true},
	}, "after a restore")
	e.wantFenced(o, "after an adoption that came after a restore")
}

// ownersAfterLoss lets a former owner come back first after a loss. Two processes then hold the same epoch, or the stale one holds a
// lower one. Whoever puts its record first has the session; the other is fenced, and nothing is mixed.
func ownersAfterLoss(e *exam) {
	for _, fences := range [][2]eventstore.Fence{
		{fence("a1", 2), fence("b1", 2)},
		{fence("a1", 1), fence("b1", 2)},
		{fence("a1", 3), fence("b1", 2)},
		{fence("a1", 1), fence("a1", 3)},
	} {
		e.forget()
		a, b := owner{e.one, process("a", "a1"), "s", fences[0]}, owner{e.two, process("b", "b1"), "s", fences[1]}
		e.nilError(a.Put(e.ctx, a.record(), ttl), "put as %v", a.fence)
		e.append(a, "a", 1, 3, false)
		e.wantFenced(b, "two owners after a loss")
		e.wantLog(a, "a", 1, 3, false, "two owners after a loss")
		e.append(a, "a", 4, 4, false)
		_, _, err := b.Adopt(e.ctx, "s", fence("b1", b.fence.Epoch-1), as(b.process), ttl)
		e.wantError(err, eventstore.ErrFenced, "repeat an adoption that the engine has lost")
	}
}

// repeats makes each operation three times, as if answers were lost.
func repeats(e *exam) {
	again := func(what string, f func() error) {
		e.Helper()
		for range 3 {
			e.nilError(f(), "%s, and again", what)
		}
	}
	p := process("a", "a1")
	var m cluster.Member
	again("join", func() (err error) { m, err = e.one.Join(e.ctx, as(p), lease); return err })
	m.Count = 1
	var v cluster.View
	again("renew", func() (err error) { v, err = e.one.Renew(e.ctx, m, lease); return err })
	if v.Was != 1 {
		e.Fatalf("a repeated renewal found count %d", v.Was)
	}
	e.wantMembers(v, "after repeats", m)
	a := owner{e.one, p, "s", fence("a1", 1)}
	again("put", func() error { return a.Put(e.ctx, a.record(), ttl) })
	again("append", func() error { return a.log("a").Append(e.ctx, 1, texts("a", 1, 2), false) })
	again("restore", func() error { return a.log("b").Restore(e.ctx, 4, texts("b", 4, 5), true) })
	again("save", func() error { return a.Save(e.ctx, "s", a.fence, 2, []byte("saved")) })
	again("touch", func() error {
		_, err := a.Touch(e.ctx, []cluster.Held{{Session: "s", Fence: a.fence}}, ttl)
		return err
	})
	again("release", func() error { return a.Release(e.ctx, "s", a.fence) })
	want := a.record()
	want.State, want.Version, want.Released = []byte("saved"), 2, true
	e.wantRecord(e.find("s"), want, "after repeats")
	b := owner{e.two, process("b", "b1"), "s", fence("b1", 2)}
	again("adopt", func() error {
		r, streams, err := b.Adopt(e.ctx, "s", a.fence, as(b.process), ttl)
		if err == nil {
			want.Fence, want.Self, want.Generation, want.Released = b.fence, b.process.Self, as(b.process).Generation, false
			e.wantRecord(r, want, "a repeated adoption")
			e.wantStreams(streams, []cluster.Stream{
				{Name: "a", About: "about a", First: 1, Last: 2}, {Name: "b", About: "about b", First: 4, Last: 5, Sealed: true},
			}, "a repeated adoption")
		}
		return err
	})
	again("drop", func() error { return b.log("b").Drop(e.ctx) })
	again("end", func() error { return b.End(e.ctx, "s", b.fence) })
	again("leave", func() error { return e.one.Leave(e.ctx, m) })
	e.wantEnded(b, b.log("a"), "after repeats")
	m.Left = true
	e.wantMembers(e.renew(e.one, m), "after repeats", m)
}

func endedContext(e *exam) {
	a := e.begin("s")
	m := e.join(e.one, a.process)
	m.Count = 1
	want := e.find("s")
	canceled, cancel := context.WithCancel(e.ctx)
	cancel()
	late, cancelLate := context.WithTimeout(e.ctx, -1)
	defer cancelLate()
	for ctx, ended := range map[context.Context]error{canceled: context.Canceled, late: context.DeadlineExceeded} {
		r := a.record()
		r.State, r.Version = []byte("late"), 9
		_, err := a.Join(ctx, cluster.Member{Process: process("a", "a2"), Generation: m.Generation + 1}, lease)
		e.wantError(err, ended, "join")
		_, err = a.Renew(ctx, m, lease)
		e.wantError(err, ended, "renew")
		e.wantError(a.Leave(ctx, m), ended, "leave")
		e.wantError(a.Put(ctx, r, ttl), ended, "put")
		_, err = a.Find(ctx, "s", a.process)
		e.wantError(err, ended, "find")
		_, _, err = a.Adopt(ctx, "s", a.fence, as(process("b", "b1")), ttl)
		e.wantError(err, ended, "adopt")
		e.wantError(a.Save(ctx, "s", a.fence, 9, nil), ended, "save")
		_, err = a.Touch(ctx, []cluster.Held{{Session: "s", Fence: a.fence}}, ttl)
		e.wantError(err, ended, "touch")
		e.wantError(a.Release(ctx, "s", a.fence), ended, "release")
		e.wantError(a.End(ctx, "s", a.fence), ended, "end")
	}
	e.wantRecord(e.find("s"), want, "after operations with a context that has ended")
	if v := e.renew(e.one, m); v.Was != 0 {
		e.Fatalf("a renewal with a context that has ended wrote count %d", v.Was)
	}
}

func closed(e *exam) {
	a := e.begin("s")
	if e.another { // another process goes on
		defer func() { e.wantRecord(e.find("s"), a.record(), "when another process has closed its directory") }()
	}
	e.nilError(a.Close(), "close")
	_, err := a.Join(e.ctx, as(a.process), lease)
	e.wantError(err, eventstore.ErrClosed, "join")
	_, err = a.Renew(e.ctx, cluster.Member{Process: a.process, Count: 1}, lease)
	e.wantError(err, eventstore.ErrClosed, "renew")
	e.wantError(a.Leave(e.ctx, cluster.Member{Process: a.process}), eventstore.ErrClosed, "leave")
	e.wantError(a.Put(e.ctx, a.record(), ttl), eventstore.ErrClosed, "put")
	_, err = a.Find(e.ctx, "s", a.process)
	e.wantError(err, eventstore.ErrClosed, "find")
	_, _, err = a.Adopt(e.ctx, "s", a.fence, as(a.process), ttl)
	e.wantError(err, eventstore.ErrClosed, "adopt")
	e.wantError(a.Save(e.ctx, "s", a.fence, 9, nil), eventstore.ErrClosed, "save")
	_, err = a.Touch(e.ctx, []cluster.Held{{Session: "s", Fence: a.fence}}, ttl)
	e.wantError(err, eventstore.ErrClosed, "touch")
	e.wantError(a.Release(e.ctx, "s", a.fence), eventstore.ErrClosed, "release")
	e.wantError(a.End(e.ctx, "s", a.fence), eventstore.ErrClosed, "end")
	e.wantError(a.log("a").Append(e.ctx, 1, texts("a", 1, 1), false), eventstore.ErrClosed, "append")
}
