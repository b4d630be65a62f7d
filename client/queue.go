package client

import (
	"encoding/json"
	"iter"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// maxQueued is how many messages of a call wait for Messages, and Config.MaxEventBytes is how large they may be together. When there
// are more, the connection is read no further: the server keeps the rest.
const maxQueued = 1024

// Message is a notification of the server. Its memory is the caller's.
type Message struct {
	Method string
	Params json.RawMessage // nil: none
}

// position is a place in a stream: after n changes of its event id, which is id then.
type position struct {
	n  int
	id string
}

// queue holds what nobody has taken yet. Guarded by Call.mu.
type queue struct {
	list    []queued
	bytes   int
	at      position            // after what was taken
	open    map[string]position // before each question of the server that is not answered yet
	readers int                 // loops over Messages
	waiters int                 // Waits: while they are all there is, the oldest give way to the newest
}

type queued struct {
	m  Message
	at position // the last one before the next message
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

// token is where a token stands. Questions that are still open are asked again after it, as far as an event id allows.
func (q *queue) token() position {
	at := q.at
	if n := len(q.list); n > 0 && q.waiters > 0 && q.readers == 0 {
		at = q.list[n-1].at
	}
	for _, before := range q.open {
		if before.id != "" && before.n < at.n {
			at = before
		}
	}
	return at
}

// Messages yields what the server says about the call, each once and in order, until the call has ended; what came before is yielded
// also after that. It is for one loop at a time; a loop that is left can be taken up by another. A loop that is slow makes the server
// wait, once 1,024 messages or Config.MaxEventBytes have come ahead of it.
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

// count counts those who take messages, and lets a push that waits for room look again.
func (c *Call) count(who *int, by int) {
	c.mu.Lock()
	*who += by
	c.mu.Unlock()
	signal(c.room)
}

// next takes a message out of the queue, and the token moves on.
func (c *Call) next() (Message, bool) {
	for {
		c.mu.Lock()
		m, ok := c.queue.pop()
		over := c.over()
		c.mu.Unlock()
		if ok {
			signal(c.room)
			return m, true
		}
		if over {
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

// push queues a message; while there is no room it waits, and so does the connection. false: the call has ended.
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

// reached notes an event id that came without a message.
func (c *Call) reached(at position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.queue.list); n > 0 {
		c.queue.list[n-1].at = at
		return
	}
	c.queue.at = at
}

// Token lets Resume go on with the call from after the last message that Messages has yielded or, while only Wait waits, that came;
// but from before a question that Config.OnRequest has not answered yet. An older token repeats what came since. The response is never
// behind it. A token can be used any number of times, while the server keeps the call. It holds the session's id and an event id:
// secrets.
//
// "" while the server has given no event id.
func (c *Call) Token() string {
	id, version := c.s.names()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.queue.token()
	if at.id == "" {
		return ""
	}
	return token{Format: 1, Session: id, Version: version, ID: c.id, Cursor: at.id}.String()
}

// take handles a message of the call's stream. before and at are the positions around it. true: the stream is over.
func (c *Call) take(m jsonrpc.Message, before, at position) bool {
	switch {
	case m.Kind == jsonrpc.Request:
		id := string(jsonrpc.Key(m.ID))
		c.mu.Lock()
		c.queue.open[id] = before
		c.mu.Unlock()
		c.reached(at)
		c.s.asked(c.ctx, m, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.queue.open, id)
		})
	case m.Kind == jsonrpc.Notification && string(m.Method) == methodCancelled:
		c.s.withdrawn(m.Params)
		c.reached(at)
	case m.Kind == jsonrpc.Notification:
		return !c.push(Message{string(m.Method), m.Params}, at)
	case string(jsonrpc.Key(m.ID)) == c.id: // any other is of a server that is confused
		c.answered(m) // its id is not noted: a token must bring it again
		return true
	}
	return false
}
