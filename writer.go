package rejoin

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// writer is the only place that touches an http.ResponseWriter while a connection is served. Only the goroutine inside Serve
// uses it. It is made for each request, and costs no allocation where there is one writer to flush.
type writer struct {
	w       http.ResponseWriter
	flusher http.ResponseWriter   // the outermost that is to be flushed; nil: none can
	inner   []http.ResponseWriter // the others
	writes  writeDeadliner        // nil: no write deadlines
	reads   readDeadliner
	timeout time.Duration
	rolls   bool // write deadlines work
	took    bool // it has taken something: some of that may have left, whatever it says later
}

type (
	writeDeadliner interface{ SetWriteDeadline(at time.Time) error }
	readDeadliner  interface{ SetReadDeadline(at time.Time) error }
	unwrapper      interface{ Unwrap() http.ResponseWriter }
)

// newWriter probes how w can flush. A writer may offer Flush and yet send nothing, when what it wraps offers none but can be
// unwrapped further (gin's behind a middleware that only has Unwrap) or offers only FlushError: so the chain is walked to its end, and
// each writer is flushed that the one above cannot have flushed. Where the last one cannot be flushed none is: echo's would panic.
// Deadlines are set as by http.ResponseController, by the first that has any.
func newWriter(w http.ResponseWriter, timeout time.Duration) writer {
	out := writer{w: w, timeout: timeout, rolls: true}
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

func (w *writer) canFlush() bool { return w.flusher != nil }

// holdsBack reports whether what was written and flushed is known to be kept by a middleware until the handler returns, although it said
// that it can flush. gin's writers count what has gone through them. A middleware that gathers responses embeds one, for its Flush as
// well: the head leaves, and the count stays at nothing.
func (w *writer) holdsBack() bool {
	counter, ok := w.w.(interface{ Size() int })
	return ok && w.canFlush() && counter.Size() <= 0
}

// deadline sets the write deadline; the zero time takes it off.
func (w *writer) deadline(at time.Time) error {
	if w.writes == nil {
		return http.ErrNotSupported
	}
	return w.writes.SetWriteDeadline(at)
}

// unbound takes the server's WriteTimeout off a request that waits for its answer, and reports whether it could: that limit counts
// from the request's arrival, and HTTP/2 ends the stream when it is over.
func (w *writer) unbound() bool { return w.deadline(time.Time{}) == nil }

// head says what the head of a stream says, before the first flush: proxies and compressors go by it.
func (w *writer) head() {
	h := w.w.Header()
	h["Content-Type"] = sseType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
}

// begin sends the head of a stream that stays open.
func (w *writer) begin() {
	w.stay()
	w.w.WriteHeader(http.StatusOK)
}

// stay takes the limits for reading off. Reading is over; a server's ReadTimeout would otherwise look like the client's end.
func (w *writer) stay() {
	if w.reads != nil {
		_ = w.reads.SetReadDeadline(time.Time{}) // where there is none, there is nothing to clear
	}
}

// whole sends a response whose end is known: its length is said, so that nothing has to be written after it, and a flush does not
// make it chunked. It is flushed all the same: outer middleware may keep the handler from returning. The deadline stays, for some
// middleware writes only when the handler has returned.
func (w *writer) whole(status int, body []byte) error {
	w.w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	waits := status >= http.StatusBadRequest && w.compressed()
	w.w.WriteHeader(status)
	if waits {
		return w.write(body)
	}
	return w.sendLast(body)
}

// compressed reports whether a middleware around shows that it may compress. An answer without a body, and an error, must not be flushed
// through one: echo's would leave a compressed body without an end, gin-contrib's would mix the two.
func (w *writer) compressed() bool {
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

// empty sends a response without a body.
func (w *writer) empty(status int) {
	if status != http.StatusNoContent { // which has no length
		w.w.Header()["Content-Length"] = noLength
	}
	waits := w.compressed()
	w.w.WriteHeader(status)
	w.limit()
	if !waits {
		_ = w.flush() // the client may be gone
	}
}

// json sends a whole JSON answer.
func (w *writer) json(status int, body []byte) error {
	w.w.Header()["Content-Type"] = jsonType
	return w.whole(status, body)
}

// send writes and flushes; where nothing can be flushed, it leaves with the end of the handler. The deadline is rolled forward for
// each part, so that a stream may last as long as it likes and a reader that has stopped is noticed. It is lifted when all has
// left: HTTP/2 ends a stream whose deadline passes also where nothing is being written.
func (w *writer) send(piece []byte) error {
	err := w.sendLast(piece)
	if err == nil {
		w.lift()
	}
	return err
}

// sendLast is send before the handler returns: what ends the response is written after that, under the same deadline.
func (w *writer) sendLast(piece []byte) error {
	if err := w.write(piece); err != nil {
		return err
	}
	return w.flush()
}

func (w *writer) write(piece []byte) error {
	for len(piece) > 0 {
		part := piece[:min(len(piece), maxPiece)]
		piece = piece[len(part):]
		w.limit()
		n, err := w.w.Write(part)
		w.took = w.took || n > 0
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) flush() error {
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

func (w *writer) lift() {
	if w.timeout > 0 && w.rolls {
		_ = w.deadline(time.Time{}) // it worked before
	}
}

// limit rolls the write deadline forward. Also before the handler returns: what ends the response is written after that.
func (w *writer) limit() {
	if w.timeout > 0 && w.rolls {
		w.rolls = w.deadline(time.Now().Add(w.timeout)) == nil
	}
}
