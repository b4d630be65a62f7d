package sample

import (
	"context"
	"time"
)

const (
	// TaskAfter is the time after which a call becomes a task, if its client can be given one. The suite demands that a tool of one second becomes
	// a task and that a quick one does not, so this is as far from both as it can be.
	TaskAfter = 500 * time.Millisecond
	// Long is how long the tools work whose calls shall become tasks. The suite waits 5 s for a question, and 10 s for a result.
	Long = 3 * TaskAfter
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

// Seconds is a number of seconds as a duration.
func Seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
