// Package errlog counts the errors that servers under test log.
package errlog

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// New returns a handler that passes records to h, and counts those of level error and above in n.
func New(h slog.Handler, n *atomic.Int64) slog.Handler { return &counter{h, n} }

type counter struct {
	slog.Handler

	n *atomic.Int64
}

// Handle implements slog.Handler.
func (c *counter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		c.n.Add(1)
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c *counter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return New(c.Handler.WithAttrs(attrs), c.n)
}

// WithGroup implements slog.Handler.
func (c *counter) WithGroup(name string) slog.Handler { return New(c.Handler.WithGroup(name), c.n) }
