package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/rejoin-mcp/rejoin/examples/internal/timeline"
)

// watch knows what the processes tell: which of them each request has come to, and which owns the session.
type watch struct {
	see       *timeline.Timeline
	addresses chan string // of the process that has started

	mu    sync.Mutex
	ways  map[string][]string // the processes that a request has come to, by its id
	owner string
}

func newWatch(see *timeline.Timeline) *watch {
	return &watch{see: see, addresses: make(chan string, 1), ways: map[string][]string{}}
}

// ServeHTTP takes what reporter.tell sends.
func (w *watch) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	name, value := r.FormValue("name"), r.FormValue("value")
	switch r.FormValue("what") {
	case started:
		w.addresses <- value
	case got:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ways[value] = append(w.ways[value], name)
	case opened:
		w.owns(name, "opens the session, and owns it")
	case adopted:
		w.owns(name, "adopts the session, and owns it now")
	}
}

func (w *watch) owns(name, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owner = name
	w.see.Line(timeline.None, "", fmt.Sprintf("  %s %s", name, how))
}

// address waits until a process has started, and returns its address.
func (w *watch) address(ctx context.Context, c *child) (string, error) {
	select {
	case address := <-w.addresses:
		return address, nil
	case <-c.ended:
		return "", c.failure()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ownerNow is the process that owns the session.
func (w *watch) ownerNow() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owner
}

// way returns which way a request went, once the head of its answer is here, and whether a process has sent it on to the owner.
func (w *watch) way(id string) (text string, forwarded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.Compact(slices.Clone(w.ways[id]))
	text = strings.Join(names, " → ")
	if len(names) > 0 && names[len(names)-1] != w.owner {
		text += ", " + w.owner + " does not answer"
	}
	return text, len(names) > 1
}
