package rejoin

import (
	"context"
	"sync"
	"time"
)

// callContext is a tool's context: the values of the request that carries the call, and an end of its own. That is a context of the
// standard library, made when somebody asks for more than values: contexts derived from it then need no goroutine to watch it, and
// context.Cause finds the reason. Most calls are answered before anybody has asked.
type callContext struct {
	values context.Context // of the HTTP request; its end is not the call's
	call   *Call

	mu    sync.Mutex
	own   context.Context // nil until it is made
	end   context.CancelCauseFunc
	cause error // why the call has ended; nil: it has not
}

type (
	handleKey struct{}
	serverKey struct{}
)

// made returns the context that can end.
func (c *callContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil {
		c.own, c.end = context.WithCancelCause(context.WithoutCancel(c.values))
		if c.cause != nil {
			c.end(c.cause)
		}
	}
	return c.own
}

// cancel ends it. Only the first cause counts.
func (c *callContext) cancel(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	end := c.end
	c.mu.Unlock()
	if end != nil { // without the lock: it runs what was registered with context.AfterFunc
		end(cause)
	}
}

func (c *callContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *callContext) Done() <-chan struct{} { return c.made().Done() }

func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.own != nil:
		return c.own.Err()
	case c.cause != nil:
		return context.Canceled
	}
	return nil
}

func (c *callContext) Value(key any) any {
	switch key.(type) {
	case handleKey:
		return &c.call.handle
	case serverKey:
		return c.call.s.srv
	case *int: // package context asks so for what can end, and must not find the request
		return c.made().Value(key)
	}
	return c.values.Value(key)
}
