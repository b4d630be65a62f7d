//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// place is where one process runs after the other. Its links stay.
type place struct {
	engine *link // its way to the engine
	self   *link // the others' way to it; its address is the Self. Nil: they reach the process itself
	p      *process
}

// fleet is the cluster: the processes, the engine, and all ways between them.
type fleet struct {
	dir     string
	timing  timing
	engine  *engine
	sprayer *sprayer
	direct  bool // processes reach each other without a link

	mu     sync.Mutex
	places []*place
	names  int
	leave  []*process      // that drain
	closed map[string]bool // names of processes that are about to close their ports
	past   []*process      // all that ever were
	links  []*link
}

// open starts a process at each of n places.
func (f *fleet) open(ctx context.Context, n int) error {
	for range n {
		engine, err := newLink(f.engine.addr())
		if err != nil {
			return err
		}
		at := &place{engine: engine}
		f.links = append(f.links, engine)
		f.places = append(f.places, at)
		if err := f.start(ctx, at, false); err != nil {
			return err
		}
	}
	return nil
}

// start starts a process at a place; same: at the address of the one before, and with its Self, so that it supersedes that one.
func (f *fleet) start(ctx context.Context, at *place, same bool) error {
	addr, err := f.addressFor(at, same)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.names++
	name := fmt.Sprintf("p%d", f.names)
	f.mu.Unlock()
	way, self := at.self, addr
	if way != nil {
		self = way.addr
	}
	p, err := launch(ctx, name, f.dir, plan{Addr: addr, Self: "http://" + self, Engine: at.engine.addr, Timing: f.timing},
		func() { f.closes(name, way) })
	if err != nil {
		return err
	}
	if err := way.setShut(false); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at.p = p
	f.past = append(f.past, p)
	f.tell()
	return nil
}

// addressFor returns the address of the next process of a place. If it is another one, so is the way there.
func (f *fleet) addressFor(at *place, same bool) (string, error) {
	if same {
		return at.p.addr, nil
	}
	addr, err := freeAddr()
	if err != nil || f.direct {
		return addr, err
	}
	self, err := newLink(addr)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at.self = self
	f.links = append(f.links, self)
	return addr, nil
}

// kill ends the process of a place with SIGKILL.
func (f *fleet) kill(at *place) error {
	err := at.self.setShut(true) // the port of a process that has ended is closed
	at.p.kill()
	return err
}

// settled is how long before a process closes its port the sprayer stops sending it requests, as a balancer does that asks whether it is ready: what
// stands in the queue of a port that is closed is reset.
const settled = 500 * time.Millisecond

// closes is called before a process closes its port.
func (f *fleet) closes(name string, way *link) {
	f.mu.Lock()
	if f.closed == nil {
		f.closed = map[string]bool{}
	}
	f.closed[name] = true
	f.tell()
	f.mu.Unlock()
	_ = pause(context.Background(), settled) // nothing ends it
	_ = way.setShut(true)                    // it was not closed
}

// tell tells the sprayer which processes there are. A process that is dead stays until another one takes its place. f.mu is held.
func (f *fleet) tell() {
	var all []backend
	for _, at := range f.places {
		if at.p != nil && !f.closed[at.p.name] {
			all = append(all, backend{at.p.name, at.p.addr})
		}
	}
	for _, p := range f.leave {
		if p.isRunning() && !f.closed[p.name] {
			all = append(all, backend{p.name, p.addr})
		}
	}
	f.sprayer.set(all)
}

// deploy replaces a process as a rolling deploy does. Either the new one starts first, on another port, or it takes the port of the old one
// when that has ended.
func (f *fleet) deploy(ctx context.Context, i int, same bool) error {
	at := f.places[i]
	old := at.p
	if !same {
		f.mu.Lock()
		f.leave = append(f.leave, old) // it stays a backend until its port is closed
		f.mu.Unlock()
		if err := f.start(ctx, at, false); err != nil {
			return err
		}
	}
	if err := old.signal(syscall.SIGTERM); err != nil {
		return err
	}
	limit := time.NewTimer(f.timing.Grace + f.timing.Settle + 30*time.Second)
	defer limit.Stop()
	select {
	case <-old.ended:
	case <-limit.C:
		return fmt.Errorf("%s has not ended after SIGTERM", old.name)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !old.state.Success() {
		return fmt.Errorf("%s after SIGTERM: %v; its log ends so:\n%s", old.name, old.state, tail(f.dir+"/"+old.name+".log"))
	}
	if same {
		return f.start(ctx, at, true)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell()
	return nil
}

// lead makes all processes use another engine.
func (f *fleet) lead(to string) {
	for _, at := range f.places {
		at.engine.lead(to)
	}
}

// running are the processes that serve.
func (f *fleet) running() (all []*process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.places {
		if at.p != nil && at.p.isRunning() {
			all = append(all, at.p)
		}
	}
	return all
}

// holdings are what all processes have.
func (f *fleet) holdings(ctx context.Context) (sum holdings, err error) {
	for _, p := range f.running() {
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		h, e := p.ask(asking)
		cancel()
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, e))
			continue
		}
		sum.Sessions += h.Sessions
		sum.Streams += h.Streams
		sum.Connections += h.Connections
		sum.Adopted += h.Adopted
		sum.Moved += h.Moved
		sum.Forwarded += h.Forwarded
		sum.Errors += h.Errors
	}
	return sum, err
}

func (f *fleet) close() {
	f.mu.Lock()
	past, links := f.past, f.links
	f.mu.Unlock()
	for _, p := range past {
		p.kill()
	}
	for _, l := range links {
		l.close()
	}
}
