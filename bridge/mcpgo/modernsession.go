package mcpgo

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// upstreamSession is the interfaces that the sessions of mcp-go's own transport implement.
type upstreamSession interface {
	server.SessionWithLogging
	server.SessionWithTools
	server.SessionWithResources
	server.SessionWithResourceTemplates
	server.SessionWithClientInfo
	server.SessionWithElicitation
	server.SessionWithRoots
	server.SessionWithSampling
	server.SessionWithSubscriptionFilter
	server.SessionWithStreamableHTTPConfig
}

// modernSession is the session of one modern request. It is upstream's session with two differences: it writes notifications itself, as they come,
// and it has an id, which is different for each request.
//
// Upstream does not write to the client's response. Its answer is buffered, and written after all notifications that were sent before.
type modernSession struct {
	upstreamSession

	id     string
	ctx    context.Context // of the request
	outbox outbox

	mu        sync.Mutex // held while something is written to w
	w         http.ResponseWriter
	streaming bool // the response is a stream of events
	ended     bool // nothing more is written
}

func newModernSession(w http.ResponseWriter, ctx context.Context) *modernSession { //nolint:revive // the order of a handler's arguments
	m := &modernSession{id: rand.Text(), ctx: ctx, w: w}
	m.outbox.init(m.send)
	return m
}

func (m *modernSession) SessionID() string { return m.id }

// UpgradeToSSEWhenReceiveNotification waits for room, as that of clientSession does.
func (m *modernSession) UpgradeToSSEWhenReceiveNotification() { m.outbox.reserve() }

// NotificationChannel returns upstream's channel once the request is answered. Notifications to it are lost.
func (m *modernSession) NotificationChannel() chan<- mcp.JSONRPCNotification {
	if ch := m.outbox.channel(); ch != nil {
		return ch
	}
	return m.upstreamSession.NotificationChannel()
}

func (m *modernSession) serve(upstream http.Handler, r *http.Request) {
	buffered := &bufferedResponse{header: http.Header{}}
	defer m.endRequest() // also if a handler panics: what it has sent before is written
	upstream.ServeHTTP(buffered, r.WithContext(context.WithValue(m.ctx, modernSessionKey{}, m)))
	m.flush()
	m.writeAnswer(buffered)
}

// flush returns when all notifications are written that were sent before, and closes the outbox.
func (m *modernSession) flush() {
	m.outbox.flush()
	m.outbox.close()
}

func (m *modernSession) endRequest() {
	m.flush()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
}

// send writes a notification, for the outbox.
func (m *modernSession) send(n mcp.JSONRPCNotification) {
	raw, err := encode(n)
	if err != nil {
		slog.Warn("rejoin: a notification was dropped", "method", n.Method, "error", err) // upstream uses slog.Default too
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.writeEvent(raw)
	}
}

// writeAnswer writes upstream's answer, if there is one: there is none if the request has ended before.
func (m *modernSession) writeAnswer(buffered *bufferedResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	body := bytes.TrimSpace(buffered.body.Bytes())
	switch {
	case buffered.status == 0:
	case !m.streaming:
		maps.Copy(m.w.Header(), buffered.header)
		m.w.WriteHeader(buffered.status)
		_, _ = m.w.Write(buffered.body.Bytes()) // the client may be gone
	case len(body) > 0:
		m.writeEvent(body)
	}
}

// writeEvent writes a message as an event, as upstream does. The caller holds m.mu.
func (m *modernSession) writeEvent(message []byte) {
	if !m.streaming {
		m.streaming = true
		h := m.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Connection", "keep-alive")
		h.Set("Cache-Control", "no-cache")
		m.w.WriteHeader(http.StatusOK)
	}
	event := make([]byte, 0, len(message)+32)
	event = append(append(append(event, "event: message\ndata: "...), message...), "\n\n"...)
	if _, err := m.w.Write(event); err != nil {
		return // rejoin has seen the error, and ends the request
	}
	if f, ok := m.w.(http.Flusher); ok {
		f.Flush()
	}
}

// bufferedResponse is the ResponseWriter that upstream gets.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *bufferedResponse) Header() http.Header { return r.header }

func (r *bufferedResponse) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *bufferedResponse) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}
