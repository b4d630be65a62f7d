//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// state is what a link does with what it gets.
type state int

const (
	up      state = iota
	refused       // no connection is taken, and those that there were are reset
	silent        // connections are taken, and nothing passes: as a cable that was pulled
	deaf          // what goes there arrives, and nothing comes back
	mute          // nothing goes there, and what comes back arrives
	slow          // every piece waits
)

// delay is how long a piece waits on a slow link.
const delay = 150 * time.Millisecond

// link is a proxy for TCP, which is a way from one place to another that can be cut. Safe for concurrent use.
type link struct {
	addr string

	mu      sync.Mutex
	to      string
	is      state
	changed chan struct{} // closed when is changes
	port    net.Listener  // nil: closed
	conns   map[net.Conn]bool
	shut    bool // no process listens where it leads
	ended   bool
}

// newLink opens a link on a free port.
func newLink(to string) (*link, error) {
	port, err := listenLow()
	if err != nil {
		return nil, err
	}
	l := &link{addr: port.Addr().String(), to: to, changed: make(chan struct{}), port: port, conns: map[net.Conn]bool{}}
	go l.accept(port)
	return l, nil
}

// set changes the state. What waited on a link that is up again arrives then.
func (l *link) set(s state) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return net.ErrClosed
	}
	l.is = s
	close(l.changed)
	l.changed = make(chan struct{})
	if s == refused {
		l.reset()
	}
	return l.listen()
}

// listen listens, or not, as the state says. l.mu is held.
func (l *link) listen() error {
	switch takes := l.is != refused && !l.shut; {
	case !takes && l.port != nil:
		err := l.port.Close()
		l.port = nil
		return err
	case takes && l.port == nil:
		port, err := new(net.ListenConfig).Listen(context.Background(), "tcp", l.addr)
		if err != nil {
			return err
		}
		l.port = port
		go l.accept(port)
	}
	return nil
}

// setShut says whether a process listens where the link leads. If none does, connections are refused, as they are there. Those that there are stay.
// No link is nothing to do.
func (l *link) setShut(shut bool) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return net.ErrClosed
	}
	l.shut = shut
	return l.listen()
}

// lead makes the link lead to another place, and resets its connections.
func (l *link) lead(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
	l.reset()
}

// reset resets all connections. l.mu is held.
func (l *link) reset() {
	for c := range l.conns {
		abort(c)
	}
	clear(l.conns)
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.port != nil {
		_ = l.port.Close()
	}
	l.reset()
}

func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

func (l *link) accept(port net.Listener) {
	for {
		c, err := port.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		go l.join(c)
	}
}

// keep registers a connection, unless the link leads elsewhere or is closed by now.
func (l *link) keep(c net.Conn, to string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.to != to || l.is == refused {
		abort(c)
		return false
	}
	l.conns[c] = true
	return true
}

func (l *link) join(c net.Conn) {
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	if !l.keep(c, to) {
		return
	}
	defer l.drop(c)
	if !l.passes(c, true, 0) { // a dial that waits behind a pulled cable
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	other, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		abort(c)
		return
	}
	if !l.keep(other, to) {
		return
	}
	defer l.drop(other)
	var both sync.WaitGroup
	both.Go(func() { l.copy(other, c, true) })
	both.Go(func() { l.copy(c, other, false) })
	both.Wait()
}

func (l *link) drop(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	_ = c.Close()
}

// copy passes pieces on. there: they go to where the link leads.
func (l *link) copy(to, from net.Conn, there bool) {
	piece := make([]byte, 16<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if !l.passes(from, there, delay) {
				return
			}
			if _, err := to.Write(piece[:n]); err != nil {
				abort(from)
				return
			}
		}
		if err == nil {
			continue
		}
		l.passes(from, there, 0) // an end does not pass a cut link either
		if t, ok := to.(*net.TCPConn); ok && !errors.Is(err, net.ErrClosed) && errors.Is(err, io.EOF) {
			_ = t.CloseWrite()
			return
		}
		abort(to)
		return
	}
}

// passes waits until the link lets a piece pass. It reports false if the connection has ended meanwhile.
func (l *link) passes(c net.Conn, there bool, late time.Duration) bool {
	waited := false
	for {
		l.mu.Lock()
		is, changed, kept := l.is, l.changed, l.conns[c]
		l.mu.Unlock()
		switch {
		case !kept:
			return false
		case is == slow && !waited && late > 0:
			waited = true
			_ = pause(context.Background(), late)
		case is == silent, is == deaf && !there, is == mute && there:
			<-changed
		default:
			return true
		}
	}
}
