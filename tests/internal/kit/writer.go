package kit

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// ReaderFunc makes a reader of a function.
type ReaderFunc func([]byte) (int, error)

func (f ReaderFunc) Read(p []byte) (int, error) { return f(p) }

// CheckedWriter fails the test if a goroutine other than Owner uses it, or if it is used after the handler has returned (Over).
type CheckedWriter struct {
	http.ResponseWriter
	T     *testing.T
	Owner string
	Mu    sync.Mutex
	Over  bool
}

func (w *CheckedWriter) check(what string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if g := Goroutine(); g != w.Owner {
		w.T.Errorf("%s by goroutine %s, and not by %s, which serves the request", what, g, w.Owner)
	}
	if w.Over {
		w.T.Errorf("%s after the handler has returned", what)
	}
}

func (w *CheckedWriter) Header() http.Header { w.check("Header"); return w.ResponseWriter.Header() }

func (w *CheckedWriter) WriteHeader(s int) { w.check("WriteHeader"); w.ResponseWriter.WriteHeader(s) }

func (w *CheckedWriter) Write(p []byte) (int, error) {
	w.check("Write")
	return w.ResponseWriter.Write(p)
}

func (w *CheckedWriter) Flush() { w.check("Flush"); w.ResponseWriter.(http.Flusher).Flush() }

func (w *CheckedWriter) SetWriteDeadline(d time.Time) error {
	w.check("SetWriteDeadline")
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(d)
}

// BrokenWriter takes the header, and fails at the first byte of the body.
type BrokenWriter struct{ Response }

func (w *BrokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// Buffering is a middleware that buffers whole responses: while On, the server sees a writer that cannot flush.
type Buffering struct{ On bool }

// Handler is the server behind the middleware.
func (b *Buffering) Handler(s *rejoin.Server) http.Handler {
	return b.Around(http.HandlerFunc(s.Serve))
}

// Around is a handler behind the middleware.
func (b *Buffering) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.On {
			w = struct{ http.ResponseWriter }{w}
		}
		next.ServeHTTP(w, r)
	})
}

// Holding buffers a whole response and claims that it can flush. gin-contrib's timeout does that: it embeds gin's writer, whose Flush sends only the
// head. Size counts what has gone through, as gin's does.
type Holding struct {
	http.ResponseWriter
	buf bytes.Buffer
}

func (h *Holding) Write(p []byte) (int, error) { return h.buf.Write(p) }
func (h *Holding) Flush()                      { h.ResponseWriter.(http.Flusher).Flush() }
func (h *Holding) Size() int                   { return 0 }

// HoldBack is such a middleware.
func HoldBack(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := &Holding{ResponseWriter: w}
		next.ServeHTTP(h, r)
		_, _ = w.Write(h.buf.Bytes())
	})
}
