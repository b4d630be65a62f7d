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

// upstreamSession is what the sessions of mcp-go's own transport can do.
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

// modernLine is the session of one modern request. It is upstream's, but for the way of notifications, which are written here as they
// come, and for the id, which upstream's sessions have not: each request has one to itself.
//
// Upstream gets no hold on the client's response. What it answers is kept until all that was sent before is written.
type modernLine struct {
	upstreamSession

	id  string
	ctx context.Context // of the request
	out outbox

	mu    sync.Mutex // held for a write
	w     http.ResponseWriter
	begun bool // the response is a stream of events
	ended bool
}

func newModernLine(w http.ResponseWriter, ctx context.Context) *modernLine { //nolint:revive // as handlers have it
	l := &modernLine{id: rand.Text(), ctx: ctx, w: w}
	l.out.init(l.send)
	return l
}

func (l *modernLine) SessionID() string { return l.id }

// UpgradeToSSEWhenReceiveNotification makes room for a notification, as that of a line does.
func (l *modernLine) UpgradeToSSEWhenReceiveNotification() { l.out.expect() }

// NotificationChannel leads nowhere once the request is answered, as upstream's.
func (l *modernLine) NotificationChannel() chan<- mcp.JSONRPCNotification {
	if ch := l.out.channel(); ch != nil {
		return ch
	}
	return l.upstreamSession.NotificationChannel()
}

func (l *modernLine) serve(upstream http.Handler, r *http.Request) {
	kept := &keptAnswer{header: http.Header{}}
	defer l.over() // also where a handler panics: what it sent before goes ahead
	upstream.ServeHTTP(kept, r.WithContext(context.WithValue(l.ctx, modernLineKey{}, l)))
	l.flush()
	l.answer(kept)
}

// flush returns when all is written that was sent before, and takes no more senders.
func (l *modernLine) flush() {
	l.out.flush()
	l.out.end()
}

func (l *modernLine) over() {
	l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// send writes a notification, for the outbox.
func (l *modernLine) send(n mcp.JSONRPCNotification) {
	raw, err := encode(n)
	if err != nil {
		slog.Warn("rejoin: a notification was dropped", "method", n.Method, "error", err) // where upstream would say it
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.event(raw)
	}
}

// answer writes what upstream did. That is nothing where the request has ended before.
func (l *modernLine) answer(kept *keptAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	body := bytes.TrimSpace(kept.body.Bytes())
	switch {
	case kept.status == 0:
	case !l.begun:
		maps.Copy(l.w.Header(), kept.header)
		l.w.WriteHeader(kept.status)
		_, _ = l.w.Write(kept.body.Bytes()) // the client may be gone
	case len(body) > 0:
		l.event(body)
	}
}

// event writes one as upstream does. With the lock.
func (l *modernLine) event(message []byte) {
	if !l.begun {
		l.begun = true
		h := l.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Connection", "keep-alive")
		h.Set("Cache-Control", "no-cache")
		l.w.WriteHeader(http.StatusOK)
	}
	event := make([]byte, 0, len(message)+32)
	event = append(append(append(event, "event: message\ndata: "...), message...), "\n\n"...)
	if _, err := l.w.Write(event); err != nil {
		return // rejoin has noted it, and ends the request
	}
	if f, ok := l.w.(http.Flusher); ok {
		f.Flush()
	}
}

// keptAnswer is the response that upstream writes to.
type keptAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *keptAnswer) Header() http.Header { return a.header }

func (a *keptAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *keptAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
