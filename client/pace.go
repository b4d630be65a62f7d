package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// minWait is between the polls of a stream, whatever the server wants.
const minWait = 10 * time.Millisecond

// fail counts an attempt that brought nothing. It returns errEnded while there may be another.
func (f *stream) fail(err error) error {
	if f.failed == 0 {
		f.since = time.Now()
	}
	f.failed++
	if limit := f.s.cfg.Attempts; limit > 0 && f.failed >= limit {
		return &GaveUpError{Attempts: f.failed, Waited: time.Since(f.since), Err: err}
	}
	return errEnded
}

// wait is for the next attempt: not before the server wants it, and later where attempts bring nothing.
func (f *stream) wait(ctx context.Context) error {
	floor := max(f.retry, f.after)
	f.after = 0
	if limit := f.s.cfg.RetryLimit; limit > 0 && floor > limit {
		return fmt.Errorf("%w: %v", ErrRetryTooLong, floor)
	}
	n := f.failed
	if f.retry < 0 {
		n = max(n, 1)
	}
	d := jitter(max(floor, f.s.backoff(n), f.calm()))
	f.s.trace(TraceEvent{Kind: TraceWait, Stream: f.name, Wait: d})
	return sleep(ctx, d)
}

// calm keeps a server that wants to be asked again at once, and has nothing to say, from being asked in a loop.
func (f *stream) calm() time.Duration {
	return max(minWait, min(minWait<<min(f.quiet, 20), f.s.cfg.Backoff))
}

// backoff is the wait after so many attempts that brought nothing, without the server's wishes.
func (s *Session) backoff(n int) time.Duration {
	if n == 0 {
		return 0
	}
	d := s.cfg.Backoff
	for ; n > 1 && d < s.cfg.BackoffMax; n-- {
		d = min(2*d, s.cfg.BackoffMax)
	}
	return d
}

// jitter adds up to a fifth.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/5+1) //nolint:gosec // spreads polls
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retryAfter is how long a refusal asks to wait, in seconds or until a date (RFC 9110, 10.2.3). Not more than sse.MaxRetry.
func retryAfter(h http.Header) time.Duration {
	text, _ := field(h, "Retry-After")
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(n, uint64(sse.MaxRetry/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(at)), sse.MaxRetry)
	}
	return 0
}
