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

// Tools are the names of the tools that the app must have. Each calls Handlers.Tool.
var Tools = []string{"wait", "ask", "park", "say"}

// Resource is the URI of a resource that the app must have, to which clients subscribe.
const Resource = "crossing://resource"

// Sender sends messages of a handler to its client, in the way of an SDK.
type Sender struct {
	Log    func(context.Context) error // sends a log message
	Elicit func(context.Context) error // sends an elicitation and waits for the answer
}

// Handlers is what the handlers of the app do. It counts those that run, and collects errors.
type Handlers struct {
	running atomic.Int64
	giveUp  chan struct{} // closed when the scenario does not wait any longer

	mu     sync.Mutex
	errors map[string]int // how often each occurred
}

func (h *Handlers) errorf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errors[fmt.Sprintf(format, args...)]++
}

// Tool is the handler of a tool. It returns when its client releases it or its context ends.
func (h *Handlers) Tool(ctx context.Context, name string, sender Sender) error {
	h.running.Add(1)
	defer h.running.Add(-1)
	c, ok := ctx.Value(clientKey{}).(*client)
	if !ok {
		h.errorf("%s: the handler does not have the values of its request", name)
		c = newClient(nil)
	}
	switch name {
	case "ask":
		_ = sender.Elicit(ctx) // it may get no answer
	case "park":
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // the call may have ended
	case "say":
		for range 20 {
			_ = sender.Log(ctx) // likewise
		}
	}
	c.toolStarted(name)
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); !isCause(cause) {
			h.errorf("%s: its context ended with %v", name, cause)
		}
	case <-c.release:
	case <-h.giveUp:
		h.errorf("%s: its context does not end", name)
	}
	return nil
}

// Notification is the handler of notifications/initialized and notifications/roots/list_changed, for apps that have such handlers. It may ask a
// question, as servers do to get the roots, and runs until its context ends. SDKs may delay later messages until it returns. So it returns at once
// if the operation of the scenario is not a notification, and sometimes also if it is.
func (h *Handlers) Notification(ctx context.Context, sender Sender) {
	if c, ok := ctx.Value(clientKey{}).(*client); !ok || !c.handlersWait || random(4) == 0 {
		return
	}
	h.running.Add(1)
	defer h.running.Add(-1)
	if random(2) == 0 {
		_ = sender.Elicit(ctx) // it gets no answer
	}
	select {
	case <-ctx.Done():
	case <-h.giveUp:
		h.errorf("a notification's handler: its context does not end")
	}
}

func random(n int) int { return rand.IntN(n) } //nolint:gosec // not for secrets

// isCause reports whether an error is a cause with which rejoin ends contexts.
func isCause(cause error) bool {
	for _, err := range []error{rejoin.ErrCancelled, rejoin.ErrSessionEnded, rejoin.ErrShutdown, rejoin.ErrAbandoned} {
		if errors.Is(cause, err) {
			return true
		}
	}
	return false
}
