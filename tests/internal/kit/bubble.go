package kit

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// RequireRested requires that the bubble has at most as many goroutines as resting, an earlier length of Goroutines.
func RequireRested(t *testing.T, resting int) {
	t.Helper()
	running := Goroutines()
	require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
}

// Goroutine is the runtime's number of the calling goroutine.
func Goroutine() string {
	var buf [64]byte
	return string(bytes.Fields(buf[:runtime.Stack(buf[:], false)])[1])
}

// Bubble runs f in virtual time.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// Goroutines waits until all goroutines of this test's bubble are blocked, and returns their stacks. Unlike runtime.NumGoroutine it counts
// neither finalizers nor other tests.
func Goroutines() []string {
	synctest.Wait()
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) { // earlier tests may have left many that are about to end
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	all := strings.Split(string(buf[:n]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ") // the first is the one that asks
	number, _, _ := strings.Cut(rest, "]")
	return slices.DeleteFunc(all, func(stack string) bool {
		head, _, _ := strings.Cut(stack, "\n")
		return number == "" || !strings.Contains(head, "synctest bubble "+number+"]")
	})
}

// Elapse lets virtual time pass, for a test or a tool in a bubble.
func Elapse(d time.Duration) { <-time.After(d) }

// AtOnce fails the test if virtual time passes while f runs.
func AtOnce(t *testing.T, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	require.Zero(t, time.Since(began), "%s waits for the store", what)
}
