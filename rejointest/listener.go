package rejointest

import (
	"net"
	"sync"
	"sync/atomic"
)

// serverAddr is from a range that is kept for documentation: it is no loopback address, so Config.AllowedHosts is not asked, and
// middleware that parses addresses finds one.
var serverAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}

// listener hands one end of each new connection to the server.
type listener struct {
	conns    chan net.Conn
	once     sync.Once
	closed   chan struct{}
	lastPort atomic.Int32
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return serverAddr }

// dial returns the client's end of a new connection.
func (l *listener) dial() (*conn, error) {
	from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 1024 + int(l.lastPort.Add(1))%60_000}
	client, server := newPipe(from, serverAddr)
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: serverAddr, Err: net.ErrClosed}
	}
}
