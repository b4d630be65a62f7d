package crossing

import (
	"errors"
	"flag"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

var count = flag.Int("crossings", 64, "sessions of each pair in the exam of ends that cross")

const (
	atOnce = 8
	idle   = time.Minute
)

// Run is the exam. cast makes an app with Tools and a Resource; it is called in the bubble of each pair.
func Run(t *testing.T, cast func(*Stage) rejoin.App) {
	t.Helper()
	for _, e := range slices.Sorted(maps.Keys(ends)) {
		for _, what := range slices.Sorted(maps.Keys(things)) {
			t.Run(e+" and "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &pair{t: t, end: ends[e], what: what, stage: &Stage{giveUp: make(chan struct{}), faults: map[string]int{}}}
					p.play(cast(p.stage))
				})
			})
		}
	}
}

// pair is an end and what it crosses.
type pair struct {
	t     *testing.T
	end   end
	what  string
	stage *Stage
	app   rejoin.App
	marks *marks
	srv   *rejoin.Server
}

func (p *pair) play(app rejoin.App) {
	p.app = app
	defer p.over()
	p.round(2 * atOnce) // what is made once is made now
	held, threads := objects(), runtime.NumGoroutine()
	p.round(*count)
	if grown := objects() - held; grown > int64(*count)/2+200 { // of other tests, and of the runtime
		p.t.Errorf("after %d sessions there are %d objects more", *count, grown)
	}
	if now := runtime.NumGoroutine(); now > threads {
		p.t.Errorf("%d goroutines are left", now-threads)
	}
}

// over lets go what hangs, so that the bubble can end.
func (p *pair) over() {
	p.srv.Close()
	close(p.stage.giveUp)
	synctest.Wait()
	for fault, n := range p.stage.faults {
		p.t.Errorf("%d times: %s", n, fault)
	}
}

// round plays n sessions, and looks what is left of them.
func (p *pair) round(n int) {
	p.marks = &marks{}
	if p.srv != nil {
		p.srv.Close()
	}
	p.serve()
	for range n / atOnce {
		p.batch()
		synctest.Wait()
		if s := p.srv.Stats(); s.Sessions+s.Streams+s.Connections+s.Parked+s.StoredBytes != 0 {
			p.t.Fatalf("left: %+v", s)
		}
		if running := p.stage.running.Load(); running > 0 {
			p.t.Fatalf("%d handlers run on", running)
		}
		if p.end.all != nil {
			p.serve()
		}
	}
	<-time.After(time.Hour) // timers that were stopped hold what they were for until their time has come
	if sessions, calls, notes := p.marks.left(); sessions+calls+notes > 0 {
		p.t.Errorf("of %d sessions %d are left, %d calls and %d notifications", n, sessions, calls, notes)
	}
	*p.marks = marks{} // weak pointers are objects too
}

func (p *pair) serve() {
	srv, err := rejoin.NewServer(&marked{p.app, p.marks}, rejoin.Config{Logger: slog.New(slog.DiscardHandler), SessionIdleTTL: idle})
	if err != nil {
		p.t.Fatal(err)
	}
	p.srv = srv
}

// batch brings some clients to the moment before, and then lets all cross.
func (p *pair) batch() {
	clients := make([]*client, atOnce)
	acts := make([]func(), atOnce)
	faults := make([]error, atOnce)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() { clients[i], acts[i], faults[i] = p.prepare() })
	}
	group.Wait()
	if err := errors.Join(faults...); err != nil {
		p.t.Fatal(err)
	}
	for i, c := range clients {
		group.Go(func() { p.soon(); acts[i]() })
		if p.end.each != nil {
			group.Go(func() { p.soon(); p.end.each(c) })
		}
	}
	if p.end.all != nil {
		group.Go(func() { p.soon(); p.end.all(p.srv) })
	}
	if p.end.idle {
		<-time.After(idle + time.Second)
	} else if p.what == opening {
		group.Wait()
	}
	if p.end.idle || p.what == opening {
		for _, c := range clients { // those that were busy, or had not begun
			endSession(c)
		}
	}
	group.Wait()
}

func (p *pair) prepare() (*client, func(), error) {
	c := newClient(p.srv)
	c.notified = p.what == first || p.what == noted
	if p.what == opening {
		act, err := things[opening](c)
		return c, act, err
	}
	if err := c.open(); err != nil {
		return nil, nil, err
	}
	if p.what != first {
		initialized(c)
	}
	act, err := things[p.what](c)
	return c, act, err
}

// soon comes back in a moment, and where sessions end by themselves in the instant in which they do.
func (p *pair) soon() {
	if p.end.idle {
		<-time.After(idle)
	}
	for range dice(1 << dice(8)) {
		runtime.Gosched()
	}
}
