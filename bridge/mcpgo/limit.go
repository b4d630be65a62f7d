package mcpgo

import (
	"runtime/debug"
	"sync"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
)

// backlog is the notifications of a session that wait for their handlers, which run one by one, in the order in which the notifications came.
type backlog struct {
	mu    sync.Mutex
	queue []waiting
	bytes int  // in the queue
	busy  bool // a goroutine handles what is in it
	over  bool
	told  bool // the operator knows that something was dropped
}

type waiting struct {
	*rejoin.Notification

	size int
}

// add puts a notification into the queue. begin: a goroutine has to begin; dropped: it is the first for which there is no room.
func (b *backlog) add(m *rejoin.Notification) (begin, dropped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return false, false
	case len(b.queue) >= bounds.Notes || b.bytes >= bounds.NoteBytes:
		dropped, b.told = !b.told, true
		return false, dropped
	}
	b.queue = append(b.queue, waiting{m, bounds.NoteSize(m.Raw(), m.Header())})
	b.bytes += b.queue[len(b.queue)-1].size
	begin, b.busy = !b.busy, true
	return begin, false
}

// next takes the oldest. Nil: there is none, and the goroutine is over.
func (b *backlog) next() *rejoin.Notification {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.queue, b.busy = nil, false
		return nil
	}
	m := b.queue[0]
	b.queue[0] = waiting{}
	b.queue = b.queue[1:]
	b.bytes -= m.size
	return m.Notification
}

// end drops what waits, and takes no more.
func (b *backlog) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue, b.bytes, b.over = nil, 0, true
}

// Notification delivers with the session's own line: a notification has no stream.
func (n *session) Notification(m *rejoin.Notification) {
	begin, dropped := n.notes.add(m)
	if begin {
		go n.handleNotes()
	}
	if dropped {
		n.s.Logger().Warn("rejoin: notifications of the client are dropped: too many wait for their handlers", "method", m.Method())
	}
}

func (n *session) handleNotes() {
	deepen(false)
	done := false
	defer func() {
		if !done { // a handler has called runtime.Goexit
			go n.handleNotes()
		}
	}()
	for m := n.notes.next(); m != nil; m = n.notes.next() {
		n.handleNote(m)
	}
	done = true
}

func (n *session) handleNote(m *rejoin.Notification) {
	defer func() {
		if v := recover(); v != nil {
			n.s.Logger().Error("rejoin: panic in a handler", "method", m.Method(), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	n.app.server.HandleMessage(n.app.context(m.Context(), m.Header(), n.main), m.Raw())
}
