package rawhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Subject is a server under test. Its functions are called by the goroutine that calls Play.
type Subject struct {
	Handler http.Handler
	// Logged gets what is logged, beside what http.Server logs: give its Writer to the server's logger.
	Logged *Log
	// EndSessions ends all sessions, as an operator does.
	EndSessions func()
	// Left says what the server still holds; "": nothing.
	Left func() string
}

// MaxScript is how long a script may be. Longer ones say nothing new, and cost time.
const MaxScript = 16 << 10

const (
	maxActs  = 300 // of a script
	maxConns = 8
)

// Play runs a script in the bubble of t, and returns what came over each connection.
func Play(t *testing.T, s Subject, script []byte) (answers []string) {
	t.Helper()
	if len(script) > MaxScript {
		return nil
	}
	p := newPlay(s, string(script))
	p.run()
	if len(p.faults) > 0 {
		t.Fatalf("%s\n\nthe script:\n%q\n%s", strings.Join(p.faults, "\n"), script, p.story())
	}
	for _, c := range p.conns {
		got, _ := c.got()
		answers = append(answers, string(got))
	}
	return answers
}

func newPlay(s Subject, script string) *play {
	return &play{subject: s, script: script, states: map[net.Conn]http.ConnState{}}
}

func (p *play) run() {
	p.start()
	resting := len(goroutines())
	p.perform()
	p.check()
	if len(p.script)%2 == 0 { // what is open when its session ends is answered, too
		p.subject.EndSessions()
		synctest.Wait()
		p.check()
	}
	p.leave(resting)
	p.stop()
}

type play struct {
	subject Subject
	script  string
	listen  *listener
	server  *http.Server
	served  chan error
	conns   []*client
	now     int    // the connection that the script is at
	session string // the last that {{session}} stood for
	batches string
	faults  []string

	mu     sync.Mutex
	states map[net.Conn]http.ConnState
	ended  []string // faults that were seen elsewhere
}

// client is a connection, and the requests of it that reached the handler.
type client struct {
	*conn
	pending  pending
	sent     bytes.Buffer
	mu       sync.Mutex
	requests []*request
}

// request is one that reached the handler.
type request struct {
	method  string
	done    bool
	aborted bool // its answer is broken off
}

func (p *play) failf(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// seenf notes a fault from another goroutine.
func (p *play) seenf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, fmt.Sprintf(format, args...))
}

type clientKey struct{}

func (p *play) start() {
	p.listen = &listener{conns: make(chan net.Conn), over: make(chan struct{})}
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
		if one.conn == c {
			return one
		}
	}
	return nil
}

// state sees that connections change as net/http says they do.
func (p *play) state(c net.Conn, now http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.states[c]
	p.states[c] = now
	if now == http.StateHijacked || known != (now != http.StateNew) || before == http.StateClosed {
		p.ended = append(p.ended, fmt.Sprintf("a connection went from %v to %v", before, now))
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
			p.seenf("the handler panicked: %v\n%s", v, buf[:runtime.Stack(buf, false)])
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		one.done = true
	}()
	p.subject.Handler.ServeHTTP(w, r)
}

func (p *play) dial() *client {
	c := &client{conn: newConn(), pending: pending{lengthAt: -1}}
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	p.listen.conns <- c.conn
	return c
}

func (p *play) stop() {
	_ = p.server.Close()
	if err := <-p.served; !errors.Is(err, http.ErrServerClosed) {
		p.failf("Serve: %v", err)
	}
}

// story is what came over each connection.
func (p *play) story() string {
	var b strings.Builder
	for i, c := range p.conns {
		got, over := c.got()
		fmt.Fprintf(&b, "connection %d (over: %v):\n%q\n", i, over, got)
	}
	return b.String()
}
