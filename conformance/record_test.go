package conformance_test

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// record is a middleware that records the requests and responses of a server, for clients that run in processes of their own.
func (w *wire) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		e := &exchange{method: r.Method, header: r.Header.Clone(), sent: time.Now()}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		e.request = string(body)
		w.update(func() {
			w.exchanges = append(w.exchanges, e)
			w.leaving = w.leaving || r.Method == http.MethodDelete
		})
		to := &recorder{rw, w, e, false}
		whole := false
		defer func() {
			gone := to.failed || r.Context().Err() != nil
			if whole || gone { // a proxy may also break off a response that its client has left
				w.update(func() { e.ended, e.endedAt, e.left = true, time.Now(), gone || w.leaving })
			}
		}()
		next.ServeHTTP(to, r)
		whole = true
	})
}

// recorder copies a response as it is written.
type recorder struct {
	http.ResponseWriter
	w      *wire
	e      *exchange
	failed bool // the client has left
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	r.head(status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.head(http.StatusOK)
	r.w.update(func() { r.e.body = append(r.e.body, p...) })
	n, err := r.ResponseWriter.Write(p)
	r.failed = r.failed || err != nil
	return n, err
}

// head records the head of the response, once.
func (r *recorder) head(status int) {
	r.w.update(func() {
		if r.e.status == 0 {
			r.e.status, r.e.answer, r.e.answered = status, r.Header().Clone(), time.Now()
		}
	})
}
