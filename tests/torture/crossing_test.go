package torture_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const (
	crossingAtOnce = 8                    // sessions in which the same things cross
	crossingRounds = 9 - 4*(kit.Fewer/20) // the race detector is slow
)

// meeting is what happens at the same time to some sessions of the first process, whose tools send. Each function is called once for each session,
// or once if it is in all, in a goroutine of its own and after a random delay.
type meeting struct {
	each, all []func(tt *torture, c *client)
	dead      bool // before that the first process cannot reach the engine for so long that the others take it for dead
	away      bool // the engine is away for a while
	lossy     bool // what an earlier owner wrote may be lost with the engine
	chatty    bool // each client has more calls
}

var meetings = map[string]meeting{
	"adoption, return":                   {dead: true, each: one(adoption), all: one(back)},
	"adoption, adoption, append":         {dead: true, each: []func(*torture, *client){adoption, adoption}},
	"adoption, return, DELETE":           {dead: true, each: []func(*torture, *client){adoption, deletion}, all: one(back)},
	"adoption, return, SaveState, calls": {dead: true, each: []func(*torture, *client){adoption, quick, quick}, all: one(back)},
	"adoption, return, cancellation":     {dead: true, each: []func(*torture, *client){adoption, cancellation}, all: one(back)},
	"adoption, drain":                    {dead: true, each: one(adoption), all: one(drain)},
	"adoption, loss, return":             {dead: true, each: one(adoption), all: []func(*torture, *client){loss, back}, lossy: true},
	"death, close, resume":               {all: one(death)},
	"death, DELETE":                      {each: one(deletion), all: one(death)},
	"loss, append, restore":              {all: one(loss)},
	"loss, append, restore, outage":      {all: []func(*torture, *client){loss, loss, outage}, away: true},
	"loss, DELETE":                       {each: one(deletion), all: one(loss)},
}

func one(f func(*torture, *client)) []func(*torture, *client) { return []func(*torture, *client){f} }

// adoption sends a request to a process that does not own the session.
func adoption(tt *torture, c *client) {
	tt.mu.Lock()
	other := tt.slots[1+c.dice(2)]
	tt.mu.Unlock()
	c.mu.Lock()
	c.owner = other
	c.mu.Unlock()
	c.notify("notifications/roots/list_changed", "")
}

// back lets the first process reach the engine again.
func back(tt *torture, _ *client) {
	tt.say("p1 comes back")
	tt.slots[0].link.SetLink(clustertest.Up)
}

func outage(tt *torture, _ *client) {
	tt.slots[0].link.SetLink(clustertest.Silent)
	kit.Elapse(2 * time.Second)
	tt.slots[0].link.SetLink(clustertest.Up)
}

func deletion(_ *torture, c *client) { c.end() }

func quick(_ *torture, c *client) { c.call(c.callName()) }

func cancellation(tt *torture, c *client) {
	t := tt.taleOf(c.key)
	tt.mu.Lock()
	t.cancelled[c.first] = true
	tt.mu.Unlock()
	c.notify("notifications/cancelled", c.first)
}

func death(tt *torture, _ *client) {
	old := tt.slots[0]
	tt.kill(old)
	tt.replace(old, time.Duration(tt.seed%2)*3*lease)
}

func drain(tt *torture, _ *client) { kit.Drain(tt.t, tt.slots[1].Server, time.Minute) }

func loss(tt *torture, _ *client) { tt.forget(false) }

// Whatever crosses, each event is read once or a loss explains it, no session has two owners, and nothing is left: neither in the processes nor in
// the engine.
func TestCrossingsOfACluster(t *testing.T) { meet(t, meetings) }

