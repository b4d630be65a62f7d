package rejoin

import (
	"net/http"
	"strconv"
	"time"
)

// writer is the only place that touches an http.ResponseWriter while a connection is served. Only the goroutine inside Serve
// uses it.
type writer struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	flushes []func() error
	timeout time.Duration
	rolls   bool // write deadlines work
	took    bool // it has taken something: some of that may have left, whatever it says later
}

// newWriter probes how w can flush. A writer may offer Flush and yet send nothing, when what it wraps offers none but can be
// unwrapped further (gin's behind a middleware that only has Unwrap) or offers only FlushError: so the chain is walked to its end, and
// each writer is flushed that the one above cannot have flushed. Where the last one cannot be flushed none is: echo's would panic.
func newWriter(w http.ResponseWriter, timeout time.Duration) writer {
	out := writer{w: w, rc: http.NewResponseController(w), timeout: timeout, rolls: true}
	reached := false
	for at := w; at != nil; {
		flush := flusherOf(at)
		_, common := at.(http.Flusher)
		if flush != nil && (!reached || !common) {
			out.flushes = append(out.flushes, flush)
		}
		reached = flush != nil
		u, ok := at.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		at = u.Unwrap()
	}
	if !reached {
		out.flushes = nil
	}
	return out
}

func flusherOf(w http.ResponseWriter) func() error {
	switch f := w.(type) {
	case interface{ FlushError() error }:
		return f.FlushError
	case http.Flusher:
		return func() error { f.Flush(); return nil }
	}
	return nil
}

func (w *writer) canFlush() bool { return len(w.flushes) > 0 }

// unbound takes the server's WriteTimeout off a request that waits for its answer, and reports whether it could: that limit counts
// from the request's arrival, and HTTP/2 ends the stream when it is over.
func (w *writer) unbound() bool { return w.rc.SetWriteDeadline(time.Time{}) == nil }

// head sends the head of a stream. What proxies and compressors go by is said before the first flush.
func (w *writer) head() {
	// Reading is over; a server's ReadTimeout would otherwise look like the client's end.
	_ = w.rc.SetReadDeadline(time.Time{}) // where there is none, there is nothing to clear
	h := w.w.Header()
	h["Content-Type"] = sseType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	w.w.WriteHeader(http.StatusOK)
}

var (
	sseType     = []string{"text/event-stream"}
	jsonType    = []string{"application/json"}
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
)

// json sends a whole JSON answer and flushes it: outer middleware may keep the handler from returning. Its length is said, so
// that the flush does not make it chunked.
func (w *writer) json(status int, body []byte) error {
	h := w.w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.w.WriteHeader(status)
	err := w.send(body)
	w.limit() // some middleware writes only when the handler has returned
	return err
}

// send writes and flushes; where nothing can be flushed, it leaves with the end of the handler. The deadline is rolled forward for
// each part, so that a stream may last as long as it likes and a reader that has stopped is noticed. It is lifted when all has
// left: HTTP/2 ends a stream whose deadline passes also where nothing is being written.
func (w *writer) send(piece []byte) error {
	err := w.write(piece)
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		w.lift()
	}
	return err
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
	for _, flush := range w.flushes {
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) lift() {
	if w.timeout > 0 && w.rolls {
		_ = w.rc.SetWriteDeadline(time.Time{}) // it worked before
	}
}

// limit rolls the write deadline forward. Also before the handler returns: what ends the response is written after that.
func (w *writer) limit() {
	if w.timeout > 0 && w.rolls {
		w.rolls = w.rc.SetWriteDeadline(time.Now().Add(w.timeout)) == nil
	}
}
