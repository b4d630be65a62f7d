package rejointest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Whatever the network does, and wherever the tool lets go: every message comes, in order, once.
func TestStorm(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func storm(t *testing.T, r *rand.Rand) {
	const n = 30
	toolRand := rand.New(rand.NewPCG(r.Uint64(), 0))
	asked := 0
	cfg := rejointest.Config{OnRequest: func(string, json.RawMessage) (any, error) {
		asked++
		return asked, nil
	}}
	cfg.Server.WriteTimeout = 3 * time.Second
	if r.IntN(2) == 0 {
		cfg.Server.Policy.CloseAfter = 4 * time.Second
	}
	cfg.Server.Policy.Retry = time.Second
	c := rejointest.New(t, tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
		answers := 0
		for i := range n {
			if err := h.Progress(float64(i), n, strings.Repeat("x", toolRand.IntN(20_000))); err != nil {
				return nil, err
			}
			switch toolRand.IntN(6) {
			case 0:
				if err := h.CloseStream(time.Duration(toolRand.IntN(3000)) * time.Millisecond); err != nil {
					return nil, err
				}
			case 1:
				if err := h.Ask(ctx, "roots/list", nil, nil); err != nil {
					return nil, err
				}
				answers++
			case 2:
			default:
				elapse(time.Duration(toolRand.IntN(2000)) * time.Millisecond)
			}
		}
		return answers, nil
	}), cfg)
	call := c.CallTool("storm", nil)
	for range 40 {
		elapse(time.Duration(r.IntN(1500)) * time.Millisecond)
		ids := call.IDs()
		if len(ids) == 0 {
			continue
		}
		switch r.IntN(5) {
		case 0:
			call.Cut()
		case 1:
			call.Freeze()
		case 2:
			call.Thaw()
		case 3:
			call.Poll()
		case 4:
			call.PollFrom(ids[r.IntN(len(ids))])
		}
	}
	call.Thaw()
	call.Poll()
	result := string(call.Result())
	require.Equal(t, fmt.Sprint(asked), result, "each question was answered once")
	values := progress(t, call.Messages())
	require.Len(t, values, n)
	for i, v := range values {
		require.Equal(t, i, v)
	}
	require.Len(t, call.Messages(), n+asked+1)
}
