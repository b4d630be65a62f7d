package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// server is a real one, whose tool "job" does what a test tells it to.
type server struct {
	*rejoin.Server
	t      *testing.T
	url    string
	steps  chan func(h *rejoin.Handle)
	ended  chan error // why the tool's context has
	opened chan *rejoin.Session

	mu       sync.Mutex
	requests []*http.Request // all that came
	gate     chan struct{}   // a poll waits for it
	refusal  int             // of a poll
	offers   string          // what the server takes for the client's capabilities; "": what it says
}

// opened is an app that tells which sessions there are.
type opened struct {
	rejoin.ModernApp

	sessions chan *rejoin.Session
}

func (o opened) Open(r *http.Request, s *rejoin.Session, state []byte) (rejoin.AppSession, error) {
	o.sessions <- s
	return o.ModernApp.Open(r, s, state)
}

// serve starts a server of the legacy era, in which calls are polled.
func serve(t *testing.T) *server {
	t.Helper()
	return serveEras(t, rejoin.EraLegacy)
}

func serveEras(t *testing.T, eras rejoin.Eras) *server {
	t.Helper()
	s := &server{t: t, steps: make(chan func(*rejoin.Handle)), ended: make(chan error, 1)}
	info := rejoin.Info{Name: "test", Version: "1", Capabilities: map[string]any{"tools": struct{}{}}}
	var err error
	own := rejoin.NewApp(info, s.answer).(rejoin.ModernApp)
	app := opened{own, make(chan *rejoin.Session, 8)}
	s.opened = app.sessions
	s.Server, err = rejoin.NewServer(app, rejoin.Config{
		Eras:   eras,
		Tasks:  rejoin.Tasks{PollInterval: 50 * time.Millisecond},
		Policy: rejoin.Policy{StreamAfter: time.Hour}, // only what the tool says makes a stream: the trace is always the same
	})
	require.NoError(t, err)
	h := stdadapter.New(s.Server)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Clone(context.Background()))
		gate, refusal, offers := s.gate, s.refusal, s.offers
		s.mu.Unlock()
		if body, err := io.ReadAll(r.Body); err == nil && offers != "" {
			body = bytes.Replace(body, []byte(`"capabilities":{}`), []byte(`"capabilities":`+offers), 1)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		} else {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		poll := r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "tasks/get"
		if gate != nil && poll {
			<-gate
		}
		if refusal != 0 && poll {
			http.Error(w, "no", refusal)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		web.CloseClientConnections()
		web.Close()
	})
	s.url = web.URL + "/mcp"
	return s
}

// hold keeps polls waiting until open is called.
func (s *server) hold() (open func()) {
	gate := make(chan struct{})
	s.mu.Lock()
	s.gate = gate
	s.mu.Unlock()
	open = sync.OnceFunc(func() { close(gate) })
	s.t.Cleanup(open)
	return open
}

// refuse answers polls with that status; 0: no more.
func (s *server) refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = status
}

func (s *server) seen() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// do lets the tool do a step, and returns when it has.
func (s *server) do(step func(h *rejoin.Handle)) {
	s.t.Helper()
	done := make(chan struct{})
	select {
	case s.steps <- func(h *rejoin.Handle) { step(h); close(done) }:
	case <-time.After(patience):
		require.FailNow(s.t, "nobody calls the tool")
	}
	select {
	case <-done:
	case <-time.After(patience):
		require.FailNow(s.t, "the step does not end")
	}
}

func (s *server) progress(n int) {
	s.t.Helper()
	s.do(func(h *rejoin.Handle) { require.NoError(s.t, h.Progress(float64(n), 4, "")) })
}

// finish lets the tool return.
func (s *server) finish() { close(s.steps) }

func text(text string) map[string]any {
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}
}

func (s *server) answer(ctx context.Context, r *rejoin.Request) (any, error) {
	var params struct {
		Name      string
		Cursor    string
		Arguments json.RawMessage
	}
	if err := r.Bind(&params); err != nil {
		return nil, err
	}
	switch {
	case r.Method == "tools/list" && params.Cursor == "":
		return json.RawMessage(`{"tools":[{"name":"job","description":"Does what it is told to.\nAnd more."}],"nextCursor":"2"}`), nil
	case r.Method == "tools/list":
		return json.RawMessage(`{"tools":[{"name":"echo","title":"Says \u001b[2Jit again"}]}`), nil
	case params.Name == "echo":
		return text(string(params.Arguments)), nil
	case params.Name == "fails":
		return map[string]any{"isError": true, "content": text("it did not work")["content"]}, nil
	case params.Name == "job":
		return s.job(ctx)
	}
	return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "unknown tool %q", params.Name)
}

func (s *server) job(ctx context.Context) (any, error) {
	for {
		select {
		case step, more := <-s.steps:
			if !more {
				return text("the job is done"), nil
			}
			step(rejoin.HandleFromContext(ctx))
		case <-ctx.Done():
			s.ended <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}
	}
}

// cancelled waits until the tool's context has ended.
func (s *server) cancelled() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		require.FailNow(s.t, "the tool is not cancelled")
		return nil
	}
}

// sessions is how many there are.
func (s *server) sessions() (n int) {
	for range s.Sessions() {
		n++
	}
	return n
}
