package model_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// restless is a tool that reports progress n times at random moments, sometimes closes its stream, and sometimes asks.
func restless(seed uint64, n int) rejoin.App {
	return rejoin.NewApp(kit.Info, kit.RawResults(func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		var p struct{ Name string }
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		me, _ := strconv.Atoi(p.Name)
		random := rand.New(rand.NewPCG(seed, uint64(me)))
		for i := range n {
			if err := h.Progress(float64(i), float64(n), ""); err != nil {
				return nil, err
			}
			switch random.IntN(8) {
			case 0:
				_ = h.CloseStream(time.Duration(random.IntN(2000)) * time.Millisecond)
			case 1:
				_ = h.Session().Notify(context.Background(), "notifications/x", nil)
			case 2:
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				_ = h.Ask(ctx, "roots/list", nil, nil)
				cancel()
			case 3:
				_ = h.SetPolicy(rejoin.Policy{CloseAfter: time.Duration(random.IntN(2000)+1) * time.Millisecond})
			case 4:
				kit.Elapse(time.Duration(random.IntN(500)) * time.Millisecond)
			}
		}
		return me, nil
	}))
}

// The connections of eight calls are cut, frozen and resumed at random. Each client that has got an event id gets every event, once and in order,
// and nothing is left of a session that has ended.
func TestWhateverHappensToConnections(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) { soak(t, seed) })
		})
	}
}

func soak(t *testing.T, seed uint64) {
	const calls, each = 8, 40
	random := rand.New(rand.NewPCG(seed, 0))
	store := eventstore.Store(eventstore.NewMemory(eventstore.MemoryConfig{}))
	switch seed % 3 {
	case 1: // the store is slow
		store = storetest.Faulty(store, func(op string, n int) error {
			kit.Elapse(time.Duration(n%7) * 10 * time.Millisecond)
			return nil
		})
	case 2: // the store fails sometimes
		store = storetest.Faulty(store, func(op string, n int) error {
			if op == "append" && n%97 == 0 {
				return kit.ErrStore
			}
			return nil
		})
	}
	c := rejointest.New(t, restless(seed, each), rejointest.Config{
		Server:    rejoin.Config{Store: store, Logger: kit.QuietLogger(), Policy: rejoin.Policy{StreamAfter: time.Millisecond}},
		OnRequest: func(string, json.RawMessage) (any, error) { return nil, nil },
	})
	listen := c.Listen()
	var all []*rejointest.Call
	cancelled := map[int]bool{}
	for i := range calls {
		all = append(all, c.CallTool(strconv.Itoa(i), nil))
	}
	for range 150 {
		kit.Elapse(time.Duration(random.IntN(80)) * time.Millisecond)
		i := random.IntN(calls)
		call := all[i]
		if len(call.IDs()) == 0 {
			continue
		}
		switch random.IntN(12) {
		case 0, 1:
			call.Cut()
		case 2:
			call.Freeze()
		case 3:
			call.Thaw()
		case 4:
			call.PollFrom(call.IDs()[random.IntN(len(call.IDs()))])
		case 5:
			listen.Poll()
		case 6:
			listen.Cut()
		case 7:
			if seed%2 == 0 && i == 0 {
				call.Cancel("")
				cancelled[i] = true
			}
		default:
			call.Poll()
		}
	}
	for i, call := range all {
		if cancelled[i] {
			continue
		}
		call.Cut() // otherwise the test would wait for a frozen connection
		if len(call.IDs()) == 0 {
			continue
		}
		call.Poll()
		if call.Status() != 204 {
			require.Equal(t, strconv.Itoa(i), string(call.Result()))
		}
		require.Equal(t, kit.UpTo(each), kit.Progress(t, call.Messages()), "%s", call)
	}
	listen.Poll()
	c.Delete()
	kit.Elapse(time.Minute) // frozen connections time out
	synctest.Wait()
	after := c.Server().Stats()
	require.Zero(t, after.Sessions)
	require.Zero(t, after.Connections)
	require.Zero(t, after.StoredBytes)
}
