package adaptertest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing/synctest"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// wrap returns middleware that wraps the response writer.
func wrap(around func(http.ResponseWriter) http.ResponseWriter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(around(w), r) })
	}
}

// Response writers such as middleware uses.
type (
	plain      struct{ http.ResponseWriter } // offers nothing but the interface
	flushing   struct{ plain }
	erring     struct{ plain }
	unwrapping struct{ plain }
	both       struct{ flushing }
)

func (w erring) FlushError() error                           { return http.NewResponseController(w.ResponseWriter).Flush() }
func (w unwrapping) Unwrap() http.ResponseWriter             { return w.ResponseWriter }
func (w both) Unwrap() http.ResponseWriter                   { return w.ResponseWriter }
func asPlain(w http.ResponseWriter) http.ResponseWriter      { return plain{w} }
func asFlushing(w http.ResponseWriter) http.ResponseWriter   { return flushing{plain{w}} }
func asErring(w http.ResponseWriter) http.ResponseWriter     { return erring{plain{w}} }
func asUnwrapping(w http.ResponseWriter) http.ResponseWriter { return unwrapping{plain{w}} }
func asBoth(w http.ResponseWriter) http.ResponseWriter       { return both{flushing{plain{w}}} }

// Flush does nothing if the next writer has no Flush, as in most middleware.
func (w flushing) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// progressApp is an app whose tools report progress at once, and return after a minute.
func progressApp() rejoin.App {
	return app(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		_ = rejoin.HandleFromContext(ctx).Progress(1, 0, "")
		elapse(time.Minute)
		return "done", nil
	})
}

// The client gets the first event before any time has passed, however outer middleware wraps the response writer.
func flush(e *exam) {
	for name, mw := range map[string][]func(http.Handler) http.Handler{
		"nothing":                             nil,
		"only Flush":                          {wrap(asFlushing)},
		"only FlushError":                     {wrap(asErring)},
		"only Unwrap":                         {wrap(asUnwrapping)},
		"Flush and Unwrap":                    {wrap(asBoth)},
		"only Unwrap around only Flush":       {wrap(asFlushing), wrap(asUnwrapping)},
		"Flush and Unwrap around only Unwrap": {wrap(asUnwrapping), wrap(asBoth)},
	} {
		c := e.start(progressApp(), rejointest.Config{Handler: e.mount("/mcp", mw...)})
		began := time.Now()
		call, listening := c.CallTool("x", nil), c.Listen()
		if n := len(call.Messages()); n != 1 {
			e.Errorf("behind a middleware that offers %s: %d messages came at once, not 1", name, n)
		}
		if n := len(listening.IDs()); n != 1 {
			e.Errorf("behind a middleware that offers %s: the standalone stream did not begin at once", name)
		}
		if d := time.Since(began); d != 0 {
			e.Errorf("behind a middleware that offers %s: it took %v", name, d)
		}
		if got := string(call.Result()); got != `"done"` {
			e.Errorf("behind a middleware that offers %s: the result is %s", name, got)
		}
		for _, a := range append(responses(call), responses(listening)...) {
			e.wantStream(a, "behind a middleware that offers "+name)
		}
	}
}

// If the writer can neither flush nor be unwrapped, a POST is answered with plain JSON, a GET is refused, and the reason is logged once.
func buffered(e *exam) {
	var log warnings
	c := e.start(progressApp(), rejointest.Config{
		Server: rejoin.Config{Logger: log.logger()}, Handler: e.mount("/mcp", wrap(asPlain)),
	})
	for range 2 {
		call := c.CallTool("x", nil)
		if got := string(call.Result()); got != `"done"` || !call.JSON() {
			e.Errorf("a call is not answered with plain JSON:\n%v", call)
		}
		a := e.send(c, request(http.MethodGet, "/mcp", ""))
		if m, ok := parse([]byte(a.body)); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "POST, DELETE" || !ok || m.Error == nil {
			e.Errorf("GET: %+v, not 405 with Allow: POST, DELETE", a)
		}
	}
	want := 1
	if e.across { // each process has such a middleware
		want = 2
	}
	if lines := log.lines(); len(lines) != want {
		e.Errorf("%d lines in the log, not %d: %q", len(lines), want, lines)
	}
}

// The time-outs of an http.Server limit requests, but neither streams nor tools.
func timeOuts(e *exam) {
	for name, policy := range map[string]rejoin.Policy{"Auto": {}, "SSE": {Mode: rejoin.ModeSSE}, "JSON": {Mode: rejoin.ModeJSON}} {
		c := e.start(app(func(ctx context.Context, _ *rejoin.Request) (any, error) {
			elapse(time.Minute)
			return "done", nil
		}), rejointest.Config{
			Server: rejoin.Config{Policy: policy}, Handler: e.mount("/mcp"),
			HTTP: func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = time.Second, time.Second },
		})
		listening, call := c.Listen(), c.CallTool("x", nil)
		elapse(time.Minute - time.Nanosecond)
		if listening.Open() != 1 || call.Open() != 1 {
			e.Errorf("mode %s: a minute later the standalone stream has %d connections, and the call %d, not 1", name, listening.Open(), call.Open())
		}
		elapse(time.Nanosecond)
		synctest.Wait()
		if n := len(call.Messages()); n != 1 {
			e.Errorf("mode %s: the call brought %d messages, not its response alone:\n%v", name, n, call)
		}
		elapse(time.Minute)
		if listening.Open() != 1 {
			e.Errorf("mode %s: the standalone stream was cut:\n%v", name, listening)
		}
	}
}

// warnings is a logger that records warnings and errors, and prints nothing.
type warnings struct {
	slog.Handler
	mu   sync.Mutex
	text []string
}

func (w *warnings) logger() *slog.Logger { return slog.New(w) }

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, r.Message)
	return nil
}

func (w *warnings) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text
}
