package crossing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// clientKey is the key of the client in the context of its requests, and so of its handlers.
type clientKey struct{}

// client is a client with one session.
type client struct {
	srv     *rejoin.Server
	opened  atomic.Pointer[rejoin.Session] // nil: not opened yet
	release chan struct{}                  // closed to make its tools return

	handlersWait bool // handlers of its notifications run until their contexts end

	task atomic.Value // the id of its task, a string

	mu      sync.Mutex
	leave   []context.CancelCauseFunc // end its modern requests
	started map[string]bool           // the tools that wait
	changed chan struct{}             // closed when started changes
}

func newClient(srv *rejoin.Server) *client {
	return &client{srv: srv, release: make(chan struct{}), started: map[string]bool{}, changed: make(chan struct{})}
}

// toolStarted notes that a tool waits now.
func (c *client) toolStarted(tool string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started[tool] = true
	close(c.changed)
	c.changed = make(chan struct{})
}

// waitStarted waits for toolStarted.
func (c *client) waitStarted(tool string) error {
	for {
		c.mu.Lock()
		started, changed := c.started[tool], c.changed
		c.mu.Unlock()
		if started {
			return nil
		}
		if err := wait(changed, "the tool "+tool); err != nil {
			return err
		}
	}
}

// wait waits until ch is closed. In virtual time its minute only passes when all goroutines are blocked.
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

// open opens the session. The tracked app sets c.opened.
func (c *client) open() error {
	res := c.start(http.MethodPost, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{}},"clientInfo":{"name":"crossing","version":"1"}}}`)
	if err := wait(res.done, "initialize"); err != nil {
		return err
	}
	if res.status != http.StatusOK || c.opened.Load() == nil {
		return fmt.Errorf("initialize: status %d: %s", res.status, res.text())
	}
	return nil
}

// post sends a message and waits until it is answered.
func (c *client) post(message string) { <-c.start(http.MethodPost, "", message).done }

// call starts a call of a tool.
func (c *client) call(tool string) *response {
	return c.start(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`)
}

// start sends a request in a new goroutine.
func (c *client) start(method, cursor, body string) *response {
	var header []string
	if s := c.opened.Load(); s != nil {
		header = append(header, "Mcp-Session-Id", s.ID(), "Mcp-Protocol-Version", "2025-11-25")
	}
	if cursor != "" {
		header = append(header, "Last-Event-ID", cursor)
	}
	if method == http.MethodGet {
		header = append(header, "Accept", "text/event-stream")
	}
	return c.startIn(context.Background(), method, body, header...)
}

// startIn sends a request that ends with a context. header is names and values.
func (c *client) startIn(ctx context.Context, method, body string, header ...string) *response {
	res := &response{header: http.Header{}, done: make(chan struct{}), grown: make(chan struct{})}
	r := httptest.NewRequestWithContext(context.WithValue(ctx, clientKey{}, c), method, "http://example.com/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	go func() {
		defer close(res.done)
		c.srv.Serve(res, r)
	}()
	return res
}

// response is a ResponseWriter whose body can be read while it is written.
type response struct {
	header http.Header
	done   chan struct{} // closed when the handler has returned

	mu     sync.Mutex
	status int
	body   bytes.Buffer
	grown  chan struct{} // closed when body grows
}

func (r *response) Header() http.Header              { return r.header }
func (r *response) FlushError() error                { return nil }
func (r *response) SetWriteDeadline(time.Time) error { return nil }

func (r *response) WriteHeader(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = code
}

func (r *response) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.grown)
	r.grown = make(chan struct{})
	return r.body.Write(p)
}

func (r *response) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.String()
}

// waitFor waits until the body matches a pattern, and returns the first group.
func (r *response) waitFor(pattern *regexp.Regexp) (string, error) {
	for {
		r.mu.Lock()
		found, grown := pattern.FindSubmatch(r.body.Bytes()), r.grown
		r.mu.Unlock()
		if found != nil {
			return string(found[1]), nil
		}
		if err := wait(grown, pattern.String()); err != nil {
			return "", fmt.Errorf("%w: %s", err, r.text())
		}
	}
}

var (
	questionID = regexp.MustCompile(`"id":([^,]+),"method":"elicitation/create"`)
	eventID    = regexp.MustCompile(`(?m)^id: ?(.+)$`)
)
