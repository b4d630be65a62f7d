package kit

import (
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.On {
			w = struct{ http.ResponseWriter }{w}
		}
		s.Serve(w, r)
	})
}
