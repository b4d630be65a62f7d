package clustertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
)

func join(e *exam) {
	p := process("a", "a1")
	m := e.join(e.one, p)
	if m.Generation == 0 {
		e.Fatalf("joined as %+v, without a generation", m)
	}
	if want := (cluster.Member{Process: p, Generation: m.Generation}); m != want {
		e.Fatalf("joined as %+v, want %+v", m, want)
	}
	if again := e.join(e.one, p); again != m {
		e.Fatalf("a repeat of Join returned %+v, want %+v as before", again, m)
	}
	m.Count = 1
	v := e.renew(e.one, m)
	if v.Was != 0 {
		e.Fatalf("the first renewal found count %d", v.Was)
	}
	e.wantMembers(v, "alone", m)
	other := e.join(e.two, process("b", "b1"))
	e.wantMembers(e.renew(e.one, m), "when another has joined", m, other)
	if again := e.join(e.one, p); again.Generation != m.Generation {
		e.Fatalf("a late repeat of Join gave generation %d instead of %d", again.Generation, m.Generation)
	}
	m.Count = 2
	if v := e.renew(e.one, m); v.Was != 1 {
		e.Fatalf("after a late repeat of Join the count was %d, want 1", v.Was)
	}
}

func joinSupersedes(e *exam) {
	bystander := e.join(e.one, process("b", "b1"))
	last := e.join(e.one, process("a", "a1"))
	last.Count = 1
	e.renew(e.one, last)
	for i := 2; i < 6; i++ {
		m := e.join(e.two, process("a", fmt.Sprint("a", i)))
		if m.Generation <= last.Generation {
			e.Fatalf("generation %d follows generation %d of the same Self", m.Generation, last.Generation)
		}
		if m.Count != 0 || m.Left {
			e.Fatalf("the entry of a new process is %+v", m)
		}
		last.Count++
		_, err := e.one.Renew(e.ctx, last, lease)
		e.wantError(err, cluster.ErrSuperseded, "renew a process that was superseded")
		e.wantFoundCount(last.Process, 0, "a process that was superseded")
		e.nilError(e.one.Leave(e.ctx, last), "leave when superseded")
		m.Count = 7
		v := e.renew(e.two, m)
		if v.Was != 0 {
			e.Fatalf("a new process has the count %d of the one that it superseded", v.Was)
		}
		e.wantMembers(v, "a newer process with the same Self", m, bystander)
		if i == 4 { // one that has left is superseded too
			e.nilError(e.two.Leave(e.ctx, m), "leave")
		}
		last = m
	}
}

func (e *exam) wantFoundCount(p cluster.Process, want uint64, why string) {
	e.Helper()
	f, err := e.two.Find(e.ctx, "nothing", p)
	e.wantError(err, cluster.ErrUnknown, "find an unknown session")
	if f.Count != want {
		e.Fatalf("%s: Find says that the count of %q is %d, want %d", why, p.Incarnation, f.Count, want)
	}
}

func joinsAtOnce(e *exam) {
	for round := range 10 {
		const n = 8
		self := fmt.Sprint("at once ", round)
		var members [n]cluster.Member
		var joins []func() error
		for i := range n {
			c := []client{e.one, e.two}[i%2]
			joins = append(joins, func() (err error) {
				members[i], err = c.Join(e.ctx, process(self, fmt.Sprint("run ", i)), lease)
				return err
			})
		}
		for _, err := range at(joins...) {
			e.nilError(err, "join")
		}
		newest := members[0]
		seen := map[uint64]bool{}
		for _, m := range members {
			if seen[m.Generation] {
				e.Fatalf("two processes that joined at once have generation %d", m.Generation)
			}
			seen[m.Generation] = true
			if m.Generation > newest.Generation {
				newest = m
			}
		}
		for _, m := range members {
			m.Count = 1
			_, err := e.one.Renew(e.ctx, m, lease)
			if m.Generation == newest.Generation {
				e.nilError(err, "renew the newest of %d that joined at once", n)
			} else {
				e.wantError(err, cluster.ErrSuperseded, "renew one that is not the newest")
			}
		}
	}
}

func renew(e *exam) {
	a, b := e.join(e.one, process("a", "a1")), e.join(e.two, process("b", "b1"))
	for count := uint64(1); count < 5; count++ {
		a.Count = count
		if v := e.renew(e.one, a); v.Was != count-1 {
			e.Fatalf("before renewal %d the count was %d", count, v.Was)
		}
		b.Count = 10 * count
		v := e.renew(e.two, b)
		if v.Was != 10*(count-1) {
			e.Fatalf("before a renewal with count %d it was %d", b.Count, v.Was)
		}
		e.wantMembers(v, "processes see each other's counts", a, b)
		e.wantFoundCount(a.Process, count, "after a renewal")
	}
	if v := e.renew(e.one, a); v.Was != a.Count {
		e.Fatalf("a repeated renewal found count %d, want its own, %d", v.Was, a.Count)
	}
	late := a
	late.Count = 2
	if v := e.renew(e.one, late); v.Was != a.Count {
		e.Fatalf("a late renewal found count %d, want %d", v.Was, a.Count)
	}
	e.wantMembers(e.renew(e.two, b), "counts never go back", a, b)
}

