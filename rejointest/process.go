package rejointest

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/internal/pipe"
)

const (
	// noticed is how long balancers take to notice that a process is not ready.
	noticed = 5 * time.Second
	// lastRequests is how long a process whose port is closed still serves: a connection that was accepted in the last moment is not the server's yet,
	// and http.Server.Shutdown would not wait for it.
	lastRequests = time.Second
	// shutdownWithin is how long requests may run on after that.
	shutdownWithin = 10 * time.Second
)

// Process is one process of a Cluster: a server of rejoin behind an http.Server, with connections and a way to the engine that end with it. It
// has the methods of its rejoin.Server: Sessions, Stats, CloseStreams. Call its own methods from the test's goroutine.
type Process struct {
	*rejoin.Server

	w        *world
	n        int // the how many-th process of its cluster
	addr     *net.TCPAddr
	listener *pipe.Listener
	http     *http.Server
	link     *clustertest.Faulty // its way to the engine; nil: it is not in a Cluster
	ctx      context.Context     // ends when the process is killed, and with the test
	cancel   context.CancelFunc
	silent   atomic.Bool   // it logs nothing any more
	over     chan struct{} // closed when Shutdown is over; nil: it was not called. Of the test's goroutine
	drained  error         // what Wait returns; read after over

	// Guarded by the mutex of the world.
	open bool // it accepts connections
	dead bool
}

// start serves a server, which may not be made before its process.
func (w *world) start(p *Process, serve func() (*rejoin.Server, error)) *Process {
	w.t.Helper()
	p.w, p.listener = w, pipe.Listen(p.addr)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	srv, err := serve()
	if err != nil {
		w.t.Fatal(err)
	}
	p.Server = srv
	p.http = &http.Server{Handler: w.cfg.Handler(srv), ErrorLog: log.New(w.t.Output(), "http: ", 0)}
	if w.cfg.HTTP != nil {
		w.cfg.HTTP(p.http)
	}
	w.mu.Lock()
	p.open, w.processes = true, append(w.processes, p)
	w.mu.Unlock()
	w.work.Go(func() {
		if err := p.http.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			w.t.Errorf("rejointest: http.Server.Serve: %v", err)
		}
	})
	return p
}

// String names the process in failures and logs: "process 2 (http://198.51.100.3:8080)".
func (p *Process) String() string { return fmt.Sprintf("process %d (%s)", p.n, p.Self()) }

// Self is the process's Cluster.Self, which StreamInfo.Via shows.
func (p *Process) Self() string { return "http://" + p.addr.String() }

// Kill ends the process as kill -9 does, or the loss of its machine: its connections break, to clients, to other processes and to the engine, and
// nothing of it is ever seen again. The others do not know: to them it is dead when it was silent for Cluster.Lease, or when another process has
// started with its Self (Restart).
//
// A goroutine cannot be killed, so the contexts of its tools end, with the cause rejoin.ErrShutdown. What a tool does then, rejoin shows to no one.
// Kill does nothing to a process that has ended.
func (p *Process) Kill() {
	p.kill()
	synctest.Wait()
}

func (p *Process) kill() {
	p.closePort()
	p.silent.Store(true)
	if p.link != nil {
		p.link.SetLink(clustertest.Refused) // first: nothing that follows may be recorded
	}
	p.w.mu.Lock()
	p.dead = true
	p.w.mu.Unlock()
	p.w.reset(func(ends [2]*Process) bool { return ends[0] == p || ends[1] == p })
	p.abort()
	_ = p.http.Close() // our listener cannot fail
}

// abort ends the server at once, and with it a Shutdown that is under way.
func (p *Process) abort() {
	p.cancel()
	p.Server.Close()
}

func (p *Process) closePort() {
	p.w.mu.Lock()
	p.open = false
	p.w.mu.Unlock()
	_ = p.listener.Close() // it never fails
}

// Shutdown begins to end the process, as a deploy does after SIGTERM, in the order of docs/replicas.md. It drains, for at most grace, and serves
// meanwhile; clients' requests still come for 5 s at least. Then it closes its port, serves what it has accepted, and leaves the cluster a
// second later, or when no request runs any more.
// Start or Restart another one before that or after it, as your deploys do.
//
// Shutdown returns when the bubble is at rest, so the test can poll meanwhile. Wait waits for the end. It fails the test if the process has ended,
// or is ending.
func (p *Process) Shutdown(grace time.Duration) {
	p.w.t.Helper()
	if p.over != nil || p.ctx.Err() != nil {
		p.w.t.Fatalf("rejointest: Shutdown: %v has ended, or is ending", p)
	}
	over := make(chan struct{})
	p.over = over
	p.w.work.Go(func() {
		defer close(over)
		p.end(grace)
	})
	synctest.Wait()
}

func (p *Process) end(grace time.Duration) {
	settled := time.After(noticed)
	drain, cancel := context.WithTimeout(p.ctx, grace)
	defer cancel()
	p.drained = p.Drain(drain)
	p.pause(settled)
	p.closePort()
	p.pause(time.After(lastRequests))
	shutdown, cancel := context.WithTimeout(p.ctx, shutdownWithin)
	defer cancel()
	if p.http.Shutdown(shutdown) != nil {
		_ = p.http.Close() // our listener cannot fail
	}
	if p.ended() {
		p.drained = fmt.Errorf("rejointest: %v was killed while it shut down", p)
	}
	p.abort()
}

// pause waits, unless the process is killed.
func (p *Process) pause(until <-chan time.Time) {
	select {
	case <-until:
	case <-p.ctx.Done():
	}
}

// Wait waits until a Shutdown is over, and returns what Drain has returned: nil, or a *rejoin.DrainError that says what did not end within the
// grace. It returns another error if the process was killed meanwhile. Calls of clients go on while Wait waits, but do not poll. Wait fails the
// test if Shutdown was not called, and if it takes longer than Config.Patience.
func (p *Process) Wait() error {
	p.w.t.Helper()
	if p.over == nil {
		p.w.t.Fatalf("rejointest: Wait: %v is not shutting down", p)
	}
	patience := time.NewTimer(p.w.cfg.Patience)
	defer patience.Stop()
	select {
	case <-p.over:
	case <-patience.C:
		p.w.t.Fatalf("rejointest: waited %v for the end of %v", p.w.cfg.Patience, p)
	}
	synctest.Wait()
	return p.drained
}

// ended reports whether the process was killed, or its Shutdown is over.
func (p *Process) ended() bool { return p.ctx.Err() != nil }

// mortal is a log handler that drops what a killed process logs.
type mortal struct {
	slog.Handler

	p *Process
}

func (m mortal) Enabled(ctx context.Context, level slog.Level) bool {
	return !m.p.silent.Load() && m.Handler.Enabled(ctx, level)
}

func (m mortal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return mortal{m.Handler.WithAttrs(attrs), m.p}
}

func (m mortal) WithGroup(name string) slog.Handler { return mortal{m.Handler.WithGroup(name), m.p} }
