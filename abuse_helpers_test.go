package rejoin_test

import (
	"bytes"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// tally is a response that costs little, for tests that ask for very many. It is for requests that are answered at once.
type tally struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *tally) Header() http.Header         { return w.header }
func (w *tally) WriteHeader(status int)      { w.status = status }
func (w *tally) Write(p []byte) (int, error) { return w.body.Write(p) }
func (w *tally) Flush()                      {}

// straight serves a request in the caller's goroutine.
func straight(s *rejoin.Server, r *http.Request) *tally {
	w := &tally{header: http.Header{}}
	s.Serve(w, r)
	return w
}

// openStraight opens a session; "": it was refused.
func openStraight(t *testing.T, s *rejoin.Server, body string) (id string, status int) {
	t.Helper()
	w := straight(s, request(t, http.MethodPost, body))
	return w.header.Get("Mcp-Session-Id"), w.status
}

// ends deletes a session.
func endStraight(t *testing.T, s *rejoin.Server, id string) {
	t.Helper()
	r := inSession(t, id, "")
	r.Method = http.MethodDelete
	require.Equal(t, http.StatusNoContent, straight(s, r).status)
}

// spoken opens a session whose client has sent initialized.
func spoken(t *testing.T, s *rejoin.Server) string {
	t.Helper()
	id, refused := opens(t, s)
	require.Empty(t, refused)
	require.Equal(t, http.StatusAccepted, says(t, s, id, "notifications/initialized"))
	return id
}

// flat requires that the heap has grown by no more than so many bytes.
func flat(t *testing.T, before uint64, most int64, what string) {
	t.Helper()
	grown := int64(heapAlloc()) - int64(before)
	t.Logf("%s: %d KiB more", what, grown>>10)
	require.Less(t, grown, most, what)
}

// rested requires that no more goroutines of the bubble run than when it rested.
func rested(t *testing.T, resting int) {
	t.Helper()
	running := goroutines()
	require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
}

// inUse is what the process holds for objects and stacks.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
