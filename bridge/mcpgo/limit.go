package mcpgo

import (
	"sync"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
	"github.com/rejoin-mcp/rejoin/internal/safe"
	"github.com/rejoin-mcp/rejoin/internal/stack"
)

// backlog is the notifications of a session that wait for their handlers. Handlers run one by one, in the order of arrival.
type backlog struct {
	mu      sync.Mutex
	queue   []queued
	bytes   int  // the size of the queue, by bounds.NoteSize
	running bool // a goroutine handles the queue
	closed  bool
	warned  bool // the log says that a notification was dropped
}

type queued struct {
	*rejoin.Notification

	size int
}

// add adds a notification to the queue. start: the caller must start a goroutine for the queue. first: there is no room, for the first time.
func (b *backlog) add(n *rejoin.Notification) (start, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return false, false
	case len(b.queue) >= bounds.Notes || b.bytes >= bounds.NoteBytes:
		first, b.warned = !b.warned, true
		return false, first
	}
	b.queue = append(b.queue, queued{n, bounds.NoteSize(n.Raw(), n.Header())})
	b.bytes += b.queue[len(b.queue)-1].size
	start, b.running = !b.running, true
	return start, false
}

// next removes the oldest notification from the queue and returns it. Nil: the queue is empty, and the goroutine must return.
func (b *backlog) next() *rejoin.Notification {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.queue, b.running = nil, false
		return nil
	}
	first := b.queue[0]
	b.queue[0] = queued{}
	b.queue = b.queue[1:]
	b.bytes -= first.size
	return first.Notification
}

// close drops the queue and all later notifications.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue, b.bytes, b.closed = nil, 0, true
}

// Notification queues a notification. Its handler gets the registered clientSession: a notification has no stream.
func (s *session) Notification(n *rejoin.Notification) {
	start, first := s.backlog.add(n)
	if start {
		go s.handleNotifications()
	}
	if first {
		s.session.Logger().Warn("rejoin: notifications of the client are dropped: too many wait for their handlers", "method", n.Method())
	}
}

// handleNotifications handles the queue until it is empty.
func (s *session) handleNotifications() {
	stack.To16K(false)
	for n := s.backlog.next(); n != nil; n = s.backlog.next() {
		safe.Run(func() {
			s.app.server.HandleMessage(s.app.context(n.Context(), n.Header(), s.main), n.Raw())
		}, func(what any, stack string) {
			s.logPanic(n.Method(), what, stack)
			if what == safe.ErrGoexit { //nolint:errorlint // safe.Run does not wrap it
				// This goroutine ends, so another one continues.
				go s.handleNotifications()
			}
		})
	}
}
