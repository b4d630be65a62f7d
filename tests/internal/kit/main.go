package kit

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Main runs a package's tests, for its TestMain. It fails if goroutines still run ten seconds after the last test. synctest checks the
// goroutines of a bubble; Main finds those that tests with real sockets and processes have left.
func Main(m *testing.M) {
	code := m.Run()
	if left := leftAfter(10 * time.Second); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines are left after the tests:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// leftAfter waits, up to limit, until only goroutines of the runtime and of package testing run. It returns the stacks of the others.
func leftAfter(limit time.Duration) (left []string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); ; <-tick.C {
		if left = leftNow(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// notLeft are words in the stacks of goroutines that tests did not start.
var notLeft = []string{"kit.Main(", "testing.(*M).", "os/signal.", "runtime.ensureSigM", "internal/fuzz."}

func leftNow() []string {
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	return slices.DeleteFunc(all, func(stack string) bool {
		return slices.ContainsFunc(notLeft, func(word string) bool { return strings.Contains(stack, word) })
	})
}
