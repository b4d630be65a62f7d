package mcpgo

import (
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rejoin-mcp/rejoin/internal/stack"
)

// capacity is how many notifications can wait in an outbox.
const capacity = 32

// outbox is the channel to which mcp-go sends notifications, and a goroutine that forwards them in order. Both are created when they are first
// needed. mcp-go never waits: it drops a notification if the channel is full. So each sender reserves a place first, and waits for it there. A
// sender may also have the channel without a reservation, if it has kept it.
//
// Before the goroutine runs, flush forwards the notifications itself. Most calls that send few notifications end before that, and the goroutine
// would need a larger stack.
//
// A closed outbox still accepts the notifications for which places are reserved.
type outbox struct {
	forward func(mcp.JSONRPCNotification) // called by one goroutine at a time

	mu       sync.Mutex
	changed  sync.Cond // reserved has decreased, or inline is false again
	ch       chan mcp.JSONRPCNotification
	reserved int  // places for notifications that are not forwarded yet
	closing  bool // close was called
	running  bool // the goroutine forwards
	inline   bool // a flush forwards

	// The goroutine creates these when it begins.
	flushes chan chan struct{}
	stop    chan struct{} // close closes it if no place is reserved
	exited  chan struct{} // closed when the goroutine has returned
}

func (o *outbox) init(forward func(mcp.JSONRPCNotification)) {
	o.forward = forward
	o.changed.L = &o.mu
}

// usable reports whether notifications can still be sent. The caller holds o.mu.
func (o *outbox) usable() bool { return !o.closing || o.reserved > 0 }

// create creates the channel and the goroutine, unless they exist. The caller holds o.mu, and the outbox is usable.
func (o *outbox) create() {
	if o.ch == nil {
		o.ch = make(chan mcp.JSONRPCNotification, capacity)
		go o.run()
	}
}

// reserve waits until there is a place for a notification, and reserves it. It reports false if the outbox is closed.
func (o *outbox) reserve() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.reserved == capacity {
		o.changed.Wait()
	}
	if !o.usable() {
		return false
	}
	o.create()
	o.reserved++
	return true
}

// channel returns the channel; nil if the outbox is closed.
func (o *outbox) channel() chan<- mcp.JSONRPCNotification {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.usable() {
		return nil
	}
	o.create()
	return o.ch
}

// closed reports whether no notification can be sent any more.
func (o *outbox) closed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.usable()
}

// flush returns when all notifications are forwarded that were in the channel.
func (o *outbox) flush() {
	o.mu.Lock()
	o.waitInline()
	switch {
	case o.ch == nil:
		o.mu.Unlock()
	case !o.running:
		o.forwardInline()
	default:
		o.mu.Unlock()
		done := make(chan struct{})
		select {
		case o.flushes <- done:
			<-done
		case <-o.exited:
		}
	}
}

// waitInline waits until no flush forwards. The caller holds o.mu.
func (o *outbox) waitInline() {
	for o.inline {
		o.changed.Wait()
	}
}

// forwardInline forwards the notifications in the channel. The caller holds o.mu; forwardInline unlocks it.
func (o *outbox) forwardInline() {
	o.inline = true
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.inline = false
		o.changed.Broadcast()
		o.mu.Unlock()
	}()
	o.forwardAll()
}

// close refuses further reservations, and returns at once.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return
	}
	o.closing = true
	if o.running && o.reserved == 0 {
		close(o.stop)
	}
}

// begin prepares the goroutine. It reports false if the outbox is closed already.
func (o *outbox) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waitInline()
	if o.running = o.usable(); o.running {
		o.flushes, o.stop, o.exited = make(chan chan struct{}), make(chan struct{}), make(chan struct{})
	}
	return o.running
}

func (o *outbox) run() {
	if !o.begin() {
		o.flush() // notifications without a reservation
		return
	}
	stack.To16K(false)
	defer close(o.exited)
	for {
		select {
		case n := <-o.ch:
			if o.forwardOne(n) {
				return
			}
		case done := <-o.flushes:
			closed := o.forwardAll()
			close(done)
			if closed {
				return
			}
		case <-o.stop:
			o.forwardAll()
			return
		}
	}
}

// forwardAll forwards the notifications in the channel. It reports whether the outbox is closed now.
func (o *outbox) forwardAll() (closed bool) {
	for {
		select {
		case n := <-o.ch:
			closed = o.forwardOne(n) || closed
		default:
			return closed
		}
	}
}

// forwardOne forwards a notification. It reports whether the outbox is closed now.
func (o *outbox) forwardOne(n mcp.JSONRPCNotification) bool {
	o.forward(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reserved > 0 { // otherwise it was sent without a reservation
		o.reserved--
		o.changed.Broadcast()
	}
	return !o.usable()
}
