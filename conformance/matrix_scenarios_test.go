//go:build node

package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// The tools of the matrix take real time, because the clients do: each is in a process of its own, with clocks of its own.

// scenario is one thing that may happen to a client. It calls the one tool that there is.
type scenario struct {
	name   string
	policy rejoin.Policy
	run    tool
	idles  bool // the test lets the standalone stream go meanwhile
}

const (
	comeBack = 100 * time.Millisecond // when a client that is let go shall come back
	toTell   = 3                      // how often the longer ones tell how far they are
	letGoes  = 3                      // how often an idle stream is let go
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

// reports is a tool that tells how far it is as often as toTell says, before and during its work. After the first time it does what is in
// between, if anything. At the end it tells nothing: some clients hand on what is close together in another order.
func reports(work time.Duration, between func(hand) error) tool {
	return func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
		for i := range toTell {
			if err := h.Progress(float64(i+1), toTell, ""); err != nil {
				return "", err
			}
			if i == 0 && between != nil {
				if err := between(h); err != nil {
					return "", err
				}
			}
			if err := pass(ctx, work/toTell); err != nil {
				return "", err
			}
		}
		return "done", nil
	}
}

// pass lets time pass.
func pass(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
