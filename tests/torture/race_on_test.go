//go:build race

package torture_test

import (
	"runtime"
	"testing"
)

// oneAtATime lets only one goroutine run at a time until the test ends. All timers of a synctest bubble share one context of the race detector, and
// goroutines that poll or stop channels of timers that have expired use it without a lock (go1.26): if two do so at the same moment, the detector
// crashes the process. In these tests thousands of timers expire at the same moment. The detector itself does not need goroutines to overlap.
func oneAtATime(t *testing.T) {
	t.Helper()
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}
