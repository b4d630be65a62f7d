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
	again := func(when string) {
		e.Helper()
		for _, c := range []client{e.one, e.two} {
			got, err := c.Join(e.ctx, cluster.Member{Process: p, Generation: m.Generation}, lease)
			e.nilError(err, "repeat Join %s", when)
			if got != m {
				e.Fatalf("a repeat of Join %s returned %+v, want %+v", when, got, m)
			}
		}
	}
	again("at once")
	m.Count = 1
	v := e.renew(e.one, m)
	if v.Was != 0 {
		e.Fatalf("the first renewal found count %d", v.Was)
	}
	e.wantMembers(v, "alone", m)
	other := e.join(e.two, process("b", "b1"))
	e.wantMembers(e.renew(e.one, m), "when another has joined", m, other)
	again("after a renewal")
	m.Count = 2
	if v := e.renew(e.one, m); v.Was != 1 {
		e.Fatalf("after a late repeat of Join the count was %d, want 1", v.Was)
	}
	e.nilError(e.one.Leave(e.ctx, m), "leave")
	m.Left = true
	again("after Leave")

	full := cluster.Member{Process: process("d", "d1"), Generation: 1<<53 - 1, Count: 9, Left: true}
	got, err := e.one.Join(e.ctx, full, lease)
	e.nilError(err, "join")
	full.Count, full.Left = 0, false
	if got != full {
		e.Fatalf("joined as %+v, want %+v: Join sets Count and Left", got, full)
	}
	e.wantMembers(e.renew(e.one, m), "a process that joins has not renewed, and has not left", m, other, full)
	for _, generation := range []uint64{1<<53 - 2, 1 << 52, 1} {
		e.wantNotJoined(cluster.Member{Process: process("d", "d2"), Generation: generation}, full, "a lower generation")
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

// joinsAtOnce lets processes with one Self join at once, as rejoin does it: one that is told to be superseded tries a higher generation.
func joinsAtOnce(e *exam) {
	for round := range 10 {
		const n = 8
		self := fmt.Sprint("at once ", round)
		var members [n]cluster.Member
		var joins []func() error
		for i := range n {
			c := []client{e.one, e.two}[i%2]
			joins = append(joins, func() error {
				m := cluster.Member{Process: process(self, fmt.Sprint("run ", i)), Generation: 1}
				for {
					got, err := c.Join(e.ctx, m, lease)
					if err == nil {
						members[i] = got
					}
					if !errors.Is(err, cluster.ErrSuperseded) {
						return err
					}
					if got.Generation < m.Generation || got.Incarnation == m.Incarnation {
						return fmt.Errorf("generation %d was refused, and %+v stands", m.Generation, got)
					}
					m.Generation = got.Generation + 1
				}
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

// lateJoins lets a Join arrive that its process has given up, after another process has joined.
func lateJoins(e *exam) {
	old := e.join(e.one, process("a", "a1"))
	e.joined += 2
	a := e.join(e.two, process("a", "a2"))
	a.Count = 5
	e.renew(e.two, a)
	e.wantNotJoined(old, a, "a late Join of an older process")
	for _, generation := range []uint64{1, a.Generation - 1, a.Generation} {
		e.wantNotJoined(cluster.Member{Process: process("a", "a3"), Generation: generation}, a, "a Join that is not newer")
	}
	early := cluster.Member{Process: a.Process, Generation: a.Generation - 1}
	e.wantNotJoined(early, a, "an earlier proposal of the same process")
	a.Count = 6
	if v := e.renew(e.two, a); v.Was != 5 {
		e.Fatalf("after refused Joins the count was %d, want 5", v.Was)
	}
	e.nilError(e.two.Leave(e.ctx, a), "leave")
	a.Left = true
	e.wantNotJoined(old, a, "a late Join of an older process, when the newer one has left")
	old.Count = 1
	_, err := e.one.Renew(e.ctx, old, lease)
	e.wantError(err, cluster.ErrSuperseded, "renew after a refused Join")

	// The same process may propose a higher generation.
	e.joined = a.Generation
	again := e.join(e.one, a.Process)
	again.Count = 1
	if v := e.renew(e.one, again); v.Was != 0 {
		e.Fatalf("a Join with a higher generation found count %d", v.Was)
	}
	e.wantNotJoined(cluster.Member{Process: a.Process, Generation: a.Generation}, again, "a late Join with the generation before")
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
	stranger := cluster.Member{Process: process("d", "d1"), Generation: 1 << 50, Count: 1}
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
	e.join(e.one, process("a", "a2")) // when the older entry has expired
	a.Count = 2
	if _, err := e.one.Renew(e.ctx, a, lease); !errors.Is(err, cluster.ErrSuperseded) {
		e.Fatalf("renew a process that was superseded after its entry had expired: %v", err)
	}
}