func renewAfterLoss(e *exam) {
	old, a := e.join(e.one, process("a", "a1")), e.join(e.one, process("a", "a2"))
	b := e.join(e.two, process("b", "b1"))
	a.Count, b.Count = 5, 5
	e.renew(e.one, a)
	e.renew(e.two, b)
	e.forget()
	e.wantFoundCount(a.Process, 0, "after a loss")
	a.Count, b.Count = 6, 6
	v := e.renew(e.two, b)
	if v.Was != 0 {
		e.Fatalf("after a loss the count was %d", v.Was)
	}
	e.wantMembers(v, "after a loss", b)
	old.Count = 6
	if v := e.renew(e.one, old); v.Was != 0 { // the engine has no proof against it
		e.Fatalf("after a loss the count was %d", v.Was)
	}
	v = e.renew(e.one, a)
	if v.Was != 0 {
		e.Fatalf("the entry of an older process gave count %d to a newer one", v.Was)
	}
	e.wantMembers(v, "a higher generation replaces a lower one", a, b)
	old.Count = 7
	_, err := e.one.Renew(e.ctx, old, lease)
	e.wantError(err, cluster.ErrSuperseded, "renew a process of a lower generation")
	twin := cluster.Member{Process: process("a", "a3"), Generation: a.Generation, Count: 9}
	_, err = e.one.Renew(e.ctx, twin, lease)
	e.wantError(err, cluster.ErrSuperseded, "renew another process of the same generation")
	e.wantMembers(e.renew(e.one, a), "after refused renewals", a, b)

	e.nilError(e.one.Leave(e.ctx, a), "leave")
	e.forget()
	a.Left = true
	e.wantMembers(e.renew(e.one, a), "a renewal that says Left, after a loss", a)
}

func generationsAfterLoss(e *exam) {
	old := e.join(e.one, process("a", "a1"))
	for i := range 3 {
		e.forget()
		// Two clock readings may be equal, and generations come from the clock now. This is about the clock: it waits for that.
		<-time.After(2 * time.Millisecond)
		m := e.join(e.one, process("a", fmt.Sprint("later ", i)))
		if m.Generation <= old.Generation {
			e.Fatalf("generation %d, given after a loss, follows generation %d", m.Generation, old.Generation)
		}
		old.Count = 9
		_, err := e.one.Renew(e.ctx, old, lease)
		e.wantError(err, cluster.ErrSuperseded, "a process that was superseded after the engine had lost its entry")
		old = m
	}
}

func leave(e *exam) {
	a, b := e.join(e.one, process("a", "a1")), e.join(e.two, process("b", "b1"))
	a.Count, b.Count = 3, 4
	e.renew(e.one, a)
	e.nilError(e.one.Leave(e.ctx, a), "leave")
	e.nilError(e.one.Leave(e.ctx, a), "leave again")
	a.Left = true
	e.wantMembers(e.renew(e.two, b), "one has left", a, b)
	late := a
	late.Count, late.Left = 4, false
	e.renew(e.one, late)
	a.Count = 4
	e.wantMembers(e.renew(e.two, b), "a late renewal takes Left back", a, b)

	next := e.join(e.one, process("a", "a2"))
	e.nilError(e.one.Leave(e.ctx, a), "leave when superseded")
	e.wantMembers(e.renew(e.two, b), "one that was superseded leaves", next, b)
	stranger := cluster.Member{Process: process("d", "d1"), Generation: 1 << 60, Count: 1}
	e.nilError(e.one.Leave(e.ctx, stranger), "leave without an entry")
	e.wantMembers(e.renew(e.two, b), "one without an entry leaves", next, b)
}

func clustersApart(e *exam) {
	var all []cluster.Member
	for _, name := range []string{"", "c", "C", "c:", "c\x00", "c\x00d", "c:d", "\xff", "c/d", "{c}", "c*"} {
		for _, self := range []string{"", "d", ":d", "\x00d", "d:e", "http://[::1]:80/ä"} {
			p := cluster.Process{Cluster: name, Incarnation: "x", Self: self}
			all = append(all, e.join(e.one, p))
		}
	}
	for i := range all {
		all[i].Count = uint64(i + 1)
		e.renew(e.two, all[i])
	}
	for _, m := range all {
		var mine []cluster.Member
		for _, other := range all {
			if other.Cluster == m.Cluster {
				mine = append(mine, other)
			}
		}
		e.wantMembers(e.renew(e.one, m), fmt.Sprintf("cluster %q", m.Cluster), mine...)
		e.wantFoundCount(m.Process, m.Count, "many clusters")
	}
	other := all[0].Process
	other.Cluster = "unheard of"
	e.wantFoundCount(other, 0, "a process of another cluster with the same Self and incarnation")
}

func entriesOutliveLeases(e *exam) {
	a, b := e.join(e.one, process("a", "a1")), e.join(e.two, process("b", "b1"))
	a.Count, b.Count = 1, 1
	e.renew(e.one, a)
	time.Sleep(2*lease + lease/2)
	e.wantFoundCount(a.Process, 1, "after two leases and a half without a renewal")
	if v := e.renew(e.one, a); v.Was != 1 {
		e.Fatalf("after two leases and a half the count was %d, want 1", v.Was)
	}
	e.wantMembers(e.renew(e.two, b), "after two leases and a half", a, b)
	time.Sleep(100 * lease)
	e.wantMembers(e.renew(e.two, b), "entries pile up: one that was not renewed for 100 leases is still there", b)
	e.wantFoundCount(a.Process, 0, "after 100 leases")
	_, err := e.one.Join(e.ctx, process("a", "a2"), lease)
	e.nilError(err, "join when the older entry has expired")
	a.Count = 2
	if _, err := e.one.Renew(e.ctx, a, lease); !errors.Is(err, cluster.ErrSuperseded) {
		e.Fatalf("renew a process that was superseded after its entry had expired: %v", err)
	}
}
