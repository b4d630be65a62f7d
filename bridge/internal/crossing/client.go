package crossing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// clientKey finds, in a handler's context, the client whose request it answers.
type clientKey struct{}

// client is one session's.
type client struct {
	srv    *rejoin.Server
	opened atomic.Pointer[rejoin.Session] // nil: there is none yet
	letGo  chan struct{}                  // closed: its tools return

	notified bool // handlers of its notifications stay

	mu    sync.Mutex
	runs  map[string]bool // tools
	waits chan struct{}   // closed when one begins
}

func newClient(srv *rejoin.Server) *client {
	return &client{srv: srv, letGo: make(chan struct{}), runs: map[string]bool{}, waits: make(chan struct{})}
}

// begun notes that a tool is where it waits.
func (c *client) begun(tool string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[tool] = true
	close(c.waits)
	c.waits = make(chan struct{})
}

// await waits until a tool is.
func (c *client) await(tool string) error {
	for {
		c.mu.Lock()
		runs, change := c.runs[tool], c.waits
		c.mu.Unlock()
		if runs {
			return nil
		}
		if err := wait(change, "the tool "+tool); err != nil {
			return err
		}
	}
}

// wait waits for ch to be closed. In virtual time a minute is over when nothing else can happen.
func wait(ch <-chan struct{}, what string) error {
	t := time.NewTimer(time.Minute)
	defer t.Stop()
	select {
	case <-ch:
		return nil
	case <-t.C:
		return errors.New("waited in vain for " + what)
	}
}

// open opens the session. The app's Open has put it into opened.
func (c *client) open() error {
	a := c.start(http.MethodPost, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{}},"clientInfo":{"name":"crossing","version":"1"}}}`)
	if err := wait(a.done, "initialize"); err != nil {
		return err
	}
	if a.code != http.StatusOK || c.opened.Load() == nil {
		return fmt.Errorf("initialize: status %d: %s", a.code, a.text())
	}
	return nil
}

// post sends a message and waits until it is answered.
func (c *client) post(message string) { <-c.start(http.MethodPost, "", message).done }

// call begins a call of a tool.
func (c *client) call(tool string) *answer {
	return c.start(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`)
}

// start sends a request on a connection of its own.
func (c *client) start(method, cursor, body string) *answer {
	a := &answer{header: http.Header{}, done: make(chan struct{}), grown: make(chan struct{})}
	r := httptest.NewRequestWithContext(context.WithValue(context.Background(), clientKey{}, c), method, "http://example.com/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if s := c.opened.Load(); s != nil {
		r.Header.Set("Mcp-Session-Id", s.ID())
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	if method == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	go func() {
		defer close(a.done)
		c.srv.Serve(a, r)
	}()
	return a
}

// answer is a response that can be read while it is written.
type answer struct {
	header http.Header
	done   chan struct{} // closed when the handler has returned

	mu    sync.Mutex
	code  int
	body  bytes.Buffer
	grown chan struct{} // closed when there is more
}

func (a *answer) Header() http.Header              { return a.header }
func (a *answer) FlushError() error                { return nil }
func (a *answer) SetWriteDeadline(time.Time) error { return nil }

func (a *answer) WriteHeader(code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.code = code
}

func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.grown)
	a.grown = make(chan struct{})
	return a.body.Write(p)
}

func (a *answer) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.body.String()
}

// find waits until the body has what the pattern's group is.
func (a *answer) find(pattern *regexp.Regexp) (string, error) {
	for {
		a.mu.Lock()
		found, grown := pattern.FindSubmatch(a.body.Bytes()), a.grown
		a.mu.Unlock()
		if found != nil {
			return string(found[1]), nil
		}
		if err := wait(grown, pattern.String()); err != nil {
			return "", fmt.Errorf("%w: %s", err, a.text())
		}
	}
}

var (
	questionID = regexp.MustCompile(`"id":([^,]+),"method":"elicitation/create"`)
	eventID    = regexp.MustCompile(`(?m)^id: ?(.+)$`)
)
