package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
	"github.com/rejoin-mcp/rejoin/bench/internal/proc"
	"github.com/rejoin-mcp/rejoin/bench/internal/results"
	"github.com/rejoin-mcp/rejoin/bench/internal/subject"
)

// handlers measures tool calls without net/http around the handler.
func handlers() []Scenario {
	return []Scenario{{
		ID:    "handler",
		Title: "tools/call, the handler alone",
		Text: "Calls (`tools/call` of `echo`) go to the handler itself, one after the other, with a `ResponseWriter` that costs nothing, in a process of its own with one " +
			"CPU. So only the library's work is measured. The cost of making the request is measured with an empty handler, and subtracted. Every answer is compared.",
		Metrics: []results.Metric{
			{Key: "ns", Title: "ns/call", Less: true},
			{Key: "allocs", Title: "allocs/call", Less: true},
			{Key: "alloc bytes", Title: "B alloc/call", Less: true},
		},
		Subjects: []string{
			"bare-json", "rejoin-json", "rejoin-chi", "rejoin-echo", "rejoin-gin",
			"gosdk-json", "gosdk-json-raw", "rejoin-gosdk-json", "rejoin-gosdk-json-raw",
			"mcpgo-json", "rejoin-mcpgo-json",
			"bare-sse", "bare-sse-store", "rejoin-sse", "gosdk-sse-store", "rejoin-gosdk-sse", "mcpgo-sse-store", "rejoin-mcpgo-sse",
		},
		Rounds: 3,
		Run: func(ctx context.Context, env *Env, name string) (map[string]float64, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			var values map[string]float64
			err := proc.Load(ctx, env.Server, handlerJob{Subject: name, Warm: Pick(env, 500, 20), Count: Pick(env, 2000, 20)}, &values)
			return values, err
		},
	}}
}

// handlerJob calls a subject's handler in the loading process itself.
type handlerJob struct {
	Subject     string
	Warm, Count int
}

var _ = proc.Work(func(_ context.Context, j handlerJob) (map[string]float64, error) { return j.run() })

func (j handlerJob) run() (map[string]float64, error) {
	s, ok := subject.Find(j.Subject)
	if !ok {
		return nil, fmt.Errorf("no subject is named %q", j.Subject)
	}
	h, err := s.New(subject.Options{Gate: subject.NewGate()})
	if err != nil {
		return nil, err
	}
	d, err := newDirect(h)
	if err != nil {
		return nil, err
	}
	whole, err := d.measure(j.Warm, j.Count)
	if err != nil {
		return nil, err
	}
	d.handler, d.check = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), false
	empty, err := d.measure(j.Warm, j.Count)
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"ns": max(0, whole.ns-empty.ns), "allocs": max(0, whole.allocs-empty.allocs), "alloc bytes": max(0, whole.bytes-empty.bytes),
	}, nil
}

// direct calls a handler without a server.
type direct struct {
	handler http.Handler
	header  http.Header // of each request
	body    load.Template
	want    [2]load.Template
	number  int
	check   bool
	w       cheapWriter
	r       bytes.Reader
}

// newDirect opens a session with the handler.
func newDirect(h http.Handler) (*direct, error) {
	d := &direct{handler: h, number: load.Number, check: true, w: cheapWriter{header: http.Header{}}}
	d.header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}
	if err := d.serve([]byte(load.Initialize)); err != nil {
		return nil, err
	}
	if d.w.status != http.StatusOK {
		return nil, fmt.Errorf("initialize: status %d: %.200s", d.w.status, d.w.body)
	}
	d.header.Set("Mcp-Protocol-Version", load.Protocol)
	if session := d.w.header.Get("Mcp-Session-Id"); session != "" {
		d.header.Set("Mcp-Session-Id", session)
	}
	if err := d.serve([]byte(load.Initialized)); err != nil {
		return nil, err
	}
	if d.w.status != http.StatusAccepted {
		return nil, fmt.Errorf("initialized: status %d: %.200s", d.w.status, d.w.body)
	}
	d.body = load.NewTemplate(load.Call(load.Number, subject.Echo, fmt.Sprintf("{"+callText+"}", load.Number)))
	d.want = answerTo(load.Number)
	return d, nil
}

// serve calls the handler with one request, which has the fields that net/http's server sets.
func (d *direct) serve(body []byte) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.r.Reset(body)
	d.w.reset()
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: subject.Path}, RequestURI: subject.Path, Host: "127.0.0.1", RemoteAddr: "127.0.0.1:1",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: d.header, Body: io.NopCloser(&d.r), ContentLength: int64(len(body)),
	}).WithContext(ctx)
	d.handler.ServeHTTP(&d.w, r)
	if !d.check || d.w.status != 0 {
		return nil
	}
	return errors.New("no answer")
}

func (d *direct) call() error {
	d.number++
	d.body.Set(d.number)
	if err := d.serve(d.body.Raw); err != nil {
		return err
	}
	for _, want := range d.want {
		want.Set(d.number)
		if d.check && !bytes.Contains(d.w.body, want.Raw) {
			return fmt.Errorf("call %d: status %d: %.300s", d.number, d.w.status, d.w.body)
		}
	}
	return nil
}

// cost is the cost of one call.
type cost struct{ ns, allocs, bytes float64 }

func (d *direct) measure(warm, count int) (cost, error) {
	for range warm {
		if err := d.call(); err != nil {
			return cost{}, err
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for range count {
		if err := d.call(); err != nil {
			return cost{}, err
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	n := float64(count)
	return cost{float64(took.Nanoseconds()) / n, float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n}, nil
}

// cheapWriter keeps what was written until the next request. It has all methods of net/http's own writer that the subjects use.
type cheapWriter struct {
	header http.Header
	status int
	body   []byte
}

func (w *cheapWriter) reset() {
	clear(w.header)
	w.status = 0
	w.body = w.body[:0]
}

// Header implements http.ResponseWriter.
func (w *cheapWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *cheapWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *cheapWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, p...)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (w *cheapWriter) WriteString(s string) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, s...)
	return len(s), nil
}

// Flush implements http.Flusher.
func (w *cheapWriter) Flush() { w.WriteHeader(http.StatusOK) }

// FlushError is what http.ResponseController prefers to Flush.
func (w *cheapWriter) FlushError() error {
	w.Flush()
	return nil
}

// SetReadDeadline is for http.ResponseController.
func (w *cheapWriter) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is for http.ResponseController.
func (w *cheapWriter) SetWriteDeadline(time.Time) error { return nil }

// EnableFullDuplex is for http.ResponseController.
func (w *cheapWriter) EnableFullDuplex() error { return nil }
