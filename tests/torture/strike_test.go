package torture_test

import (
	"errors"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// strike does harm, if this history has such.
func (tt *torture) strike() {
	tt.mu.Lock()
	p := tt.slots[tt.random.IntN(len(tt.slots))]
	tt.mu.Unlock()
	switch n := tt.random.IntN(17); {
	case tt.moods.planned:
		tt.plan(p)
	case n < 3 && tt.moods.kills:
		tt.kill(p)
		after := time.Duration(tt.random.IntN(15000)) * time.Millisecond
		if tt.random.IntN(3) == 0 {
			after = 0
		}
		go tt.replace(p, after)
	case n < 7 && tt.moods.cuts:
		lasts := []int{500, 3000, 8000, 12000, 25000, 40000}[tt.random.IntN(6)]
		go tt.cut(p, clustertest.Link(1+tt.random.Int32N(3)), time.Duration(lasts/2+tt.random.IntN(lasts))*time.Millisecond)
	case n == 7 && tt.moods.forgets:
		tt.forget(tt.random.IntN(3) == 0)
		if tt.moods.kills && tt.random.IntN(2) == 0 { // when the owners have restored everything
			kit.Elapse(restoreTime + time.Second)
			tt.kill(p)
			go tt.replace(p, lease)
		}
	case n == 8 && tt.moods.single:
		tt.mu.Lock()
		tt.failing = !tt.failing
		tt.mu.Unlock()
		tt.say("single operations fail: %v", tt.failing)
	case n > 8 && n < 12 && tt.moods.drains:
		tt.plan(p)
	case (n == 12 || n == 13) && tt.moods.parts:
		go tt.part(p, tt.random.IntN(5), time.Duration(500+tt.random.IntN([]int{3000, 30000}[tt.random.IntN(2)]))*time.Millisecond)
	case n > 13 && tt.moods.stalls:
		go tt.stall(p, time.Duration(500+tt.random.IntN([]int{8000, 40000}[tt.random.IntN(2)]))*time.Millisecond)
	}
}

// healthy counts the processes that live and reach the engine. The mu is held.
func (tt *torture) healthy() (n int) {
	for _, p := range tt.slots {
		if !p.dead && !p.away && !p.draining {
			n++
		}
	}
	return n
}

// kill kills a process without a word: nothing of it reaches the engine or a client any more.
func (tt *torture) kill(p *machine) {
	tt.mu.Lock()
	if p.dead || p.closed || tt.healthy() < 2 && !p.away {
		tt.mu.Unlock()
		return
	}
	tt.say("%s is killed", p.name)
	tt.tally.did("killed")
	p.dead = true
	wires := p.wires
	p.wires = map[*wire]bool{}
	tt.mu.Unlock()
	p.link.SetLink(clustertest.Refused)
	tt.net.Refuse(p.host(), true)
	tt.net.Reset(p.host())
	for x := range wires {
		x.end(true)
	}
	tt.hurt(p)
}

// replace starts a new process in place of one that was killed.
func (tt *torture) replace(old *machine, after time.Duration) {
	kit.Elapse(after)
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if !old.dead {
		return
	}
	for i, p := range tt.slots {
		if p == old {
			tt.slots[i] = tt.start(old.self)
			tt.graves = append(tt.graves, old)
		}
	}
}

// cut keeps a process from the engine for a while. Its clients can reach it.
func (tt *torture) cut(p *machine, link clustertest.Link, lasts time.Duration) {
	tt.mu.Lock()
	if tt.calm || p.dead || p.closed || p.away {
		tt.mu.Unlock()
		return
	}
	p.away = true
	tt.mu.Unlock()
	is := []string{"up", "refused", "silent", "deaf"}[link]
	tt.say("%s: link %v for %v", p.name, is, lasts)
	tt.tally.did("link " + is)
	p.link.SetLink(link)
	tt.hurt(p)
	tt.last(p, lasts)
	tt.mu.Lock()
	defer tt.mu.Unlock()
	p.away = false
	if !p.dead {
		tt.say("%s: link up", p.name)
		p.link.SetLink(clustertest.Up)
	}
}

// last waits for some time, or until the history is calm or the process has ended.
func (tt *torture) last(p *machine, lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		kit.Elapse(min(time.Until(end), time.Second))
		tt.mu.Lock()
		over := tt.calm || p.dead || p.closed
		tt.mu.Unlock()
		if over {
			break
		}
	}
}

