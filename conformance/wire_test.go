package conformance_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is the deadline of everything that a test waits for.
const patience = time.Minute

// wire records everything between a client and its server, as the client's http.RoundTripper or as a middleware of the server (record).
type wire struct {
	next http.RoundTripper

	mu        sync.Mutex
	exchanges []*exchange
	leaving   bool          // the client has sent DELETE
	changed   chan struct{} // closed at each change
}

// exchange is one request with its response. The wire's mutex guards what changes.
type exchange struct {
	method  string
	header  http.Header // of the request
	request string
	sent    time.Time

	status   int // 0: no response yet
	answer   http.Header
	answered time.Time
	body     []byte
	ended    bool // it has ended cleanly
	endedAt  time.Time
	left     bool // the client has ended it
}

func newWire(next http.RoundTripper) *wire {
	return &wire{next: next, changed: make(chan struct{})}
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	e := &exchange{method: r.Method, header: r.Header.Clone(), sent: time.Now()}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		e.request = string(body)
	}
	w.update(func() { w.exchanges = append(w.exchanges, e) })
	res, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.update(func() { e.status, e.answer, e.answered = res.StatusCode, res.Header.Clone(), time.Now() })
	res.Body = &tap{res.Body, w, e}
	return res, nil
}

// update changes something and wakes those that wait.
func (w *wire) update(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// tap copies a body as it is read.
type tap struct {
	io.ReadCloser
	w *wire
	e *exchange
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.w.update(func() {
		t.e.body = append(t.e.body, p[:n]...)
		if err == io.EOF && !t.e.ended {
			t.e.ended, t.e.endedAt = true, time.Now()
		}
	})
	return n, err
}

// all returns copies of the exchanges so far that match, in the order of their requests; match nil: all of them.
func (w *wire) all(match func(*exchange) bool) []exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []exchange
	for _, e := range w.exchanges {
		if match == nil || match(e) {
			c := *e
			c.body = slices.Clone(e.body)
			found = append(found, c)
		}
	}
	return found
}

// wait returns when at least n exchanges match.
func (w *wire) wait(t *testing.T, n int, what string, match func(*exchange) bool) []exchange {
	t.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if found := w.all(match); len(found) >= n {
			return found
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%d times wanted and %d seen: %s", n, len(w.all(match)), what)
		}
	}
}

// standalone matches the GETs of the standalone stream that were answered with a stream. The first one has no cursor. The others are
// identified by the stream's name, with which the cursor begins.
func (w *wire) standalone() func(*exchange) bool {
	name := ""
	return func(e *exchange) bool {
		if e.method != http.MethodGet || e.status != http.StatusOK {
			return false
		}
		if e.cursor() == "" {
			if list := events(e.body); len(list) > 0 {
				name = streamName(list[0].id)
			}
			return true
		}
		return streamName(e.cursor()) == name
	}
}

func (e *exchange) cursor() string { return e.header.Get("Last-Event-ID") }

func (e *exchange) contentType() string { return e.answer.Get("Content-Type") }

// rpcMethod is the method of the message in the request.
func (e *exchange) rpcMethod() string { return messageOf(e.request).Method }

// calls reports whether the exchange is a POST of that method.
func (e *exchange) calls(method string) bool {
	return e.method == http.MethodPost && e.rpcMethod() == method
}

// message has the parts of a JSON-RPC message that the tests use.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func messageOf(data string) (m message) {
	_ = json.Unmarshal([]byte(data), &m) // without a method if it is not a message
	return m
}

func (m message) isResponse() bool { return m.Result != nil || m.Error != nil }

// event is one block of a stream, complete or not, that is not only a comment.
type event struct {
	id, data, retry     string
	hasData, isComplete bool
}

// events parses a stream. It knows only what rejoin writes: lines end with \n, and ": " follows the name of a field.
func events(body []byte) (list []event) {
	for block := range strings.SplitSeq(string(body), "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "id":
				e.id = value
			case "retry":
				e.retry = value
			case "data":
				e.data, e.hasData = value, true
			}
		}
		if e != (event{}) {
			e.isComplete = true
			list = append(list, e)
		}
	}
	if len(list) > 0 && !bytes.HasSuffix(body, []byte("\n\n")) {
		list[len(list)-1].isComplete = false
	}
	return list
}

// streamName is the part that all event ids of a stream share.
func streamName(id string) string {
	name, _, _ := strings.Cut(id, ".")
	return name
}

// answered matches a stream with a response on it. Unless open, the stream must also have ended.
func answered(open bool) func(*exchange) bool {
	return func(e *exchange) bool {
		return e.contentType() == "text/event-stream" && (open || e.ended) && slices.ContainsFunc(events(e.body),
			func(event event) bool { return event.isComplete && messageOf(event.data).isResponse() })
	}
}

// requireCleanStreams checks each stream of a client that can poll: it begins with a primer; no id was used before (official clients count a
// connection without a new id as a failure); it ends after the response; and if it ended without the response, it had told the client when to
// poll.
func requireCleanStreams(t *testing.T, w *wire) {
	t.Helper()
	w.wait(t, len(w.all(answered(true))), "stream that ended after its response", answered(false))
	ids := map[string]bool{}
	for _, e := range w.all(func(e *exchange) bool { return e.contentType() == "text/event-stream" && len(e.body) > 0 }) {
		list := events(e.body)
		first, last := list[0], list[len(list)-1]
		require.True(t, first.id != "" && first.retry != "" && first.hasData && first.data == "",
			"%s: the first event is the primer, not %+v", e.method, first)
		for _, event := range list {
			if event.id != "" && event.isComplete {
				require.False(t, ids[event.id], "event id %s was used twice", event.id)
				ids[event.id] = true
			}
		}
		if e.ended && !e.left && !messageOf(last.data).isResponse() {
			require.True(t, last.isComplete, "the stream ended inside an event: %q", e.body)
			require.NotEmpty(t, last.retry, "a client that is let go is told when to come back: %q", e.body)
		}
	}
}
