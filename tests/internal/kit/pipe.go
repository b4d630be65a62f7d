package kit

import (
	"net"
	"sync"
)

// Pipes is a listener of connections that hold nothing.
type Pipes struct {
	Conns  chan net.Conn
	Closed chan struct{}
	once   sync.Once
}

// Dial connects to whoever accepts next.
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
