package main

import "sync"

// group waits for goroutines like sync.WaitGroup. Goroutines may be added at any time, also while Wait waits for the last one.
type group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when no goroutine is left; Wait makes it
}

// Go runs f in a goroutine of the group.
func (g *group) Go(f func()) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	go func() {
		defer g.done()
		f()
	}()
}

func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Wait returns when no goroutine of the group is left.
func (g *group) Wait() {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	<-idle
}
