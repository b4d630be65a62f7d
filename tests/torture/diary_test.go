package torture_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// diary is what has happened in a history, and what must not have. Safe for concurrent use.
type diary struct {
	began time.Time

	traced sync.Mutex
	trace  []string
	faults []string
}

func (d *diary) say(format string, args ...any) {
	d.traced.Lock()
	defer d.traced.Unlock()
	d.trace = append(d.trace, fmt.Sprintf("%8.3fs ", time.Since(d.began).Seconds())+fmt.Sprintf(format, args...))
}

// fault records what must not happen. Any goroutine may call it; check fails the test.
func (d *diary) fault(format string, args ...any) {
	d.say("FAULT: "+format, args...)
	d.traced.Lock()
	defer d.traced.Unlock()
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

// failed reports whether a fault was found.
func (d *diary) failed() bool {
	d.traced.Lock()
	defer d.traced.Unlock()
	return len(d.faults) > 0
}

// check fails the test if a fault was found. again are the flags with which it is found again.
func (d *diary) check(t *testing.T, again string, args ...any) {
	t.Helper()
	d.traced.Lock()
	defer d.traced.Unlock()
	if len(d.faults) > 0 {
		t.Errorf("%s: %d faults, the first: %s\n%s", fmt.Sprintf(again, args...), len(d.faults), d.faults[0], strings.Join(d.trace[max(0, len(d.trace)-400):], "\n"))
	}
}
