package kit

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/rejoin-mcp/rejoin"
)

// Response is what a handler writes that is called without a network. Its methods may be called while the handler runs.
type Response struct {
	Mu      sync.Mutex
	Head    http.Header
	Status  int
	Body    strings.Builder
	Flushed int // bytes of Body
	Ended   bool
}

func (w *Response) Header() http.Header { return w.Head }

func (w *Response) WriteHeader(status int) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Status = status
}

func (w *Response) Write(p []byte) (int, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Body.Write(p)
}

func (w *Response) Flush() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Flushed = w.Body.Len()
}

// Summary is a line about the response, as Summaries has for a connection. Its last word is ended or open: whether the handler has returned.
// It waits until all goroutines of the bubble are blocked.
func (w *Response) Summary() string {
	synctest.Wait()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.Status == 0 {
		return "open"
	}
	kind := ""
	if w.Head.Get("Content-Type") == "text/event-stream" {
		kind = "Content-Type: text/event-stream"
	}
	end := " open"
	if w.Ended {
		end = " ended"
	}
	return ResponseSummary(fmt.Sprintf("HTTP/1.1 %d\r\n%s\r\n\r\n%s", w.Status, kind, w.Body.String())) + end
}

// Serve serves a request in a goroutine of its own, without a network. It returns when all goroutines of the bubble are blocked.
func Serve(s *rejoin.Server, r *http.Request) *Response {
	w := &Response{Head: http.Header{}}
	go func() {
		s.Serve(w, r)
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Ended = true
	}()
	synctest.Wait()
	return w
}
