//go:build node

package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/conformance/internal/sample"
)

// The tools of the matrix take real time, because each client is a process with real timers.

// scenario is something that may happen to a client, which calls one tool of its server.
type scenario struct {
	name   string
	policy rejoin.Policy
	run    tool
	idles  bool // the test closes the standalone stream meanwhile

	ofTasks bool // only clients that know tasks take part

	call   string                                             // the tool, if it is not "work"
	front  func(t *testing.T, server string) (address string) // what stands between the client and its server
	meddle func(t *testing.T, e *encounter) (fault string)    // what the test does while the call runs
}

const (
	comeBack = 100 * time.Millisecond // the time after which a disconnected client shall poll
	toPoll   = 100 * time.Millisecond // the time after which a client shall poll its task
	toTell   = 3                      // how often the longer tools report progress
	letGoes  = 3                      // how often an idle stream is closed
)

func scenarios() []scenario {
	return []scenario{
		{name: "quick", run: quick},
		{name: "slow", run: reports(2*time.Second, nil)},
		{
			name: "CloseAfter", policy: rejoin.Policy{CloseAfter: 300 * time.Millisecond, Retry: comeBack},
			run: reports(1500*time.Millisecond, nil),
		},
		{name: "CloseStream", run: reports(1500*time.Millisecond, func(h hand) error {
			if err := h.CloseStream(comeBack); !errors.Is(err, rejoin.ErrNotResumable) {
				return err
			}
			return nil
		})},
		{name: "idle", idles: true, run: quick},
	}
}

// reports is a tool that reports progress toTell times, before and during its work. After the first report it calls between, if not nil. It
// reports nothing at its end, because some clients reorder messages that come close together.
func reports(work time.Duration, between func(hand) error) tool {
	return func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
		for i := range toTell {
			if err := h.Progress(float64(i+1), toTell, fmt.Sprintf("step %d", i+1)); err != nil {
				return "", err
			}
			if i == 0 && between != nil {
				if err := between(h); err != nil {
					return "", err
				}
			}
			if err := sample.Work(ctx, work/toTell); err != nil {
				return "", err
			}
		}
		return "done", nil
	}
}
