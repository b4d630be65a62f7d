package mounted

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rejoin-mcp/rejoin"
)

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"t","version":"1"}}}`
	toolsCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{}}}`
)

// Benchmark calls a tool of the endpoint at a path again and again, without a network. Compared with the result for adapters/stdlib, it
// shows what a router and its adapter cost.
func Benchmark(b *testing.B, path string, mount func(*rejoin.Server) http.Handler) {
	caller := NewCaller(b, path, mount)
	b.ReportAllocs()
	for b.Loop() {
		caller.Call()
	}
}

// Caller makes the same call in one session again and again.
type Caller struct {
	tb   testing.TB
	h    http.Handler
	r    *http.Request
	body strings.Reader
	sink sink
}

// NewCaller mounts a server and opens a session.
func NewCaller(tb testing.TB, path string, mount func(*rejoin.Server) http.Handler) *Caller {
	tb.Helper()
	app := rejoin.NewApp(info, func(context.Context, *rejoin.Request) (any, error) { return rejoin.Text("done"), nil })
	s, err := rejoin.NewServer(app, rejoin.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	c := &Caller{tb: tb, h: mount(s), sink: sink{header: http.Header{}}}
	if c.r, err = http.NewRequestWithContext(tb.Context(), http.MethodPost, path, http.NoBody); err != nil {
		tb.Fatal(err)
	}
	c.r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	c.r.Body = io.NopCloser(&c.body)
	c.send(initialize)
	c.r.Header["Mcp-Session-Id"] = c.sink.header["Mcp-Session-Id"]
	c.Call()
	return c
}

// Call makes one call.
func (c *Caller) Call() { c.send(toolsCall) }

func (c *Caller) send(body string) {
	c.body.Reset(body)
	c.r.ContentLength = int64(len(body))
	c.sink = sink{header: http.Header{}}
	c.h.ServeHTTP(&c.sink, c.r)
	if c.sink.status != http.StatusOK {
		c.tb.Fatalf("status %d", c.sink.status)
	}
}

// sink is a response writer that discards the body.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
}

func (s *sink) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return len(p), nil
}

func (s *sink) Flush() { s.WriteHeader(http.StatusOK) }
