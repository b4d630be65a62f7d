package middleware

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// pipes is a listener for connections in memory, inside a bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// world is a server in virtual time with one client.
type world struct {
	*client
	*gates
	lines  *logRecords
	faults *bytes.Buffer // net/http's error log
	began  time.Time

	version      string
	writeTimeout time.Duration
	servers      []*rejoin.Server
	hosts        map[string]*pipes
	ends         []func()
}

// virtually runs f in virtual time, with HTTP/1.1 and with HTTP/2, also through another process. writeTimeout is the WriteTimeout of each http.Server.
func virtually(t *testing.T, m mount, writeTimeout time.Duration, f func(t *testing.T, w *world)) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for name, across := range map[string]bool{"": false, " through another process": true} {
			t.Run(version[:6]+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &world{gates: new(gates), lines: new(logRecords), faults: new(bytes.Buffer), version: version, writeTimeout: writeTimeout}
					defer w.end() // also if f fails
					if across {
						w.mountTwo(t, m)
					} else {
						w.serve("process", m(w.newServer(t, rejoin.Config{})))
					}
					w.client = &client{t: t, http: w.transport(), url: "http://process/mcp", proto: version}
					w.initialize()
					w.began = time.Now()
					f(t, w)
					if across {
						require.Positive(t, w.servers[1].Stats().Forwarded)
						require.Zero(t, w.servers[1].Stats().OwnerLost)
					}
					w.end()
					require.Empty(t, w.faults.String(), "net/http has nothing to complain about")
				})
			})
		}
	}
}

// mountTwo mounts two servers of a cluster. The first one owns the client's session, and the client's requests go to the second one.
func (w *world) mountTwo(t *testing.T, m mount) {
	store := cluster.NewMemory(eventstore.MemoryConfig{})
	var routers [2]http.Handler
	for i, name := range []string{"first", "second"} {
		routers[i] = m(w.newServer(t, rejoin.Config{
			Store: store, Cluster: &rejoin.Cluster{Name: "virtual", Self: "http://" + name, Transport: w.transport()},
		}))
		w.serve(name, routers[i])
	}
	w.serve("process", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") == "" {
			routers[0].ServeHTTP(rw, r)
			return
		}
		routers[1].ServeHTTP(rw, r)
	}))
}

func (w *world) newServer(t *testing.T, cfg rejoin.Config) *rejoin.Server {
	cfg.Logger = slog.New(w.lines)
	s, err := rejoin.NewServer(w.app(), cfg)
	require.NoError(t, err)
	w.servers, w.ends = append(w.servers, s), append(w.ends, s.Close)
	synctest.Wait()
	return s
}

// serve serves a handler at http://name.
func (w *world) serve(name string, h http.Handler) {
	p := newPipes()
	if w.hosts == nil {
		w.hosts = map[string]*pipes{}
	}
	w.hosts[name+":80"] = p
	hs := &http.Server{Handler: h, WriteTimeout: w.writeTimeout, Protocols: w.protocols(), ErrorLog: log.New(w.faults, "", 0)}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(p) }()
	w.ends = append(w.ends, func() {
		_ = hs.Close()
		<-served
	})
}

func (w *world) transport() *http.Transport {
	tr := &http.Transport{DisableCompression: true, Protocols: w.protocols(), DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
		return w.hosts[at].dial(ctx, network, at)
	}}
	w.ends = append(w.ends, tr.CloseIdleConnections)
	return tr
}

func (w *world) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(w.version == "HTTP/1.1")
	p.SetUnencryptedHTTP2(w.version != "HTTP/1.1")
	return p
}

// end ends everything, what was started first before the rest. Processes of a cluster take a while.
func (w *world) end() {
	for _, f := range w.ends {
		f()
	}
	w.ends = nil
	<-time.After(time.Minute)
}

// passed returns the virtual time since the test began.
func (w *world) passed() time.Duration { return time.Since(w.began) }

// soon opens a gate after some virtual time.
func (w *world) soon(after time.Duration, keys ...string) {
	time.AfterFunc(after, func() {
		for _, key := range keys {
			w.open(key)
		}
	})
}
