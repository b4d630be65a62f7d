package clustertest

import (
	"bytes"
	"fmt"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// lateStates makes calls that bring a state which is not newer than the one that stands.
func lateStates(e *exam) {
	a := e.begin("s")
	want := a.record()
	want.Version, want.State = 5, []byte("five")
	e.nilError(a.Save(e.ctx, "s", a.fence, 5, want.State), "save")
	late := func(o owner) {
		e.Helper()
		for _, version := range []uint64{0, 1, want.Version - 1, want.Version} {
			for _, state := range [][]byte{[]byte("late"), {}, nil} {
				e.nilError(o.Save(e.ctx, "s", o.fence, version, state), "save version %d where there is %d", version, want.Version)
				e.wantRecord(e.find("s"), want, "after a late Save")
			}
		}
	}
	late(a)
	for i, version := range []uint64{0, 1, want.Version - 1} {
		r := a.record()
		r.Version, r.State, r.Format, r.About = version, []byte("late"), i, fmt.Append(nil, "about, again ", i)
		want.Format, want.About = r.Format, r.About
		e.nilError(a.Put(e.ctx, r, ttl), "put version %d where there is %d", version, want.Version)
		e.wantRecord(e.find("s"), want, "Put with a lower version keeps State and Version, and replaces the rest")
	}
	for _, version := range []uint64{want.Version, 9} {
		want.Version, want.State = version, fmt.Append(nil, "put ", version)
		e.nilError(a.Put(e.ctx, want, ttl), "put version %d", version)
		e.wantRecord(e.find("s"), want, "Put with a version that is not lower")
	}
	late(a)

	b := e.adopt(a)
	want.Fence, want.Self, want.Generation = b.fence, b.process.Self, as(b.process).Generation
	late(b)
	want.Version, want.State = 10, nil
	e.nilError(b.Save(e.ctx, "s", b.fence, 10, nil), "the first state of the new owner")
	r, _, err := b.Adopt(e.ctx, "s", a.fence, as(b.process), ttl)
	e.nilError(err, "a late repeat of Adopt")
	e.wantRecord(r, want, "a late repeat of Adopt")
	want.Version, want.State = 1<<53-1, []byte("the highest version")
	e.nilError(b.Save(e.ctx, "s", b.fence, want.Version, want.State), "save version %d", want.Version)
	late(b)

	for _, version := range []uint64{0, 1, 9} { // nil would say that the fence is the owner's
		e.wantError(a.Save(e.ctx, "s", a.fence, version, nil), eventstore.ErrFenced, "save version %d of the former owner", version)
		e.wantError(a.Save(e.ctx, "unknown", a.fence, version, nil), cluster.ErrUnknown, "save version %d of an unknown session", version)
	}
	e.nilError(b.End(e.ctx, "s", b.fence), "end")
	e.wantError(b.Save(e.ctx, "s", b.fence, 0, nil), cluster.ErrEnded, "a late save of a session that has ended")
}

// savesAtOnce lets saves of several versions arrive at once: over several connections they overtake each other.
func savesAtOnce(e *exam) {
	for i := range 20 {
		o := e.begin(fmt.Sprint(i))
		const n = 8
		var saves []func() error
		for j := range n {
			c := []client{e.one, e.two}[j%2]
			version := uint64(10 + (j*5+i)%n)
			saves = append(saves, func() error { return c.Save(e.ctx, o.session, o.fence, version, fmt.Append(nil, "state ", version)) })
		}
		for _, err := range at(saves...) {
			e.nilError(err, "save")
		}
		r := e.find(o.session)
		if want := uint64(10 + n - 1); r.Version != want || !bytes.Equal(r.State, fmt.Append(nil, "state ", want)) {
			e.Fatalf("after %d saves at once the record has version %d and %q, want version %d", n, r.Version, r.State, want)
		}
	}
}
