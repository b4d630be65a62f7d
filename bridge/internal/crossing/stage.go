package crossing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin"
)

// Tools are the names of the tools that a subject must have. Each does what Stage.Perform does.
var Tools = []string{"wait", "ask", "park", "say"}

// Resource is what clients subscribe to.
const Resource = "crossing://resource"

// Voice is how a handler speaks to its client, in its SDK's words.
type Voice struct {
	Say func(context.Context) error // sends a log message
	Ask func(context.Context) error // asks for something by elicitation, and waits for the answer
}

// Stage is what a subject's handlers do, and knows which of them run.
type Stage struct {
	running atomic.Int64
	giveUp  chan struct{} // closed when the exam waits no longer

	mu     sync.Mutex
	faults map[string]int
}

func (s *Stage) faultf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[fmt.Sprintf(format, args...)]++
}

// Perform is a tool. It returns when it is let go or its context ends.
func (s *Stage) Perform(ctx context.Context, tool string, v Voice) error {
	s.running.Add(1)
	defer s.running.Add(-1)
	c, ok := ctx.Value(clientKey{}).(*client)
	if !ok {
		s.faultf("%s: the handler has not the values of its request", tool)
		c = newClient(nil)
	}
	switch tool {
	case "ask":
		_ = v.Ask(ctx) // nobody may answer
	case "park":
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // it may have ended
	case "say":
		for range 20 {
			_ = v.Say(ctx) // likewise
		}
	}
	c.begun(tool)
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); !ours(cause) {
			s.faultf("%s: its context ended with %v", tool, cause)
		}
	case <-c.letGo:
	case <-s.giveUp:
		s.faultf("%s: its context does not end", tool)
	}
	return nil
}

// Notified is what a subject does at notifications/initialized and notifications/roots/list_changed, if it is told of them: it asks, as servers do
// that want to know the roots, and is there until its context ends. SDKs may hold back what comes behind, so it does so only where that is what
// is crossed, and not always.
func (s *Stage) Notified(ctx context.Context, v Voice) {
	if c, ok := ctx.Value(clientKey{}).(*client); !ok || !c.notified || dice(4) == 0 {
		return
	}
	s.running.Add(1)
	defer s.running.Add(-1)
	if dice(2) == 0 {
		_ = v.Ask(ctx) // nobody answers
	}
	select {
	case <-ctx.Done():
	case <-s.giveUp:
		s.faultf("a notification's handler: its context does not end")
	}
}

func dice(n int) int { return rand.IntN(n) } //nolint:gosec // what is random here hides nothing

// ours reports whether a context has ended for a reason of rejoin's.
func ours(cause error) bool {
	for _, reason := range []error{rejoin.ErrCancelled, rejoin.ErrSessionEnded, rejoin.ErrShutdown, rejoin.ErrAbandoned} {
		if errors.Is(cause, reason) {
			return true
		}
	}
	return false
}