// restoreTime is how long owners may take to give an engine what it has lost.
const restoreTime = lease

// hurt notes what is lost if an owner is lost that is giving the engine what that has lost.
func (tt *torture) hurt(p *machine) {
	tt.engine.mu.Lock()
	defer tt.engine.mu.Unlock()
	if tt.engine.forgot.IsZero() || time.Since(tt.engine.forgot) > restoreTime {
		return
	}
	tt.losses(func(owner *machine) bool { return owner == p })
}

// losses notes that the sessions of some processes may be lost. The engine's mu is held.
func (tt *torture) losses(of func(*machine) bool) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	for key, h := range tt.engine.sessions {
		t := tt.tale(key)
		if len(h.owners) > 1 {
			t.lossy = true // what an earlier owner has written only the engine had
		}
		for _, p := range append(tt.graves, tt.slots...) {
			for i := range h.owners {
				if h.owners[i].Fence.Incarnation == p.watch.incarnation && of(p) && i >= len(h.owners)-2 {
					t.lossy, t.lost = true, true
				}
			}
		}
	}
}

// forget makes the engine lose its data. over: a replica takes over that has the records without the last adoptions.
func (tt *torture) forget(over bool) {
	tt.say("the engine loses its data, and another one takes over: %v", over)
	held, released := map[string]bool{}, map[string]bool{}
	tt.mu.Lock()
	slots := append([]*machine(nil), tt.slots...)
	tt.mu.Unlock()
	for _, p := range slots {
		for s := range p.Sessions() {
			tt.mu.Lock()
			held[tt.refs[s.Ref]] = true
			tt.mu.Unlock()
		}
	}
	tt.tally.did(map[bool]string{true: "failed over", false: "forgotten"}[over])
	if over {
		tt.engine.failOver(time.Now().Add(-10 * time.Second))
	} else {
		released = tt.engine.forget() // some of them since held was made
	}
	tt.engine.mu.Lock()
	defer tt.engine.mu.Unlock()
	tt.losses(func(p *machine) bool { return p.dead || p.away || p.closed })
	tt.mu.Lock()
	defer tt.mu.Unlock()
	for key := range tt.engine.sessions {
		t := tt.tale(key)
		if !held[key] || released[key] || t.deleted { // it is between two owners, or the tombstone is lost, too
			t.lossy, t.lost = true, true
		}
		t.lossy = t.lossy || tt.moods.tails
	}
}

// directoryOps are the operations of a directory. The others are those of a store.
var directoryOps = map[string]bool{
	"join": true, "renew": true, "leave": true, "put": true, "find": true, "adopt": true, "save": true, "touch": true, "release": true, "end": true,
}

var errSingle = errors.New("this operation fails")

// script makes single operations fail, lose their answers, and be slow.
func (tt *torture) script(p *machine) func(clustertest.Call) clustertest.Fault {
	random := tt.rand(p.name + " operations")
	return func(c clustertest.Call) (f clustertest.Fault) {
		tt.mu.Lock()
		defer tt.mu.Unlock()
		if tt.calm {
			return f
		}
		ms := func(most int) time.Duration { return time.Duration(random.IntN(most)) * time.Millisecond }
		if tt.moods.slow && random.IntN(3) == 0 {
			f.Delay = ms(150)
		}
		if !tt.failing {
			return f
		}
		n := random.IntN(24)
		switch n {
		case 0:
			f.Before = errSingle
		case 1:
			f.After = errSingle
		case 2:
			f.Delay = ms(900)
		case 3:
			f.DelayAnswer = ms(1500)
		case 4:
			f.Delay, f.Late = ms(5000), true
		default:
			return f
		}
		kind := "store: "
		if directoryOps[c.Op] {
			kind = "directory: "
		}
		tt.tally.did(kind + []string{"failed", "answer lost", "delayed", "answer delayed", "late"}[n])
		return f
	}
}

// settle ends all harm.
func (tt *torture) settle() {
	tt.mu.Lock()
	tt.calm = true
	tt.deadline = time.Now().Add(4 * time.Minute)
	slots := append([]*machine(nil), tt.slots...)
	tt.mu.Unlock()
	tt.say("calm")
	kit.Elapse(2 * time.Second) // cuts end
	for _, p := range slots {
		tt.mu.Lock()
		dead := p.dead
		tt.mu.Unlock()
		if dead {
			tt.replace(p, 0)
		}
	}
}
