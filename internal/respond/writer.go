package respond

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Writer is the only type that uses an http.ResponseWriter while a connection is served, and only the goroutine that serves the request uses
// it. It is made for each request. It needs no allocation unless several writers have to be flushed.
type Writer struct {
	w       http.ResponseWriter
	flusher http.ResponseWriter   // the outermost one to flush; nil: none can be flushed
	inner   []http.ResponseWriter // the others
	writes  writeDeadliner        // nil: no write deadlines
	reads   readDeadliner
	timeout time.Duration
	rolls   bool // write deadlines work
	took    bool // it has accepted something, which may have left even if it reports an error later
}

// MaxPart is how much is written under one write deadline.
const MaxPart = 64 << 10

// SessionHeader carries the id of a session.
const SessionHeader = "Mcp-Session-Id"

type (
	writeDeadliner interface{ SetWriteDeadline(at time.Time) error }
	readDeadliner  interface{ SetReadDeadline(at time.Time) error }
	unwrapper      interface{ Unwrap() http.ResponseWriter }
)

// New finds out how w can be flushed. A writer may have Flush and yet send nothing: the writer that it wraps may have only Unwrap (gin's writer
// behind such a middleware) or only FlushError. So New walks the chain to its end, and every writer is flushed that the one above cannot have
// flushed. If the last one cannot be flushed, none is: echo's writer would panic. Deadlines are set by the first writer that has them, as
// http.ResponseController does.
func New(w http.ResponseWriter, timeout time.Duration) Writer {
	out := Writer{w: w, timeout: timeout, rolls: true}
	reached := false
	for at := w; at != nil; {
		can := canFlush(at)
		if _, common := at.(http.Flusher); can && (!reached || !common) {
			if out.flusher == nil {
				out.flusher = at
			} else {
				out.inner = append(out.inner, at)
			}
		}
		reached = can
		if out.writes == nil {
			out.writes, _ = at.(writeDeadliner)
		}
		if out.reads == nil {
			out.reads, _ = at.(readDeadliner)
		}
		u, ok := at.(unwrapper)
		if !ok {
			break
		}
		at = u.Unwrap()
	}
	if !reached {
		out.flusher, out.inner = nil, nil
	}
	return out
}

func canFlush(w http.ResponseWriter) bool {
	switch w.(type) {
	case interface{ FlushError() error }, http.Flusher:
		return true
	}
	return false
}

func flush(w http.ResponseWriter) error {
	switch f := w.(type) {
	case interface{ FlushError() error }:
		return f.FlushError()
	case http.Flusher:
		f.Flush()
	}
	return nil
}

// CanFlush reports whether anything of the response can leave before the handler returns.
func (w *Writer) CanFlush() bool { return w.flusher != nil }

// HoldsBack reports whether a middleware is known to keep what was flushed until the handler returns. gin's writers count what has gone
// through them. A middleware that collects responses embeds such a writer and with it its Flush: the head leaves, and the count stays zero.
func (w *Writer) HoldsBack() bool {
	counter, ok := w.w.(interface{ Size() int })
	return ok && w.CanFlush() && counter.Size() <= 0
}

// deadline sets the write deadline; the zero time removes it.
func (w *Writer) deadline(at time.Time) error {
	if w.writes == nil {
		return http.ErrNotSupported
	}
	return w.writes.SetWriteDeadline(at)
}

// Unbound removes the server's WriteTimeout from the request, and reports whether it could. That limit counts from the request's arrival, and
// HTTP/2 ends the stream when it is over.
func (w *Writer) Unbound() bool { return w.deadline(time.Time{}) == nil }

// Header is the head of the response, until that has left.
func (w *Writer) Header() http.Header { return w.w.Header() }

// Head sets the header fields of a stream, before the first flush: proxies and compressors look at them.
func (w *Writer) Head() {
	h := w.w.Header()
	h["Content-Type"] = sseType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
}

// NameSession puts the id of a new session into the head.
func (w *Writer) NameSession(id string) { w.w.Header()[SessionHeader] = []string{id} }

// Took reports whether the response writer has accepted anything, which may have left even if the writer reported an error later.
func (w *Writer) Took() bool { return w.took }

