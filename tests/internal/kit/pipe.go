package kit

import (
	"net"
	"sync"
)

// Pipes is a listener whose connections have no buffer. The user makes both channels.
type Pipes struct {
	Conns  chan net.Conn
	Closed chan struct{}
	once   sync.Once
}

// Dial connects to the next caller of Accept.
func (l *Pipes) Dial() net.Conn {
	c, s := net.Pipe()
	l.Conns <- s
	return c
}

func (l *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.Conns:
		return c, nil
	case <-l.Closed:
		return nil, net.ErrClosed
	}
}

func (l *Pipes) Close() error { l.once.Do(func() { close(l.Closed) }); return nil }

func (l *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
