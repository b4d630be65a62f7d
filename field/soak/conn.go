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

// maxSilence is longer than a server ever sends nothing on a connection.
const maxSilence = time.Minute

// errCut is the error of reads after the client itself has cut the connection.
var errCut = errors.New("cut by the client")

// clientConn is a TCP connection to a server. It remembers the last bytes that it received.
type clientConn struct {
	conn     net.Conn
	r        *bufio.Reader
	cutAfter atomic.Int64 // the client cuts the connection after so many bytes; negative: never
	cut      atomic.Bool
	stall    atomic.Int64 // milliseconds for which the client once does not read

	mu       sync.Mutex
	received []byte
}

const remembered = 1500

func dial(ctx context.Context, addr string) (*clientConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &clientConn{conn: conn}
	w.cutAfter.Store(-1)
	w.r = bufio.NewReaderSize((*cuttingReader)(w), 2048)
	return w, nil
}

// cuttingReader reads from a connection, and cuts or stalls as planned.
type cuttingReader clientConn

func (l *cuttingReader) Read(p []byte) (int, error) {
	w := (*clientConn)(l)
	if cutAfter := w.cutAfter.Load(); cutAfter >= 0 {
		if cutAfter == 0 {
			w.disconnect(true)
			return 0, errCut
		}
		p = p[:min(int64(len(p)), cutAfter)]
	}
	if ms := w.stall.Swap(0); ms > 0 {
		pause(context.Background(), int(ms))
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(maxSilence)) // if the connection is closed, Read fails
	n, err := w.conn.Read(p)
	if w.cutAfter.Load() >= 0 {
		w.cutAfter.Store(max(0, w.cutAfter.Load()-int64(n)))
	}
	w.remember(p[:n])
	if err != nil && w.cut.Load() {
		err = errCut
	}
	return n, err
}

func (w *clientConn) remember(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = append(w.received, p...)
	if extra := len(w.received) - remembered; extra > remembered {
		w.received = append(w.received[:0], w.received[extra:]...)
	}
}

// lastReceived is the last that came, at most remembered bytes.
func (w *clientConn) lastReceived() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.received[max(0, len(w.received)-remembered):])
}

// disconnect closes the connection, with a reset or with an orderly end.
func (w *clientConn) disconnect(reset bool) {
	w.cut.Store(true)
	if c, ok := w.conn.(*net.TCPConn); ok && reset {
		_ = c.SetLinger(0)
	}
	_ = w.conn.Close() // it may be closed already
}

// header has the header fields of a request, besides those that send adds.
type header map[string]string

// send sends a request and reads the head of the response.
func (w *clientConn) send(method string, at site, h header, body []byte) (*response, error) {
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

// response is the head of a response. Its body must be read before the next request of the connection.
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

// pool keeps idle connections.
type pool struct {
	mu     sync.Mutex
	idle   []*clientConn
	closed bool
}

func (p *pool) get(ctx context.Context, addr string) (*clientConn, error) {
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

// put takes a connection whose response was read to its end.
func (p *pool) put(w *clientConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || w.cut.Load() || len(p.idle) >= 2 {
		w.disconnect(false)
		return
	}
	w.cutAfter.Store(-1)
	p.idle = append(p.idle, w)
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		w.disconnect(false)
	}
	p.idle = nil
}
