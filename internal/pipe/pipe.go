package pipe

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// bufferSize is how many bytes wait to be read before a writer has to wait, about as many as with a socket.
const bufferSize = 64 << 10

// Conn is one end of a connection. Writes of one end must not overlap.
type Conn struct {
	in, out       *half
	local, remote net.Addr
}

// New returns the two ends of a connection.
func New(client, server net.Addr) (c, s *Conn) {
	up, down := newHalf(), newHalf()
	return &Conn{in: down, out: up, local: client, remote: server}, &Conn{in: up, out: down, local: server, remote: client}
}

func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.wrap("read", err)
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.wrap("write", err)
}

func (c *Conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // it is never wrapped, here or in net
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions. The other end can still read what was written before.
func (c *Conn) Close() error {
	c.in.update(func(h *half) { h.readerClosed = true })
	return c.CloseWrite()
}

// CloseWrite ends one direction; net/http does so before it closes on a client that is still sending.
func (c *Conn) CloseWrite() error {
	c.out.update(func(h *half) { h.writerClosed = true })
	return nil
}

// Reset breaks the connection: both ends get an error at once, and what was not read yet is lost.
func (c *Conn) Reset() {
	for _, h := range []*half{c.in, c.out} {
		h.update(func(h *half) { h.broken = true })
	}
}

// Freeze makes the Reads of this end wait, until Freeze(false).
func (c *Conn) Freeze(yes bool) { c.in.update(func(h *half) { h.frozen = yes }) }

// SetReadBuffer sets how many bytes may wait to be read by this end: 64 KiB from the start. With more, the other end's Write waits.
func (c *Conn) SetReadBuffer(bytes int) { c.in.update(func(h *half) { h.limit = bytes }) }

// Unread is what has come and was not read, even if the connection was reset since, and whether the other end will write no more.
func (c *Conn) Unread() (data []byte, ended bool) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.buf, c.in.writerClosed
}

// LocalAddr is the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // it never fails
	return c.SetWriteDeadline(t)
}

// SetReadDeadline ends Reads at that time, those that wait too; zero: it ends none.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.update(func(h *half) { h.reading.set(h, t) })
	return nil
}

// SetWriteDeadline ends Writes at that time, those that wait too; zero: it ends none.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.update(func(h *half) { h.writing.set(h, t) })
	return nil
}

// half is one direction.
type half struct {
	mu      sync.Mutex
	changed *sync.Cond

	buf                        []byte
	limit                      int
	readerClosed, writerClosed bool
	broken, frozen             bool
	reading, writing           deadline
}

func newHalf() *half {
	h := &half{limit: bufferSize}
	h.changed = sync.NewCond(&h.mu)
	return h
}

// update changes the state and wakes the Reads and Writes that wait.
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
		if room := min(len(p)-n, h.limit-len(h.buf)); room > 0 {
			h.buf = append(h.buf, p[n:n+room]...)
			n += room
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

// set replaces the deadline; zero: there is none.
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
		h.update(func(*half) { d.passed = d.passed || d.timer == timer }) // d.timer is another one if the deadline was set again
	})
	d.timer = timer
}