func meet(t *testing.T, all map[string]meeting) {
	t.Helper()
	oneAtATime(t)
	for name, cross := range all {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				tt := newTorture(t, 0)
				tt.moods.cuts = cross.dead || cross.away // then a state cannot be saved
				for i := range 3 {
					tt.slots = append(tt.slots, tt.start(fmt.Sprintf("http://%d", i)))
				}
				kit.Elapse(2 * lease)
				var objects uint64
				var resting, machines int
				for round := range crossingRounds {
					tt.seed = uint64(round)
					tt.cross(cross)
					tt.check(tt.t, "-from %d -seeds 1", tt.seed)
					if t.Failed() {
						break
					}
					tt.net.CloseIdle()
					if round == crossingRounds/3 || round == crossingRounds-1 {
						kit.Elapse(30 * time.Minute) // places of sessions are forgotten
					}
					switch now := kit.HeapObjects(); round {
					case crossingRounds / 3:
						objects, resting, machines = now, len(kit.Goroutines()), tt.started
					case crossingRounds - 1:
						t.Logf("%d objects more", int64(now)-int64(objects))
						own := (tt.started - machines) * 30 // what the test keeps of each machine that was replaced
						require.Less(t, int64(now)-int64(objects), int64(crossingRounds*crossingAtOnce*2+own), "objects are left")
						kit.RequireRested(t, resting)
					}
				}
				tt.close()
			})
		})
	}
}

// cross is one round.
func (tt *torture) cross(cross meeting) {
	tt.reset()
	clients := make([]*client, crossingAtOnce)
	var calls, crossed sync.WaitGroup
	for i := range clients {
		c := &client{tt: tt, name: string(rune('a' + i)), owner: tt.slots[0]}
		c.random = tt.rand("client" + c.name)
		clients[i] = c
		if !c.open() {
			tt.fault("no session")
			return
		}
		if cross.lossy {
			tt.mu.Lock()
			tt.tale(c.key).lossy = true
			tt.mu.Unlock()
		}
		c.first = c.callName()
		c.slow = cross.dead
		calls.Go(func() { c.call(c.first) })
		calls.Go(c.listen)
		for i := 0; cross.chatty && i < 2; i++ {
			name := c.callName()
			calls.Go(func() { c.call(name) })
		}
	}
	kit.Elapse(time.Duration(tt.random.IntN(400)) * time.Millisecond)
	if cross.dead {
		tt.slots[0].link.SetLink(clustertest.Refused)
		kit.Elapse(3 * lease)
	}
	run := func(f func(*torture, *client), c *client) {
		wait := time.Duration(tt.random.IntN(3)) * time.Millisecond
		crossed.Go(func() {
			kit.Elapse(wait)
			for range tt.seed % 5 {
				runtime.Gosched()
			}
			f(tt, c)
		})
	}
	for _, f := range cross.all {
		run(f, nil)
	}
	for _, c := range clients {
		for _, f := range cross.each {
			run(f, c)
		}
	}
	crossed.Wait()
	for _, c := range clients {
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
	}
	calls.Wait()
	for _, c := range clients {
		c.end()
	}
	if tt.failed() {
		return
	}
	back(tt, nil)
	kit.Elapse(2 * lease)
	tt.audit()
	for _, p := range tt.slots[3:] { // those that have come
		p.Close()
	}
	tt.slots = tt.slots[:3]
	for i, p := range tt.slots { // those that drain
		if p.Draining() {
			p.Close()
			tt.slots[i] = tt.start(p.self)
		}
	}
	for _, p := range tt.graves {
		p.Close()
	}
	tt.graves = nil
	kit.Elapse(2 * time.Hour) // tombstones and what could not be ended expire
	tt.reset()
}

// reset forgets what was, so that only what the servers keep is left.
func (tt *torture) reset() {
	synctest.Wait()
	tt.mu.Lock()
	tt.tales, tt.runs, tt.meanings, tt.refs = map[string]*tale{}, map[string]*run{}, map[string]string{}, newRefs()
	tt.mu.Unlock()
	tt.traced.Lock()
	if len(tt.faults) == 0 {
		tt.trace = nil
	}
	tt.traced.Unlock()
	tt.engine.mu.Lock()
	tt.engine.sessions = map[string]*saga{}
	tt.engine.mu.Unlock()
	for _, p := range tt.slots {
		p.link.SetLink(clustertest.Up)
	}
	for _, p := range tt.graves {
		p.Close()
	}
	tt.graves = nil
}
