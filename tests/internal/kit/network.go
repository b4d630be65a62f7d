package kit

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/pipe"
)

// Network connects http.Servers in memory, as a network with a name for each would.
type Network struct {
	mu         sync.Mutex
	hosts      map[string]*host
	cut        map[[2]string]bool         // who has dialed, and whom: nothing travels on these connections
	transports map[string]*http.Transport // by the host that uses it
	retired    []*http.Transport          // of hosts in whose place there are others
	dialed     int
}

type host struct {
	listener *pipe.Listener
	server   *http.Server
	conns    map[*link]struct{}
	refuses  bool
	hangs    bool
}

// link is a connection to a host, at the end that has dialed.
type link struct {
	*pipe.Conn

	server *pipe.Conn
	from   string
	gone   func()
}

// Close closes the connection. The network forgets it.
func (l *link) Close() error {
	l.gone()
	return l.Conn.Close()
}

func (l *link) freeze(yes bool) {
	l.Freeze(yes)
	l.server.Freeze(yes)
}

// NoNetwork is a Transport that fails every dial.
var NoNetwork = newNetwork().transport("")

// NewNetwork makes a network without hosts, which ends with the test.
func NewNetwork(t *testing.T) *Network {
	t.Helper()
	n := newNetwork()
	t.Cleanup(n.close)
	return n
}

func newNetwork() *Network {
	return &Network{hosts: map[string]*host{}, cut: map[[2]string]bool{}, transports: map[string]*http.Transport{}}
}

func (n *Network) close() {
	n.mu.Lock()
	hosts := slices.Collect(maps.Values(n.hosts))
	n.mu.Unlock()
	for _, at := range hosts {
		_ = at.server.Close()
	}
	n.CloseIdle()
}

// Serve serves a handler at http://name, in place of what was served there.
func (n *Network) Serve(name string, h http.Handler, set ...func(*http.Server)) {
	at := &host{listener: pipe.Listen(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80}), conns: map[*link]struct{}{}}
	at.server = &http.Server{Handler: h}
	for _, f := range set {
		if f != nil {
			f(at.server)
		}
	}
	n.mu.Lock()
	old := n.hosts[name]
	n.hosts[name] = at
	n.mu.Unlock()
	if old != nil {
		_ = old.server.Close()
	}
	go func() { _ = at.server.Serve(at.listener) }()
}

// Off takes a host off the network.
func (n *Network) Off(name string) {
	n.mu.Lock()
	at := n.hosts[name]
	delete(n.hosts, name)
	n.mu.Unlock()
	_ = at.server.Close()
}

// Shutdown makes a host refuse connections, and waits until its requests have ended, but no longer than within.
func (n *Network) Shutdown(name string, within time.Duration) error {
	n.mu.Lock()
	at := n.hosts[name]
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return at.server.Shutdown(ctx)
}

// Dial connects to a host.
func (n *Network) Dial(ctx context.Context, name string) (net.Conn, error) {
	return n.dial(ctx, "", name+":80")
}

// Transport is what a host dials others with.
func (n *Network) Transport(of string) *http.Transport {
	tr := n.transport(of)
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.transports[of]; old != nil {
		n.retired = append(n.retired, old)
	}
	n.transports[of] = tr
	return tr
}

// CloseIdle closes the connections that no request uses.
func (n *Network) CloseIdle() {
	n.mu.Lock()
	transports := append(slices.Collect(maps.Values(n.transports)), n.retired...)
	n.retired = nil
	n.mu.Unlock()
	for _, tr := range transports {
		tr.CloseIdleConnections()
	}
}

func (n *Network) transport(of string) *http.Transport {
	return &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return n.dial(ctx, of, address)
	}}
}

func (n *Network) dial(ctx context.Context, from, address string) (net.Conn, error) {
	name, _, _ := net.SplitHostPort(address) // net/http adds a port
	n.mu.Lock()
	at := n.hosts[name]
	refused, hangs := at == nil || at.refuses, at != nil && (at.hangs || n.cut[[2]string{from, name}])
	n.dialed++
	n.mu.Unlock()
	if refused {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	c, s := pipe.New(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 40_000}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80})
	l := &link{Conn: c, server: s, from: from}
	l.gone = func() { n.forget(at, l) }
	n.mu.Lock()
	at.conns[l] = struct{}{}
	n.mu.Unlock()
	if hangs {
		l.freeze(true)
	}
	if err := at.listener.Deliver(s); err != nil {
		l.gone()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if err := ctx.Err(); err != nil { // who has dialed knows of no connection then
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

func (n *Network) forget(at *host, l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(at.conns, l)
}

// Refuse refuses connections to a host from now on, or accepts them again.
func (n *Network) Refuse(name string, yes bool) { n.update(name, func(h *host) { h.refuses = yes }) }

// Hang lets nothing travel to and from a host from now on, or lets it travel again. Connections stay.
func (n *Network) Hang(name string, yes bool) {
	n.update(name, func(h *host) {
		h.hangs = yes
		for l := range h.conns {
			l.freeze(yes || n.cut[[2]string{l.from, name}])
		}
	})
}

// Cut lets nothing travel on the connections that one host has dialed to another, from now on, or lets it travel again. Connections stay.
func (n *Network) Cut(from, to string, yes bool) {
	n.update(to, func(h *host) {
		n.cut[[2]string{from, to}] = yes
		for l := range h.conns {
			if l.from == from {
				l.freeze(yes || h.hangs)
			}
		}
	})
}

// Reset breaks the connections to a host.
func (n *Network) Reset(name string) {
	n.update(name, func(h *host) {
		for l := range h.conns {
			l.Reset()
		}
		clear(h.conns)
	})
}

func (n *Network) update(name string, f func(*host)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n.hosts[name])
}

// Dialed returns how often anybody has dialed.
func (n *Network) Dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dialed
}
