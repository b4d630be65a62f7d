package rejoin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// modernResponse is what the goroutine inside Serve knows of a response of the modern era. Only that goroutine uses it, except
// handle, whose end it waits for.
type modernResponse struct {
	writer
	in     modernWriter
	s      *Server
	r      *http.Request
	id     []byte // of the request; nil: it is a notification
	cancel context.CancelCauseFunc

	returned bool // the handler has, in the ordinary way
	panicked any
	stack    []byte

	headed  bool
	stream  bool // of events, and nothing is in the way of a comment
	between bool // what was written ends with a whole event
	tail    [3]byte
	err     error // the client cannot be reached
}

func newModernResponse(s *Server, w http.ResponseWriter, r *http.Request, id []byte, cancel context.CancelCauseFunc) *modernResponse {
	m := &modernResponse{writer: newWriter(w, s.cfg.WriteTimeout), in: newModernWriter(w), s: s, r: r, id: id, cancel: cancel}
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 && !m.unbound() {
		s.sayOnce(saidNoDeadline, "rejoin: the response writer has no write deadlines: the server's WriteTimeout ends modern requests",
			"timeout", srv.WriteTimeout)
	}
	m.stay()
	return m
}

// handle runs the app's handler, in its own goroutine.
func (m *modernResponse) handle(h http.Handler, r *http.Request, ended chan<- struct{}) {
	defer close(ended)
	defer func() {
		if !m.returned {
			m.panicked, m.stack = recover(), debug.Stack() // nil: it has called runtime.Goexit
		}
	}()
	var w http.ResponseWriter = &m.in
	if m.canFlush() {
		w = flushingModernWriter{&m.in}
	}
	h.ServeHTTP(w, r)
	m.returned = true
}

// run does what the handler asks for until it has returned.
func (m *modernResponse) run(ended <-chan struct{}) {
	var quiet quietTimer
	defer quiet.stop()
	for {
		select {
		case o := <-m.in.orders:
			o.done <- m.obey(o)
		case <-quiet.after(m.stream && m.between && m.err == nil, m.s.cfg.KeepAlive):
			_ = m.send(sse.AppendComment(nil)) // it is noted, and there is nobody to be told
		case <-ended:
			return
		}
		quiet.spoke()
	}
}

// obey does one thing that the handler asked for.
func (m *modernResponse) obey(o modernOrder) error {
	switch {
	case m.err != nil:
		return m.err
	case o.status >= 100 && o.status < 200 && o.status != http.StatusSwitchingProtocols:
		return nil // there is nothing to say in advance
	case !m.headed:
		m.head(o.status)
	}
	switch {
	case o.flush:
		m.limit()
		return m.sent(m.flush())
	case len(o.data) > 0:
		m.note(o.data)
		return m.sent(m.write(o.data))
	}
	return nil
}

// send writes something of the server's own to a stream, at once.
func (m *modernResponse) send(piece []byte) error { return m.sent(m.writer.send(piece)) }

// sent takes the deadline off after a write. One that failed is the request's end; but where the handler wrote what its own head does not
// allow, the client is as well as ever.
func (m *modernResponse) sent(err error) error {
	if err == nil || errors.Is(err, http.ErrBodyNotAllowed) || errors.Is(err, http.ErrContentLength) {
		m.lift()
		return err
	}
	m.err = fmt.Errorf("rejoin: the client cannot be written to: %w", err)
	m.s.stats.noteWriteError(err)
	m.cancel(m.err)
	return m.err
}

// head sends the handler's head; that of a stream with what ours have.
func (m *modernResponse) head(status int) {
	if status == 0 {
		status = http.StatusOK
	}
	m.headed = true
	h := m.w.Header()
	for name := range h { // of outer middleware
		if _, kept := m.in.header[name]; !kept {
			delete(h, name)
		}
	}
	maps.Copy(h, m.in.header)
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(kind), sseType[0]) {
		h["Cache-Control"], h["X-Accel-Buffering"] = noCache, noBuffering
		// What is counted or encoded has no room for comments.
		m.stream = status == http.StatusOK && h.Get("Content-Length") == "" && !encoded(h["Content-Encoding"]) && m.canFlush()
		m.between = true
		if !m.canFlush() {
			m.s.logNoFlush(m.r)
		}
	}
	m.w.WriteHeader(status)
}

// note keeps track of whether the handler is in the middle of an event. An event ends with an empty line.
func (m *modernResponse) note(data []byte) {
	data = data[max(0, len(data)-len(m.tail)):]
	copy(m.tail[:], m.tail[len(data):])
	copy(m.tail[len(m.tail)-len(data):], data)
	a, b, c := m.tail[0], m.tail[1], m.tail[2]
	switch {
	case b == '\r' && c == '\n':
		m.between = a == '\n' || a == '\r'
	case c == '\n', c == '\r':
		m.between = b == '\n' || b == '\r'
	default:
		m.between = false
	}
}

// finish ends the response as the handler has ended.
func (m *modernResponse) finish(ctx context.Context) {
	switch {
	case m.returned && m.headed:
		m.limit() // what ends the response is written after this
	case m.returned && errors.Is(context.Cause(ctx), ErrShutdown): // SDKs do not answer where the context has ended
		m.answer(http.StatusServiceUnavailable, failure(core.Shutdown))
	case m.returned:
		m.head(http.StatusOK)
		m.limit()
	case m.panicked == http.ErrAbortHandler: //nolint:errorlint // as net/http compares it
		m.abort()
	default:
		what := m.panicked
		if what == nil {
			what = "runtime.Goexit"
		}
		m.s.log.Error("rejoin: panic in the handler of modern requests", "panic", what, "stack", strings.TrimSpace(string(m.stack)))
		m.answer(http.StatusInternalServerError, Errorf(CodeInternal, "internal error"))
	}
}

// answer is the error response in place of the handler's. Where the handler has begun one, it can only be an event of its stream; else the
// client must not take what it has got for the whole.
func (m *modernResponse) answer(status int, e *Error) {
	body := jsonrpc.AppendError(nil, m.id, e.Code, e.Message, e.Data)
	switch {
	case !m.headed:
		_ = m.json(status, body) // the client may be gone
	case m.stream && m.between && m.id != nil && m.err == nil:
		_ = m.send(sse.AppendEvent(nil, nil, body))
		m.limit()
	default:
		m.abort()
	}
}

// abort breaks the connection.
func (m *modernResponse) abort() {
	_ = m.deadline(time.Unix(1, 0)) // so that no end is written where a middleware catches the panic
	panic(http.ErrAbortHandler)
}
