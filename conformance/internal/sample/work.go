package sample

import (
	"context"
	"time"
)

// Work waits for d. If ctx ends before, it returns the cause.
func Work(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
