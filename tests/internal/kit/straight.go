package kit

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// Recorder is a response that needs little memory, for tests with very many requests that are answered at once.
type Recorder struct {
	header http.Header
	Status int
	Body   bytes.Buffer
}

func (w *Recorder) Header() http.Header { return w.header }

func (w *Recorder) WriteHeader(status int) { w.Status = status }

func (w *Recorder) Write(p []byte) (int, error) { return w.Body.Write(p) }

func (w *Recorder) Flush() {}

// ServeNow serves a request in the caller's goroutine, and returns when it is answered.
func ServeNow(s *rejoin.Server, r *http.Request) *Recorder {
	w := &Recorder{header: http.Header{}}
	s.Serve(w, r)
	return w
}

// OpenNow opens a session in the caller's goroutine. The id is "" if it was refused.
func OpenNow(t *testing.T, s *rejoin.Server, body string) (id string, status int) {
	t.Helper()
	w := ServeNow(s, Request(t, http.MethodPost, body))
	return w.header.Get("Mcp-Session-Id"), w.Status
}

// DeleteNow deletes a session in the caller's goroutine.
func DeleteNow(t *testing.T, s *rejoin.Server, id string) {
	t.Helper()
	r := InSession(t, id, "")
	r.Method = http.MethodDelete
	require.Equal(t, http.StatusNoContent, ServeNow(s, r).Status)
}
