package respond

import (
	"context"
	"time"
)

// QuietTimer fires when nothing was written for a while. The zero value is ready; it allocates when it has to wait.
type QuietTimer struct {
	t     *time.Timer
	armed bool
}

// Wrote notes that something is written.
func (q *QuietTimer) Wrote() { q.armed = false }

// After returns what fires when nothing was written for d. It never fires where the response is not a stream, or d is not positive.
func (q *QuietTimer) After(streaming bool, d time.Duration) <-chan time.Time {
	switch {
	case !streaming || d <= 0:
		return nil
	case q.t == nil:
		q.t = time.NewTimer(d)
	case !q.armed:
		q.t.Reset(d)
	}
	q.armed = true
	return q.t.C
}

// Stop frees the timer.
func (q *QuietTimer) Stop() {
	if q.t != nil {
		q.t.Stop()
	}
}

// Sleep waits, and reports whether ctx is still alive.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
