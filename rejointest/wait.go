package rejointest

import (
	"fmt"
	"testing/synctest"
	"time"
)

func (k *Call) wait(what string, done func() bool) {
	k.c.t.Helper()
	k.waitUntil(time.Now().Add(k.c.cfg.Patience), what, done)
}

// waitUntil waits until done returns true; done is called under the mutex. When waitUntil returns, the bubble is at rest.
func (k *Call) waitUntil(limit time.Time, what string, done func() bool) {
	k.c.t.Helper()
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	for {
		synctest.Wait()
		k.mu.Lock()
		ok := done()
		k.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-k.changed:
		case <-timer.C:
			k.fatalf("waited %v for %s", k.c.cfg.Patience, what)
		}
	}
}

func (k *Call) fatalf(format string, args ...any) {
	k.c.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fatalLocked(fmt.Sprintf(format, args...))
}

func (k *Call) fatalLocked(what string) {
	k.c.t.Helper()
	k.c.t.Fatalf("rejointest: %s: %s; seen so far:\n%s", k.what, what, k.seen())
}

// shown is how many bytes of a transcript a failure shows, from its beginning and from its end.
const shown = 4 << 10

// seen is the transcript as failures show it. It is called under the mutex.
func (k *Call) seen() string {
	all := k.transcript()
	if len(all) > 2*shown {
		return fmt.Sprintf("%s\n… %d bytes …\n%s", all[:shown], len(all)-2*shown, all[len(all)-shown:])
	}
	return all
}
