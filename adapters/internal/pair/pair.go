// Package pair makes two servers of one cluster, for tests of adapters. Each has a router of its own, and is in a process of its own as far as the
// other one knows: they share an engine, and reach each other through http.Servers over connections in memory.
package pair

import (
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/pipe"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Pair is a handler that serves each request of a session by another of the two servers than the request before. The session's owner is the one
// that has served initialize.
type Pair struct {
	Servers [2]*rejoin.Server
	// OwnerFirst says who serves the first request after initialize: the owner, and not the other one.
	OwnerFirst bool

	t       testing.TB
	hosts   map[string]*pipe.Listener
	routers [2]http.Handler

	mu   sync.Mutex
	last map[string]int // who has served the last request of a session; "": of no session
}

const (
	// patience is how long, in virtual time, tools may run on when their server is closed. With an hour, the processes would talk to each other for long.
	patience = 2 * time.Minute
	// lease is long enough for a test not to be busy with renewals, and short enough for the owner of a tool that is silent for a minute to be probed.
	lease = time.Minute
)

var names = [2]string{"first.test", "second.test"}

// Of returns the configuration of a client whose requests go to both servers of a Pair. The first one is that of the client. cfg has the Handler of both,
// and HTTP for all http.Servers.
func Of(t testing.TB, app rejoin.App, cfg rejointest.Config) (rejointest.Config, *Pair) {
	t.Helper()
	p := &Pair{t: t, hosts: map[string]*pipe.Listener{}, last: map[string]int{}}
	for _, name := range names {
		p.hosts[name] = pipe.Listen(address)
	}
	if cfg.Server.Logger == nil {
		cfg.Server.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if cfg.Patience == 0 {
		cfg.Patience = patience
	}
	memory, mount := cluster.NewMemory(eventstore.MemoryConfig{}), cfg.Handler
	of := func(i int) rejoin.Config {
		own := cfg.Server
		own.Store, own.Cluster = memory, &rejoin.Cluster{Name: "pair", Self: "http://" + names[i], Transport: p.transport(), Lease: lease}
		return own
	}
	second := of(1)
	cfg.Server = of(0)
	cfg.Handler = func(s *rejoin.Server) http.Handler {
		apart()
		other, err := rejoin.NewServer(app, second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // after the client's own, which closes s and waits for its tools
			other.Close()
			<-time.After(patience)
		})
		p.Servers = [2]*rejoin.Server{s, other}
		for i, server := range p.Servers {
			p.routers[i] = mount(server)
			p.serve(names[i], p.routers[i], cfg.HTTP)
		}
		synctest.Wait() // both join the cluster
		apart()
		return p
	}
	return cfg, p
}

// apart lets a little virtual time pass, so that the timers of two processes, and of the test, are not due at the same moments for ever.
func apart() { <-time.After(7 * time.Millisecond) }

// ServeHTTP implements http.Handler.
func (p *Pair) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get("Mcp-Session-Id")
	i := p.next(session)
	p.routers[i].ServeHTTP(w, r)
	if opened := w.Header().Get("Mcp-Session-Id"); session == "" && opened != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.OwnerFirst {
			i = 1 - i
		}
		p.last[opened] = i
	}
}

// next returns who serves the next request of a session.
func (p *Pair) next(session string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.last[session]
	if !known {
		last = p.last[""]
	}
	p.last[session] = 1 - last
	return 1 - last
}

// Forwarded returns how many requests one server has forwarded and the other has answered.
func (p *Pair) Forwarded() (n int64) {
	for _, s := range p.Servers {
		n += s.Stats().Forwarded
	}
	return n
}

var address = &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 80} // of a range that is kept for documentation

// serve serves a router at http://name until the test ends.
func (p *Pair) serve(name string, h http.Handler, set func(*http.Server)) {
	server := &http.Server{Handler: h, ErrorLog: log.New(p.t.Output(), name+": ", 0)}
	if set != nil {
		set(server)
	}
	go func() { _ = server.Serve(p.hosts[name]) }()
	p.t.Cleanup(func() { _ = server.Close() })
}

func (p *Pair) transport() *http.Transport {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000, DialContext: p.dial}
	p.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func (p *Pair) dial(ctx context.Context, _, at string) (net.Conn, error) {
	name, _, _ := net.SplitHostPort(at)
	c, s := pipe.New(&net.TCPAddr{IP: net.IPv4(198, 51, 100, 2), Port: 40_000}, address)
	if err := p.hosts[name].Deliver(s); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return c, ctx.Err()
}
