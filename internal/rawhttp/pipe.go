package rawhttp

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is the server's end of a connection. The client has no goroutine of its own: what it sends is put into in at once, and what the
// server has written is kept in out. All waiting is durably blocking in a bubble.
type conn struct {
	mu      sync.Mutex
	changed *sync.Cond

	in, out       []byte
	fin           bool // the client sends no more
	gone          bool // nor does it take anything more
	cut, frozen   bool
	closed        bool // by the server
	closedWriting bool
	reads, writes deadline
}

func newConn() *conn {
	c := &conn{}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// update changes the state and wakes those that wait.
func (c *conn) update(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.changed.Broadcast()
}

// got is what the server has written so far, and whether it will write no more.
func (c *conn) got() (out []byte, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out, c.closed || c.closedWriting
}

func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.cut:
			return 0, fault("read", syscall.ECONNRESET)
		case c.reads.passed:
			return 0, os.ErrDeadlineExceeded
		case len(c.in) > 0:
			n := copy(p, c.in)
			c.in = c.in[n:]
			return n, nil
		case c.fin:
			return 0, io.EOF
		}
		c.changed.Wait()
	}
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed || c.closedWriting:
			return 0, net.ErrClosed
		case c.cut, c.gone:
			return 0, fault("write", syscall.EPIPE)
		case c.writes.passed:
			return 0, os.ErrDeadlineExceeded
		case !c.frozen:
			c.out = append(c.out, p...)
			return len(p), nil
		}
		c.changed.Wait()
	}
}

func (c *conn) Close() error {
	c.update(func() { c.closed = true })
	return nil
}

// CloseWrite ends one direction; net/http does so before it closes on a client that is still sending.
func (c *conn) CloseWrite() error {
	c.update(func() { c.closedWriting = true })
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return addr }
func (c *conn) RemoteAddr() net.Addr { return addr }

// addr is a loopback address: the guard is part of what is tested.
var addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}

func (c *conn) SetDeadline(at time.Time) error {
	_ = c.SetReadDeadline(at) // it never fails
	return c.SetWriteDeadline(at)
}

func (c *conn) SetReadDeadline(at time.Time) error {
	c.update(func() { c.reads.set(c, at) })
	return nil
}

func (c *conn) SetWriteDeadline(at time.Time) error {
	c.update(func() { c.writes.set(c, at) })
	return nil
}

// deadline is guarded by its connection's mutex.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func (d *deadline) set(c *conn, at time.Time) {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer, d.passed = nil, false
	if at.IsZero() {
		return
	}
	left := time.Until(at)
	if left <= 0 {
		d.passed = true
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		c.update(func() { d.passed = d.passed || d.timer == timer }) // unless it was set anew meanwhile
	})
	d.timer = timer
}

// fault is an error as sockets have them.
func fault(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: addr, Addr: addr, Err: err}
}

// listener hands new connections to the server.
type listener struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *listener) Addr() net.Addr { return addr }
