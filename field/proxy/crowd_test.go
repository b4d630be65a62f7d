//go:build nginx

package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// gate is the entrance to a proxy. It counts the answers by status.
type gate struct {
	address string
	http    http.Client
	settled func(i int) // waits until the proxy knows that the replica is not ready; nil: it does not ask

	mu       sync.Mutex
	statuses map[int]int
}

func newGate(t *testing.T, address string) *gate {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	g := &gate{address: address, statuses: map[int]int{}}
	g.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := transport.RoundTrip(r)
		if err == nil {
			g.mu.Lock()
			g.statuses[answer.StatusCode]++
			g.mu.Unlock()
		}
		return answer, err
	})
	return g
}

func (g *gate) url() string          { return g.address }
func (g *gate) client() *http.Client { return &g.http }

// count returns how many answers had a status that want matches.
func (g *gate) count(want func(status int) bool) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for status, times := range g.statuses {
		if want(status) {
			n += times
		}
	}
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// crowd are clients with a session each, that call again and again.
type crowd struct {
	gate *gate
	stop chan struct{}
	work sync.WaitGroup

	mu      sync.Mutex
	done    []int // calls that were answered with a result, by client
	faults  []error
	changed chan struct{}
}

// join connects clients of both kinds and lets them call.
func join(t *testing.T, g *gate) *crowd {
	t.Helper()
	c := &crowd{gate: g, stop: make(chan struct{}), done: make([]int, 9), changed: make(chan struct{})}
	for i := range c.done {
		name := "package client"
		if i%3 == 2 {
			name = "go-sdk"
		}
		u := users[name](t, g, func(string) {})
		c.work.Go(func() {
			for !c.stopped() && c.note(i, callInParts(deadline(t), u)) < maxFaults {
			}
		})
	}
	t.Cleanup(func() { c.leave() })
	return c
}

func callInParts(ctx context.Context, u user) error {
	var heard []string
	hears := func(message string) { heard = append(heard, message) }
	if _, ours := u.(packageClient); !ours { // the official client delivers them in a goroutine of its own
		hears = func(string) {}
	}
	text, err := u.call(ctx, hears)
	switch {
	case err != nil:
		return err
	case text != "done" || len(heard) > 0 && strings.Join(heard, ", ") != "part 1, part 2, part 3":
		return fmt.Errorf("it got %q after %q", text, heard)
	}
	return nil
}

func (c *crowd) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// maxFaults ends the clients of a test that fails.
const maxFaults = 100

// note notes what a call of a client has come to, and returns how many have failed so far.
func (c *crowd) note(i int, err error) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.faults = append(c.faults, err)
	} else {
		c.done[i]++
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return len(c.faults)
}

// wait waits until each client has done some more calls.
func (c *crowd) wait(t *testing.T, more int) {
	t.Helper()
	c.mu.Lock()
	first := append([]int(nil), c.done...)
	c.mu.Unlock()
	for limit := time.After(patience); ; {
		c.mu.Lock()
		changed, behind := c.changed, 0
		for i, n := range c.done {
			if n < first[i]+more {
				behind++
			}
		}
		faults := c.faults
		c.mu.Unlock()
		if behind == 0 {
			return
		}
		require.Less(t, len(faults), maxFaults, "%v", errors.Join(faults[:min(len(faults), 5)]...))
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%d clients get no answers any more; errors so far: %v", behind, errors.Join(faults...))
		}
	}
}

// leave waits until all clients have ended their last calls, and returns the errors.
func (c *crowd) leave() []error {
	if !c.stopped() {
		close(c.stop)
	}
	c.work.Wait()
	return c.faults
}

// mayBeLost reports whether a call may end so when a process is killed: it ran there, or its session could not be reached yet, or the connection to
// that process was lost before the answer had begun.
func mayBeLost(err error) bool {
	if refused, ok := errors.AsType[*client.StatusError](err); ok {
		return refused.Status == http.StatusBadGateway || refused.Status == http.StatusServiceUnavailable
	}
	var data []byte
	if e, ok := errors.AsType[*client.Error](err); ok {
		data, _ = json.Marshal(e.Data)
	} else if e, ok := errors.AsType[*jsonrpc.Error](err); ok { // of the official client
		data = e.Data
	}
	var why struct{ Reason string }
	_ = json.Unmarshal(data, &why)
	lost := why.Reason == "owner_lost" || why.Reason == "unreachable" || errors.Is(err, client.ErrMayHaveRun) || errors.Is(err, io.EOF)
	return lost || strings.Contains(err.Error(), http.StatusText(http.StatusBadGateway)) // in words, by the official client
}
