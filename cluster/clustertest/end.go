package clustertest

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

func end(e *exam) {
	a, other := e.begin("s"), e.begin("s2")
	e.append(a, "a", 1, 3, false)
	e.append(a, "sealed", 1, 3, true)
	e.append(other, "a", 1, 3, false)
	used := a.log("a")
	e.nilError(used.Append(e.ctx, 4, texts("a", 4, 4), false), "append")
	e.nilError(a.End(e.ctx, "s", a.fence), "end")
	for i := range 3 {
		e.wantEnded(a, used, "after End")
		f := []eventstore.Fence{a.fence, fence("b1", 2), {}}[i]
		e.nilError([]client{e.two, e.one, e.two}[i].End(e.ctx, "s", f), "end again as %v", f)
	}
	e.wantRecord(e.find("s2"), other.record(), "another session")
	e.wantLog(other, "a", 1, 3, false, "another session")
}

// wantEnded checks that there is proof that a session has ended. older is a handle from before.
func (e *exam) wantEnded(o owner, older eventstore.Log, why string) {
	e.Helper()
	e.wantNotFound(o.session, cluster.ErrEnded, why)
	for _, f := range []eventstore.Fence{o.fence, {Incarnation: "x", Epoch: o.fence.Epoch + 1}} {
		e.wantError(o.Save(e.ctx, o.session, f, 9, []byte("late")), cluster.ErrEnded, "%s: save", why)
		e.wantError(o.Release(e.ctx, o.session, f), cluster.ErrEnded, "%s: release", why)
		r := o.record()
		r.Fence = f
		e.wantError(o.Put(e.ctx, r, ttl), cluster.ErrEnded, "%s: put", why)
		_, _, err := e.two.Adopt(e.ctx, o.session, f, as(process("x", "x")), ttl)
		e.wantError(err, cluster.ErrEnded, "%s: adopt", why)
		e.wantMissing(o.under(f), why)
		logs := []eventstore.Log{o.under(f).log("a"), o.under(f).log("new"), owner{e.two, o.process, o.session, f}.log("a"), older}
		for _, l := range logs {
			e.wantError(l.Append(e.ctx, 1, texts("a", 1, 1), false), eventstore.ErrGone, "%s: append event 1", why)
			e.wantError(l.Append(e.ctx, 5, texts("a", 5, 5), true), eventstore.ErrGone, "%s: append event 5", why)
			e.wantError(l.Append(e.ctx, 1, nil, false), eventstore.ErrGone, "%s: begin a log", why)
			e.wantError(l.Restore(e.ctx, 1, texts("a", 1, 4), false), eventstore.ErrGone, "%s: restore", why)
			_, _, err := l.Read(e.ctx, 0, nil, 0)
			e.wantError(err, eventstore.ErrGone, "%s: read", why)
			e.nilError(l.Drop(e.ctx), "%s: drop", why)
		}
	}
	e.wantNoEvents(o, "a", why)
}

func endOfUnknown(e *exam) {
	a := owner{e.one, process("a", "a1"), "s", fence("a1", 1)}
	l := a.log("a")
	e.nilError(a.End(e.ctx, "s", a.fence), "end a session that the engine does not know")
	e.wantEnded(a, l, "after End of an unknown session")
}

func endBesideAppends(e *exam) {
	for i := range 20 {
		a := e.begin(fmt.Sprint(i))
		e.append(a, "a", 1, 1, false)
		l := a.log("a")
		started := make(chan struct{})
		errs := at(func() error {
			for seq := uint64(2); ; seq = min(seq+1, manyEvents) {
				err := l.Append(e.ctx, seq, texts("a", seq, seq), false)
				if seq == 2 {
					close(started)
				}
				if err != nil {
					return err
				}
				runtime.Gosched()
			}
		}, func() error {
			<-started
			return a.End(e.ctx, a.session, a.fence)
		})
		e.wantError(errs[0], eventstore.ErrGone, "an append after End")
		e.nilError(errs[1], "end beside appends")
		e.wantEnded(a, l, "after End beside appends")
	}
}

func endBesideAdoption(e *exam) {
	for i := range 30 {
		a := e.begin(fmt.Sprint(i))
		e.append(a, "a", 1, 3, false)
		l := a.log("a")
		b := owner{e.two, process("b", "b1"), a.session, fence("b1", 2)}
		errs := at(
			func() error { return a.End(e.ctx, a.session, a.fence) },
			func() error {
				_, streams, err := b.Adopt(e.ctx, b.session, a.fence, as(b.process), ttl)
				if err == nil && (len(streams) != 1 || streams[0].Last != 3) {
					return fmt.Errorf("adopted with the streams %+v", streams)
				}
				return err
			},
		)
		switch {
		case errs[0] == nil:
			e.wantError(errs[1], cluster.ErrEnded, "adopt, when End was faster")
			e.wantEnded(a, l, "End was faster")
		case errs[1] == nil:
			e.wantError(errs[0], eventstore.ErrFenced, "end, when Adopt was faster")
			e.append(b, "a", 4, 4, false)
			e.wantLog(b, "a", 1, 4, false, "Adopt was faster")
			e.wantFenced(a, "Adopt was faster")
		default:
			e.Fatalf("End and Adopt at once: %v", errors.Join(errs...))
		}
	}
}

func tombstonesExpire(e *exam) {
	a, u := e.begin("s"), owner{e.one, process("a", "a1"), "u", fence("a1", 1)}
	e.append(a, "a", 1, 2, false)
	used := a.log("a")
	e.nilError(used.Append(e.ctx, 3, texts("a", 3, 3), false), "append")
	e.nilError(a.End(e.ctx, "s", a.fence), "end")
	e.nilError(u.End(e.ctx, "u", u.fence), "end an unknown session")
	time.Sleep(cluster.TombstoneTTL - time.Second)
	e.wantEnded(a, used, "one second before a tombstone expires")
	e.wantNotFound("u", cluster.ErrEnded, "one second before a tombstone expires")
	time.Sleep(time.Hour)
	e.wantUnknown(a, "when the tombstone has expired")
	e.wantUnknown(u, "when the tombstone has expired")
	_, _, err := used.Read(e.ctx, 0, nil, 0)
	e.wantBehind(err, "read through an older handle when the tombstone has expired")
}
