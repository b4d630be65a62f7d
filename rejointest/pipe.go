package rejointest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// bufferSize is what one direction of a connection holds before its writer has to wait, about as a socket does.
const bufferSize = 64 << 10

// conn is one end of an in-memory connection with the manners of TCP: writes return while the buffer has room, a reader gets
// what was written before the other end closed, and deadlines work. All waiting is durably blocking in a bubble. Writes of
// one end must not overlap.
type conn struct {
	in, out       *half
	local, remote net.Addr
}

// newPipe returns the two ends of a connection.
func newPipe(client, server net.Addr) (c, s *conn) {
	up, down := newHalf(), newHalf()
	return &conn{in: down, out: up, local: client, remote: server}, &conn{in: up, out: down, local: server, remote: client}
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

func (c *conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // it is never wrapped, here or in net
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions. The other end still reads what it was sent.
func (c *conn) Close() error {
	c.in.update(func(h *half) { h.readerClosed = true })
	return c.CloseWrite()
}

// CloseWrite ends one direction; net/http does so before it closes on a client that is still sending.
func (c *conn) CloseWrite() error {
	c.out.update(func(h *half) { h.writerClosed = true })
	return nil
}

// reset breaks the connection for both ends at once. What was under way is lost.
func (c *conn) reset() {
	for _, h := range []*half{c.in, c.out} {
		h.update(func(h *half) { h.broken, h.buf = true, nil })
	}
}

// freeze makes this end stop reading, or go on.
func (c *conn) freeze(yes bool) { c.in.update(func(h *half) { h.frozen = yes }) }

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // it never fails
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.update(func(h *half) { h.reading.set(h, t) })
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.update(func(h *half) { h.writing.set(h, t) })
	return nil
}

// half is one direction.
type half struct {
	mu      sync.Mutex
	changed *sync.Cond

	buf                        []byte
	readerClosed, writerClosed bool
	broken, frozen             bool
	reading, writing           deadline
}

func newHalf() *half {
	h := &half{}
	h.changed = sync.NewCond(&h.mu)
	return h
}

// update changes the state and wakes whoever waits.
func (h *half) update(f func(*half)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
	h.changed.Broadcast()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readerClosed:
			return 0, net.ErrClosed
		case h.broken:
			return 0, syscall.ECONNRESET
		case h.reading.passed:
			return 0, os.ErrDeadlineExceeded
		case h.frozen:
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			h.buf = h.buf[n:]
			h.changed.Broadcast()
			return n, nil
		case h.writerClosed:
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

func (h *half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.writerClosed:
			return n, net.ErrClosed
		case h.broken:
			return n, syscall.ECONNRESET
		case h.readerClosed:
			return n, syscall.EPIPE
		case h.writing.passed:
			return n, os.ErrDeadlineExceeded
		case n == len(p):
			return n, nil
		}
		if part := p[n:min(len(p), n+bufferSize-len(h.buf))]; len(part) > 0 {
			h.buf = append(h.buf, part...)
			n += len(part)
			h.changed.Broadcast()
			continue
		}
		h.changed.Wait()
	}
}

// deadline is guarded by its half's mutex.
type deadline struct {
	timer  *time.Timer
	passed bool
}

// set replaces the deadline; zero: none.
func (d *deadline) set(h *half, t time.Time) {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer, d.passed = nil, false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.passed = true
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		h.update(func(*half) { d.passed = d.passed || d.timer == timer }) // unless it was set anew meanwhile
	})
	d.timer = timer
}
