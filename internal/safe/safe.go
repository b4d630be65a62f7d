// Package safe runs code that is not ours, which may panic or end its goroutine.
package safe

import (
	"errors"
	"runtime/debug"
	"strings"
)

// ErrGoexit is what failed is given for code that called runtime.Goexit, as a failed assertion of a test does.
var ErrGoexit = errors.New("runtime.Goexit was called")

// Run runs f. If f panics, failed gets what it panicked with and the stack, and Run returns false. If f ends its goroutine, failed gets
// ErrGoexit, and Run does not return.
func Run(f func(), failed func(what any, stack string)) (returned bool) {
	defer func() {
		if returned {
			return
		}
		what := recover()
		if what == nil {
			what = ErrGoexit
		}
		failed(what, Stack())
	}()
	f()
	return true
}

// Stack is the stack of this goroutine, for a log.
func Stack() string { return strings.TrimSpace(string(debug.Stack())) }
