package pipe

import (
	"net"
	"sync"
)

// Listener is a net.Listener that accepts what Deliver gives it.
type Listener struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Listen returns a listener with that address.
func Listen(addr net.Addr) *Listener {
	return &Listener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Deliver waits until the server accepts c. It returns net.ErrClosed if the listener was closed.
func (l *Listener) Deliver(c net.Conn) error {
	select {
	case l.conns <- c:
		return nil
	case <-l.closed:
		return net.ErrClosed
	}
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Deliver.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is the address of Listen.
func (l *Listener) Addr() net.Addr { return l.addr }
