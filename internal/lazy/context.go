// Package lazy has a context that costs little as long as its end is not waited for.
package lazy

import (
	"context"
	"sync"
	"time"
)

// Context is a context with the values of another context, and its own end with its own cause. The end is that of an inner context of
// package context, which is made only when more than values is asked for. Most calls are answered before that, and save its allocations.
// The zero value has no values. Safe for concurrent use.
type Context struct {
	// Values has the values; its end is ignored. Nil: there are none. It must not be changed once the Context is in use.
	Values context.Context

	mu        sync.Mutex
	ctx       context.Context // the inner context; nil: not made yet
	cancelCtx context.CancelCauseFunc
	cause     error // why the context has ended; nil: it has not
}

// Ended returns a context that has ended with that cause; nil: one that has not ended.
func Ended(cause error) *Context { return &Context{cause: cause} }

// inner returns the inner context. It makes it if necessary.
func (c *Context) inner() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		values := context.Background()
		if c.Values != nil {
			values = context.WithoutCancel(c.Values)
		}
		c.ctx, c.cancelCtx = context.WithCancelCause(values)
		if c.cause != nil {
			c.cancelCtx(c.cause)
		}
	}
	return c.ctx
}

// Cancel ends the context. Only the first cause counts.
func (c *Context) Cancel(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	cancelCtx := c.cancelCtx
	c.mu.Unlock()
	if cancelCtx != nil { // not under the lock: it runs what was registered with context.AfterFunc
		cancelCtx(cause)
	}
}

// Deadline implements context.Context: there is none.
func (c *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.inner().Done() }

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx != nil:
		return c.ctx.Err()
	case c.cause != nil:
		return context.Canceled
	}
	return nil
}

// Value passes keys of type *int to the inner context. Package context asks every context for the key &cancelCtxKey, an unexported *int, to
// find the nearest context of its own that can end (see cancelCtx.Value, parentCancelCtx and Cause in its context.go). It then finds the
// inner context. That cancels derived contexts without a goroutine for each of them, and context.Cause finds the cause there. If Go changed
// the type of that key, derived contexts would still end, but with the wrong cause, and TestContextOfACallIsKnownToItsPackage would fail.
func (c *Context) Value(key any) any {
	if _, cancelKey := key.(*int); cancelKey {
		return c.inner().Value(key)
	}
	if c.Values == nil {
		return nil
	}
	return c.Values.Value(key)
}
