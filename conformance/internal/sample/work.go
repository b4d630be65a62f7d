package sample

import (
	"context"
	"time"
)

const (
	// TaskAfter is the time after which a call becomes a task, if its client can be given one. The suite demands that quick tools do not become
	// tasks, on a busy machine too.
	TaskAfter = 1500 * time.Millisecond
	// ComputeTaskAfter is this time for slow_compute. The suite demands that it becomes a task when it works for a second.
	ComputeTaskAfter = 250 * time.Millisecond
	// Long is how long the other tools work whose calls shall become tasks. The suite waits 5 s for a question, and 10 s for a result.
	Long = TaskAfter + 750*time.Millisecond
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
