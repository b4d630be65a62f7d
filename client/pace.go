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

// minWait is the least time between two polls of a stream, whatever the server asks for.
const minWait = 10 * time.Millisecond

// fail counts an attempt that brought nothing. It returns errEnded if there may be another one, else *GaveUpError.
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

// wait waits before the next attempt: as long as the server has asked for, and longer if attempts brought nothing.
func (f *stream) wait(ctx context.Context) error {
	floor := max(f.retry, f.pause)
	f.pause = 0
	if limit := f.s.cfg.RetryLimit; limit > 0 && floor > limit {
		return fmt.Errorf("%w: %v", ErrRetryTooLong, floor)
	}
	n := f.failed
	if f.retry < 0 {
		n = max(n, 1)
	}
	d := jitter(max(floor, f.s.backoff(n), f.idOnlyWait()))
	f.s.trace(TraceEvent{Kind: TraceWait, Stream: f.name, Wait: d})
	return sleep(ctx, d)
}

// idOnlyWait is the least wait after polls that brought an event id and no message. It grows up to Backoff, so that a retry of 0 does not
// make a loop.
func (f *stream) idOnlyWait() time.Duration {
	return max(minWait, min(minWait<<min(f.idOnly, 20), f.s.cfg.Backoff))
}

// backoff is the wait after n attempts that brought nothing, if the server asks for none.
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

// retryAfter is the wait that a refusal asks for, in seconds or as a date (RFC 9110, 10.2.3), but at most sse.MaxRetry.
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
