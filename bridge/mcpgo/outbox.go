package mcpgo

import (
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// room is how many notifications can wait in a channel.
const room = 32

// outbox is the channel into which mcp-go sends notifications, and the goroutine that reads it and keeps their order. Neither exists
// before it is needed. mcp-go never waits: it drops what finds no room. So it has to wait before, in expect, and nothing is dropped as
// long as every sender expects first.
//
// Until the goroutine has begun, whoever flushes does its work: most calls that send little are over by then, and a fresh stack would
// have to grow for it.
//
// After its end an outbox lives on until the last message that was expected has come.
type outbox struct {
	forward func(mcp.JSONRPCNotification)

	mu       sync.Mutex
	changed  sync.Cond // expected has become less, or nobody replaces the goroutine any more
	ch       chan mcp.JSONRPCNotification
	expected int
	ended    bool
	begun    bool // the goroutine reads
	replaced bool // somebody else does

	// They are made when the goroutine begins.
	flushes chan chan struct{}
	stop    chan struct{} // closed: nothing is expected any more
	gone    chan struct{} // closed: the goroutine has returned
}

func (o *outbox) init(forward func(mcp.JSONRPCNotification)) {
	o.forward = forward
	o.changed.L = &o.mu
}

// alive reports whether messages can still be sent this way. With the lock.
func (o *outbox) alive() bool { return !o.ended || o.expected > 0 }

// start makes what was not needed before. With the lock, while alive.
func (o *outbox) start() {
	if o.ch == nil {
		o.ch = make(chan mcp.JSONRPCNotification, room)
		go o.run()
	}
}

// expect waits until there is room for one message more. It reports whether the outbox is alive.
func (o *outbox) expect() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.expected == room {
		o.changed.Wait()
	}
	if !o.alive() {
		return false
	}
	o.start()
	o.expected++
	return true
}

// channel is nil after the outbox has died.
func (o *outbox) channel() chan<- mcp.JSONRPCNotification {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.alive() {
		return nil
	}
	o.start()
	return o.ch
}

// dead reports whether nothing can be sent this way any more.
func (o *outbox) dead() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.alive()
}

// flush returns when all has been forwarded that was in the channel.
func (o *outbox) flush() {
	o.mu.Lock()
	o.wait()
	switch {
	case o.ch == nil:
		o.mu.Unlock()
	case !o.begun:
		o.replace()
	default:
		o.mu.Unlock()
		done := make(chan struct{})
		select {
		case o.flushes <- done:
			<-done
		case <-o.gone:
		}
	}
}

// wait returns when nobody replaces the goroutine. With the lock.
func (o *outbox) wait() {
	for o.replaced {
		o.changed.Wait()
	}
}

// replace does what the goroutine would. With the lock, which it gives back.
func (o *outbox) replace() {
	o.replaced = true
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.replaced = false
		o.changed.Broadcast()
		o.mu.Unlock()
	}()
	o.empty()
}

// end takes no more senders. It does not wait.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.ended = true
	if o.begun && o.expected == 0 {
		close(o.stop)
	}
}

// begin reports whether there is anything to do: all may be over before the goroutine runs for the first time.
func (o *outbox) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wait()
	if o.begun = o.alive(); o.begun {
		o.flushes, o.stop, o.gone = make(chan chan struct{}), make(chan struct{}), make(chan struct{})
	}
	return o.begun
}

func (o *outbox) run() {
	if !o.begin() {
		o.flush() // of somebody who has the channel and did not expect
		return
	}
	deepen(false)
	defer close(o.gone)
	for {
		select {
		case n := <-o.ch:
			if o.pass(n) {
				return
			}
		case done := <-o.flushes:
			died := o.empty()
			close(done)
			if died {
				return
			}
		case <-o.stop:
			o.empty()
			return
		}
	}
}

// empty forwards what is in the channel. It reports whether the outbox has died.
func (o *outbox) empty() (died bool) {
	for {
		select {
		case n := <-o.ch:
			died = o.pass(n) || died
		default:
			return died
		}
	}
}

// pass forwards a message. It reports whether the outbox has died with it.
func (o *outbox) pass(n mcp.JSONRPCNotification) bool {
	o.forward(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.expected > 0 { // else it came from somebody who has the channel and did not expect
		o.expected--
		o.changed.Broadcast()
	}
	return !o.alive()
}
