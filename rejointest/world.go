package rejointest

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/pipe"
)

// world is what clients and processes of one test share: the network between them, and the end of the test.
type world struct {
	t     testing.TB
	cfg   Config
	began time.Time
	work  sync.WaitGroup // the goroutines that end with the test

	mu        sync.Mutex
	processes []*Process                 // as they were started
	spray     []*Process                 // to which of them requests of clients go; nil: to all
	turn      int                        // counts these requests
	conns     map[*pipe.Conn][2]*Process // that are open, by the end that has dialed, and who that is (nil: a client), and whom
	ports     int                        // of dialing ends, so far
	closing   bool
}

// newWorld makes a world that ends with the test. It fails the test if that runs in no bubble.
func newWorld(t testing.TB, caller string, cfg Config) *world {
	t.Helper()
	if !inBubble() {
		t.Fatalf("rejointest: %s needs the virtual time of testing/synctest: call it inside synctest.Test", caller)
	}
	cfg.resolve(t)
	w := &world{t: t, cfg: cfg, began: time.Now(), conns: map[*pipe.Conn][2]*Process{}}
	t.Cleanup(w.shutdown)
	return w
}

// inBubble reports whether the caller runs in a bubble.
func inBubble() (yes bool) {
	defer func() { yes = recover() == nil }()
	synctest.Wait()
	return true
}

// shutdown ends everything.
func (w *world) shutdown() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	all := w.all()
	for _, p := range all {
		p.abort()
	}
	w.reset(func([2]*Process) bool { return true })
	for _, p := range all {
		_ = p.http.Close() // our listener cannot fail
	}
	w.work.Wait()
	time.Sleep(w.cfg.Patience)
	synctest.Wait() // so that later cleanups may read what tools have written
}

// all returns all processes, also those that have ended.
func (w *world) all() []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.processes)
}

// dial opens a client's connection to the process whose turn it is. It ends with the test.
func (w *world) dial() (*pipe.Conn, error) {
	for _, p := range w.inTurn() {
		if conn, err := w.connect(nil, p); err == nil {
			return conn, nil
		}
	}
	return nil, refused(serverAddr)
}

// inTurn returns the processes that accept connections, the one first whose turn it is.
func (w *world) inTurn() []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.spray
	if all == nil {
		all = w.processes
	}
	open := slices.DeleteFunc(slices.Clone(all), func(p *Process) bool { return !p.open })
	if len(open) == 0 {
		return nil
	}
	first := w.turn % len(open)
	w.turn++
	return append(open[first:], open[:first]...)
}

// dialFrom opens connections of a process to the others.
func (w *world) dialFrom(from *Process) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		w.mu.Lock()
		at := slices.IndexFunc(w.processes, func(p *Process) bool { return p.open && p.addr.String() == address })
		w.mu.Unlock()
		if at < 0 {
			return nil, refused(from.addr)
		}
		conn, err := w.connect(from, w.all()[at])
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil { // the caller knows of no connection then
			w.hangUp(conn)
			return nil, err
		}
		return &outgoing{conn, w}, nil
	}
}

// outgoing is a connection that a process has dialed.
type outgoing struct {
	*pipe.Conn

	w *world
}

// Close closes the connection.
func (c *outgoing) Close() error {
	c.w.hangUp(c.Conn)
	return nil
}

// connect opens a connection to a process; from is nil for a client.
func (w *world) connect(from, to *Process) (*pipe.Conn, error) {
	w.mu.Lock()
	w.ports++
	local := &net.TCPAddr{IP: clientIP, Port: 1024 + w.ports%60_000}
	w.mu.Unlock()
	if from != nil {
		local.IP = from.addr.IP
	}
	conn, server := pipe.New(local, to.addr)
	if err := to.listener.Deliver(server); err != nil {
		return nil, refused(to.addr)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[conn] = [2]*Process{from, to}
	if w.closing || to.dead || from != nil && from.dead {
		conn.Reset()
	}
	return conn, nil
}

func refused(addr net.Addr) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: syscall.ECONNREFUSED}
}

// hangUp closes a connection, at the end that has dialed.
func (w *world) hangUp(conn *pipe.Conn) {
	_ = conn.Close() // it never fails
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}

// reset breaks connections, by who has dialed, and whom.
func (w *world) reset(which func([2]*Process) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn, ends := range w.conns {
		if which(ends) {
			conn.Reset()
		}
	}
}
