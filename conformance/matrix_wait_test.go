//go:build node

package conformance_test

import (
	"strings"
	"time"
)

// until calls ask whenever something has changed. It reports whether the answer was yes within the limit.
func until(limit time.Duration, ask func() (yes bool, changed <-chan struct{})) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		yes, changed := ask()
		if yes {
			return true
		}
		select {
		case <-changed:
		case <-deadline.C:
			return false
		}
	}
}

// until waits until wanted, which the mutex guards, returns true.
func (e *encounter) until(limit time.Duration, wanted func() bool) bool {
	return until(limit, func() (bool, <-chan struct{}) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return wanted(), e.changed
	})
}

// untilSent waits until n exchanges match.
func (w *wire) untilSent(limit time.Duration, n int, match func(*exchange) bool) bool {
	return until(limit, func() (bool, <-chan struct{}) {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		return len(w.all(match)) >= n, changed
	})
}

// lines returns a writer that calls f with each line.
func lines(f func(string)) writer {
	var rest string
	return func(b []byte) (int, error) {
		rest += string(b)
		for {
			text, more, ok := strings.Cut(rest, "\n")
			if !ok {
				return len(b), nil
			}
			f(text)
			rest = more
		}
	}
}
