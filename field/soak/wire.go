package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// silence is longer than a server may say nothing at all on a connection that is open.
const silence = time.Minute

// errCut is what reading says after the client itself has cut.
var errCut = errors.New("cut by the client")

// wire is one TCP connection to a server. It remembers the last that came over it.
type wire struct {
	conn   net.Conn
	r      *bufio.Reader
	budget atomic.Int64 // bytes after which the client cuts; negative: none
	cut    atomic.Bool
	stall  atomic.Int64 // milliseconds for which the client does not read, once

	mu   sync.Mutex
	said []byte
}

const remembered = 1500

func dial(ctx context.Context, addr string) (*wire, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn}
	w.budget.Store(-1)
	w.r = bufio.NewReaderSize((*limited)(w), 2048)
	return w, nil
}

// limited is the reading side of a wire: it cuts where the client meant to.
type limited wire

func (l *limited) Read(p []byte) (int, error) {
	w := (*wire)(l)
	if budget := w.budget.Load(); budget >= 0 {
		if budget == 0 {
			w.sever(true)
			return 0, errCut
		}
		p = p[:min(int64(len(p)), budget)]
	}
	if ms := w.stall.Swap(0); ms > 0 {
		pause(context.Background(), int(ms))
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(silence)) // if it is closed, reading says so
	n, err := w.conn.Read(p)
	if w.budget.Load() >= 0 {
		w.budget.Store(max(0, w.budget.Load()-int64(n)))
	}
	w.remember(p[:n])
	if err != nil && w.cut.Load() {
		err = errCut
	}
	return n, err
}

func (w *wire) remember(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, p...)
	if extra := len(w.said) - remembered; extra > remembered {
		w.said = append(w.said[:0], w.said[extra:]...)
	}
}

// last is the last that came.
func (w *wire) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.said[max(0, len(w.said)-remembered):])
}

// sever cuts the connection, with a reset or in good form.
func (w *wire) sever(reset bool) {
	w.cut.Store(true)
	if c, ok := w.conn.(*net.TCPConn); ok && reset {
		_ = c.SetLinger(0)
	}
	_ = w.conn.Close() // it may be closed already
}

// header is what a request has beside the usual.
type header map[string]string

// send sends a request and reads the head of the response.
func (w *wire) send(method string, at site, h header, body []byte) (*response, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, at.Path, at.Addr)
	for k, v := range h {
		fmt.Fprintf(&b, "%s: %s\r\n", k, v)
	}
	if method == http.MethodPost {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	if _, err := w.conn.Write(b.Bytes()); err != nil {
		if w.cut.Load() {
			return nil, errCut
		}
		return nil, err
	}
	resp, err := http.ReadResponse(w.r, &http.Request{Method: method}) //nolint:bodyclose // it ends with the wire
	if err != nil {
		return nil, err
	}
	return &response{resp.StatusCode, resp.Header, resp.Body, resp.Close}, nil
}

// response is the head of one. Its body ends with the wire, or before the next request.
type response struct {
	status int
	header http.Header
	body   io.Reader
	last   bool // the server closes the connection after it
}

// streams reports whether a response is a stream of events.
func (r *response) streams() bool {
	return r.status == http.StatusOK && strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream")
}

// text reads the rest of a response.
func (r *response) text() (string, error) {
	b, err := io.ReadAll(io.LimitReader(r.body, 1<<20))
	return string(b), err
}

// pool keeps connections that are idle, as clients do.
type pool struct {
	mu     sync.Mutex
	idle   []*wire
	closed bool
}

func (p *pool) get(ctx context.Context, addr string) (*wire, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return w, nil
	}
	p.mu.Unlock()
	return dial(ctx, addr)
}

// put takes a wire whose response was read to its end.
func (p *pool) put(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || w.cut.Load() || len(p.idle) >= 2 {
		w.sever(false)
		return
	}
	w.budget.Store(-1)
	p.idle = append(p.idle, w)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		w.sever(false)
	}
	p.idle = nil
}
