package client

import (
	"encoding/json"
	"iter"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// maxQueued bounds how many messages of a call wait for Messages; Config.MaxEventBytes bounds their size. When the queue is full, the
// connection is not read: the server keeps the rest.
const maxQueued = 1024

// Message is a notification of the server. Its memory is the caller's.
type Message struct {
	Method string
	Params json.RawMessage // nil: none
}

// position is a place in a stream: right after the event that has this id. n counts the changes of the id, so that positions can be compared.
type position struct {
	n  int
	id string
}

// queue holds the messages that wait for Messages. It is guarded by Call.mu.
type queue struct {
	list       []queued
	bytes      int
	at         position            // after the last message that was taken
	unanswered map[string]position // of each request of the server that is not answered yet: the position before it
	readers    int                 // loops over Messages that run
	waiters    int                 // Waits that run: if there are no loops, the oldest messages are dropped for the newest
}

type queued struct {
	m  Message
	at position // of the last event before the next message
}

func (m Message) size() int { return len(m.Method) + len(m.Params) }

func (q *queue) pop() (Message, bool) {
	if len(q.list) == 0 {
		return Message{}, false
	}
	first := q.list[0]
	q.list[0] = queued{}
	q.list = q.list[1:]
	q.bytes -= first.m.size()
	q.at = first.at
	return first.m, true
}

func (q *queue) full(limit int) bool {
	return len(q.list) >= maxQueued || len(q.list) > 0 && q.bytes >= limit
}

// token is the position that a token has. Requests that are not answered yet come again after it, if there was an event id before them.
func (q *queue) token() position {
	at := q.at
	if n := len(q.list); n > 0 && q.waiters > 0 && q.readers == 0 {
		at = q.list[n-1].at
	}
	for _, before := range q.unanswered {
		if before.id != "" && before.n < at.n {
			at = before
		}
	}
	return at
}

// Messages yields the notifications of the call, each once and in order, until the call has ended and all that came were yielded. Run one
// loop at a time; after a break another loop continues. If a loop is slow, 1,024 messages or Config.MaxEventBytes are kept for it, and
// then the server has to wait.
func (c *Call) Messages() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		c.count(&c.queue.readers, 1)
		defer c.count(&c.queue.readers, -1)
		for {
			m, ok := c.next()
			if !ok || !yield(m) {
				return
			}
		}
	}
}

// count changes the number of loops or Waits, and wakes a push that waits for room.
func (c *Call) count(n *int, by int) {
	c.mu.Lock()
	*n += by
	c.mu.Unlock()
	signal(c.room)
}

// next waits for a message and takes it out of the queue, which moves the token. It returns false if the call has ended and none is left.
func (c *Call) next() (Message, bool) {
	for {
		c.mu.Lock()
		m, ok := c.queue.pop()
		ended := c.ended()
		c.mu.Unlock()
		if ok {
			signal(c.room)
			return m, true
		}
		if ended {
			return Message{}, false
		}
		select {
		case <-c.wake:
		case <-c.done:
		}
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// push queues a message. While there is no room it blocks, and the connection is not read. It returns false if the call has ended.
func (c *Call) push(m Message, at position) bool {
	for {
		c.mu.Lock()
		if full := c.queue.full(c.s.cfg.MaxEventBytes); full && c.queue.waiters > 0 && c.queue.readers == 0 {
			c.queue.pop()
			c.mu.Unlock()
			continue
		} else if !full {
			c.queue.list = append(c.queue.list, queued{m, at})
			c.queue.bytes += m.size()
			c.mu.Unlock()
			signal(c.wake)
			return true
		}
		c.mu.Unlock()
		select {
		case <-c.room:
		case <-c.ctx.Done():
			return false
		}
	}
}

// reached notes the position of an event without a message for the queue.
func (c *Call) reached(at position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.queue.list); n > 0 {
		c.queue.list[n-1].at = at
		return
	}
	c.queue.at = at
}

// Token lets Resume continue the call after the last message that Messages has yielded or, while a Wait runs and no loop, that has come.
// But if Config.OnRequest has not answered a request yet, it stands before that request. It never stands after the response. With an older
// token messages come again. A token can be used any number of times while the server keeps the call. It is a secret: it holds the
// session's id and an event id, or the task's id.
//
// It is "" if the server has given no event id yet, and in the modern era if the call is not a task (yet).
func (c *Call) Token() string {
	id, version := c.s.identity()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.queue.token()
	switch {
	case c.modern != nil && c.modern.task != "":
		return token{Format: formatTask, Version: version, ID: c.id, Task: c.modern.task, Cursor: at.id}.String()
	case c.modern != nil, at.id == "":
		return ""
	}
	return token{Format: formatStream, Session: id, Version: version, ID: c.id, Cursor: at.id}.String()
}

// take handles a message of the call's stream. before and at are the positions before and after it. It returns true if the stream is
// complete.
func (c *Call) take(m jsonrpc.Message, before, at position) bool {
	switch {
	case m.Kind == jsonrpc.Request:
		id := string(jsonrpc.Key(m.ID))
		c.mu.Lock()
		c.queue.unanswered[id] = before
		c.mu.Unlock()
		c.reached(at)
		c.s.asked(c.ctx, m, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.queue.unanswered, id)
		})
	case m.Kind == jsonrpc.Notification && string(m.Method) == methodCancelled:
		c.s.withdrawn(m.Params)
		c.reached(at)
	case m.Kind == jsonrpc.Notification:
		return !c.push(Message{string(m.Method), m.Params}, at)
	case string(jsonrpc.Key(m.ID)) == c.id: // other responses are the server's mistake, and are dropped
		c.answered(m) // at is not noted: with the token, the response must come again
		return true
	}
	return false
}
