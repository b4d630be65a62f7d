package rejoin

import (
	"context"
	"sync"
	"time"
)

// lazyContext is a context with the values of another context, and its own end with its own cause. The end is that of an inner context of
// package context, which is made only when more than values is asked for. Most calls are answered before that, and save its allocations.
// The zero value has no values.
type lazyContext struct {
	values context.Context // its end is ignored; nil: no values

	mu        sync.Mutex
	ctx       context.Context // the inner context; nil: not made yet
	cancelCtx context.CancelCauseFunc
	cause     error // why the context has ended; nil: it has not
}

// inner returns the inner context. It makes it if necessary.
func (c *lazyContext) inner() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		values := context.Background()
		if c.values != nil {
			values = context.WithoutCancel(c.values)
		}
		c.ctx, c.cancelCtx = context.WithCancelCause(values)
		if c.cause != nil {
			c.cancelCtx(c.cause)
		}
	}
	return c.ctx
}

// cancel ends the context. Only the first cause counts.
func (c *lazyContext) cancel(cause error) {
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

func (c *lazyContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *lazyContext) Done() <-chan struct{} { return c.inner().Done() }

func (c *lazyContext) Err() error {
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
func (c *lazyContext) Value(key any) any {
	if _, cancelKey := key.(*int); cancelKey {
		return c.inner().Value(key)
	}
	if c.values == nil {
		return nil
	}
	return c.values.Value(key)
}