// Kind names the type of the outermost response writer, for a log.
func (w *Writer) Kind() string { return fmt.Sprintf("%T", w.w) }

// Begin sends the head of a stream that stays open.
func (w *Writer) Begin() {
	w.Stay()
	w.w.WriteHeader(http.StatusOK)
}

// Stay removes the read deadline. The body was read; otherwise the server's ReadTimeout would look like the end of the client.
func (w *Writer) Stay() {
	if w.reads != nil {
		_ = w.reads.SetReadDeadline(time.Time{}) // where there is none, there is nothing to clear
	}
}

// Whole sends a complete response with its length, so that nothing has to be written after it and a flush does not make it chunked. It is
// flushed because outer middleware may keep the handler from returning. The deadline stays, because some middleware writes only when the
// handler has returned.
func (w *Writer) Whole(status int, body []byte) error {
	w.w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	waits := status >= http.StatusBadRequest && w.compressed()
	w.w.WriteHeader(status)
	if waits {
		return w.write(body)
	}
	return w.SendLast(body)
}

// compressed reports whether an outer middleware may compress the response. An answer without a body, and an error, must not be flushed through
// it: echo's middleware would leave a compressed body without an end, gin-contrib's would mix compressed and plain bytes.
func (w *Writer) compressed() bool {
	h := w.w.Header()
	if len(h["Content-Encoding"]) > 0 {
		return true
	}
	for _, v := range h["Vary"] {
		if strings.Contains(strings.ToLower(v), "accept-encoding") {
			return true
		}
	}
	return false
}

var (
	sseType     = []string{"text/event-stream"}
	jsonType    = []string{"application/json"}
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
	noLength    = []string{"0"}
)

// Empty sends a response without a body.
func (w *Writer) Empty(status int) {
	if status != http.StatusNoContent { // which has no length
		w.w.Header()["Content-Length"] = noLength
	}
	waits := w.compressed()
	w.w.WriteHeader(status)
	w.Limit()
	if !waits {
		_ = w.flush() // the client may be gone
	}
}

// JSON sends a whole JSON answer.
func (w *Writer) JSON(status int, body []byte) error {
	w.w.Header()["Content-Type"] = jsonType
	return w.Whole(status, body)
}

// Send writes and flushes. If the writer cannot be flushed, the bytes leave when the handler returns. The deadline is moved forward for each
// part, so that a stream may last for any time and a client that has stopped reading is noticed. It is removed when all has left: HTTP/2
// ends a stream whose deadline passes even if nothing is being written.
func (w *Writer) Send(piece []byte) error {
	err := w.SendLast(piece)
	if err == nil {
		w.lift()
	}
	return err
}

// SendLast is Send before the handler returns: the end of the response is written after that, under the same deadline.
func (w *Writer) SendLast(piece []byte) error {
	if err := w.write(piece); err != nil {
		return err
	}
	return w.flush()
}

func (w *Writer) write(piece []byte) error {
	for len(piece) > 0 {
		part := piece[:min(len(piece), MaxPart)]
		piece = piece[len(part):]
		w.Limit()
		n, err := w.w.Write(part)
		w.took = w.took || n > 0
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) flush() error {
	if w.flusher == nil {
		return nil
	}
	if err := flush(w.flusher); err != nil {
		return err
	}
	for _, inner := range w.inner {
		if err := flush(inner); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) lift() {
	if w.timeout > 0 && w.rolls {
		_ = w.deadline(time.Time{}) // it worked before
	}
}

// Abort breaks the connection, so that the client does not take what it has got for the whole. It panics with http.ErrAbortHandler.
func (w *Writer) Abort() {
	_ = w.deadline(time.Unix(1, 0)) // so that no end is written where a middleware catches the panic
	panic(http.ErrAbortHandler)
}

// Limit moves the write deadline forward. It is also called before the handler returns: the end of the response is written after that.
func (w *Writer) Limit() {
	if w.timeout > 0 && w.rolls {
		w.rolls = w.deadline(time.Now().Add(w.timeout)) == nil
	}
}
