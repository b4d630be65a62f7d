package rawhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/pipe"
)

// Subject is a server under test. Play calls its functions in its own goroutine.
type Subject struct {
	Handler http.Handler
	// Logged gets the server's log: let the server's logger write to it. http.Server logs to it too.
	Logged *Log
	// EndSessions ends all sessions, as an operator can.
	EndSessions func()
	// Left returns what the server still holds, "" for nothing.
	Left func() string
}

// MaxScript is the largest length of a script. Longer ones take time and find nothing new.
const MaxScript = 16 << 10

const (
	maxActions = 300 // of a script
	maxConns   = 8
)

// Play runs a script in the synctest bubble of t, and returns what came over each connection. It fails t if it finds a fault. A script longer
// than MaxScript is not run.
func Play(t *testing.T, s Subject, script []byte) (answers []string) {
	t.Helper()
	if len(script) > MaxScript {
		return nil
	}
	p := newPlay(s, string(script))
	p.run()
	if len(p.faults) > 0 {
		t.Fatalf("%s\n\nthe script:\n%q\n%s", strings.Join(p.faults, "\n"), script, p.transcript())
	}
	for _, c := range p.conns {
		got, _ := c.Unread()
		answers = append(answers, string(got))
	}
	return answers
}

func newPlay(s Subject, script string) *play {
	return &play{subject: s, script: script, states: map[net.Conn]http.ConnState{}}
}

func (p *play) run() {
	p.start()
	baseline := len(goroutines())
	p.perform()
	p.check()
	if len(p.script)%2 == 0 { // when their session ends, unanswered requests are answered too
		p.subject.EndSessions()
		synctest.Wait()
		p.check()
	}
	p.disconnect(baseline)
	p.stop()
}

type play struct {
	subject Subject
	script  string
	listen  *pipe.Listener
	server  *http.Server
	served  chan error
	conns   []*client
	current int    // index of the connection that the script is at
	session string // the last that {{session}} stood for
	batches string
	faults  []string

	mu          sync.Mutex
	states      map[net.Conn]http.ConnState
	asyncFaults []string // faults that other goroutines found
}

// addr is a loopback address: the guard is part of what is tested.
var addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}

// client is the client's end of a connection, and the requests of it that reached the handler. The client has no goroutine: what it sends is in
// the server's buffer at once, and it does not read: what the server has written stays in its own buffer.
type client struct {
	*pipe.Conn

	server           *pipe.Conn
	cut, frozen, fin bool

	pending  pending
	sent     bytes.Buffer
	mu       sync.Mutex
	requests []*request
}

// request is a request that reached the handler.
type request struct {
	method  string
	done    bool
	aborted bool // the handler panicked with http.ErrAbortHandler
}

func (p *play) failf(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// failAsyncf notes a fault. Unlike failf it may be called from any goroutine.
func (p *play) failAsyncf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asyncFaults = append(p.asyncFaults, fmt.Sprintf(format, args...))
}

type clientKey struct{}

func (p *play) start() {
	p.listen = pipe.Listen(addr)
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ErrorLog: log.New(p.subject.Logged, "http: ", 0), MaxHeaderBytes: 4 << 10,
		DisableGeneralOptionsHandler: true, ConnState: p.state, ReadHeaderTimeout: time.Minute,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, p.clientOf(c))
		},
	}
	p.served = make(chan error, 1)
	go func() { p.served <- p.server.Serve(p.listen) }()
	synctest.Wait()
}

func (p *play) clientOf(c net.Conn) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.conns {
		if one.server == c {
			return one
		}
	}
	return nil
}

// state checks the order in which net/http reports the states of a connection.
func (p *play) state(c net.Conn, now http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.states[c]
	p.states[c] = now
	if now == http.StateHijacked || known != (now != http.StateNew) || before == http.StateClosed {
		p.asyncFaults = append(p.asyncFaults, fmt.Sprintf("a connection went from %v to %v", before, now))
	}
}

// serve hands a request to the server under test.
func (p *play) serve(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(clientKey{}).(*client)
	one := &request{method: r.Method}
	c.mu.Lock()
	c.requests = append(c.requests, one)
	c.mu.Unlock()
	defer func() {
		v := recover()
		if v == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			c.mu.Lock()
			one.aborted = true
			c.mu.Unlock()
			defer panic(v)
		} else if v != nil {
			buf := make([]byte, 8<<10)
			p.failAsyncf("the handler panicked: %v\n%s", v, buf[:runtime.Stack(buf, false)])
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		one.done = true
	}()
	p.subject.Handler.ServeHTTP(w, r)
}

func (p *play) dial() *client {
	c := &client{pending: pending{lengthAt: -1}}
	c.Conn, c.server = pipe.New(addr, addr)
	c.SetReadBuffer(math.MaxInt)
	c.server.SetReadBuffer(math.MaxInt)
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	_ = p.listen.Deliver(c.server) // the listener is closed last
	return c
}

func (p *play) stop() {
	_ = p.server.Close()
	if err := <-p.served; !errors.Is(err, http.ErrServerClosed) {
		p.failf("Serve: %v", err)
	}
}

// transcript returns what came over each connection.
func (p *play) transcript() string {
	var b strings.Builder
	for i, c := range p.conns {
		got, over := c.Unread()
		fmt.Fprintf(&b, "connection %d (over: %v):\n%q\n", i, over, got)
	}
	return b.String()
}
