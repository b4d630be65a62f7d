package store_test

import (
	"encoding/json"
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

// Invariant 9: no store call runs under a lock. So an append that blocks delays only its own stream.
func TestAnAppendThatBlocksDelaysItsStreamOnly(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := kit.NewStuckStore(t)
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call, tool := kit.StuckCall(t, c, next, store)
		kit.AtOnce(t, "another goroutine of the same call", func() {
			require.NoError(t, tool.Progress(2, 0, ""))
			require.NoError(t, tool.Notify("notifications/progress", map[string]int{"progress": 3}))
			require.NoError(t, tool.CloseStream(0))
			require.True(t, tool.Resumable())
		})
		kit.AtOnce(t, "a poll", func() {
			call.Poll()
			require.Equal(t, "200 sse primer@1 open", kit.Last(call))
		})
		kit.RequireOthersRun(t, c, next, tool)
		kit.AtOnce(t, "what an operator looks at", func() {
			c.Server().Stats()
			require.Len(t, kit.Sessions(c.Server()), 2)
		})
		kit.Elapse(6 * time.Second) // StoreTimeout is 5 s
		require.Equal(t, "200 sse primer@1 -:progress -:progress -:progress open", kit.Last(call), "in order, and without ids")
		require.Equal(t, kit.UpTo(4), kit.Progress(t, call.Messages()))
		require.EqualValues(t, 1, c.Server().Stats().StoreFailed)
	})
}

// If the append succeeds in the end, it has only taken time.
func TestAnAppendThatDrags(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(op string, _ int) error {
			if op == "append" {
				kit.Elapse(time.Second)
			}
			return nil
		})
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call := c.CallTool("x", nil)
		tool := next()
		began := time.Now()
		go func() { _ = tool.Progress(0, 0, "") }()
		synctest.Wait()
		for i := 1; i < 5; i++ {
			require.NoError(t, tool.Progress(float64(i), 0, ""))
		}
		require.NoError(t, tool.CloseStream(0), "what has a number by now is written first")
		tool.Returns("done")
		require.Zero(t, time.Since(began))
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(5), kit.Progress(t, call.Messages()))
		require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Summaries(call)[0])
	})
}

// DELETE and Close do not wait for the store: neither for an append that blocks, nor for their own operations.
func TestAStuckStoreDelaysNoEnd(t *testing.T) {
	all := []string{"append", "drop", "dropsession"}
	for name, end := range map[string]func(*testing.T, *rejointest.Client, *kit.ManualTool){
		"DELETE": func(_ *testing.T, c *rejointest.Client, _ *kit.ManualTool) { c.Delete() },
		"Close":  func(_ *testing.T, c *rejointest.Client, _ *kit.ManualTool) { c.Server().Close() },
		"EndSession": func(t *testing.T, c *rejointest.Client, _ *kit.ManualTool) {
			require.NoError(t, c.Server().EndSession(kit.Session(t, c).Ref))
		},
		"End": func(_ *testing.T, _ *rejointest.Client, p *kit.ManualTool) { p.Session().End(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				store := kit.NewStuckStore(t)
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
				call, tool := kit.StuckCall(t, c, next, store)
				var tools []*kit.ManualTool
				for range 3 {
					c.CallTool("y", nil)
					tools = append(tools, next())
					require.NoError(t, tools[len(tools)-1].Progress(0, 0, ""))
				}
				store.Block(all...)
				kit.AtOnce(t, name, func() { end(t, c, tool) })
				require.Error(t, tool.Cause())
				for _, tool := range tools {
					require.Error(t, tool.Cause())
				}
				switch name {
				case "DELETE":
					require.Equal(t, "200 sse primer@0 1:progress closed", kit.Last(call))
				case "EndSession", "End": // the error needs no store; the second event had a number by then
					require.Equal(t, "200 sse primer@0 1:progress 3:error(-32000,2) ended closed", kit.Last(call))
				}
				kit.Elapse(20 * time.Second)
				require.Equal(t, 0, call.Open())
				require.Zero(t, c.Server().Stats().Sessions)
			})
		})
	}
}

// Without a deadline a store may block for ever. That affects only the stream of the operation that blocks.
func TestAStoreThatNeverAnswers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := kit.NewStuckStore(t)
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store, StoreTimeout: -1}})
		call, tool := kit.StuckCall(t, c, next, store)
		for range 100 {
			require.NoError(t, tool.Progress(2, 0, ""))
		}
		kit.Elapse(5 * time.Minute)
		require.Contains(t, kit.Last(call), "1:progress comment")
		other := c.CallTool("y", nil)
		next().Returns("done")
		require.Equal(t, `"done"`, string(other.Result()))
		call.Cancel("")
		require.ErrorIs(t, tool.Cause(), rejoin.ErrCancelled)
		c.Delete()
		require.Zero(t, call.Open())
	})
}

// The number of messages that wait for a slow store is limited.
func TestTheQueueOfASlowStoreIsBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := kit.NewStuckStore(t)
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call, tool := kit.StuckCall(t, c, next, store)
		big := map[string]string{"x": string(make([]byte, 1000))}
		n := 0
		for ; n < 10_000; n++ {
			if err := tool.Notify("notifications/x", big); err != nil {
				require.ErrorIs(t, err, rejoin.ErrFull)
				break
			}
		}
		require.Greater(t, n, 100)
		require.Less(t, n, 10_000, "a mebibyte")
		tool.Returns("done")
		kit.Elapse(6 * time.Second)
		require.Equal(t, `"done"`, string(call.Result()), "the response is always taken")
		require.Len(t, call.Messages(), 2+n+1)
	})
}

// A question that waits for a slow store, and then has no way to the client, is answered with the reason.
func TestAQuestionThatWaitedForTheStoreIsNotForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*rejointest.Client, *rejointest.Call, *kit.StuckStore)
		want error
	}{
		"the call is gone":        {func(_ *rejointest.Client, call *rejointest.Call, _ *kit.StuckStore) { call.Cancel("") }, rejoin.ErrCancelled},
		"the session is gone":     {func(c *rejointest.Client, _ *rejointest.Call, _ *kit.StuckStore) { c.Delete() }, rejoin.ErrSessionEnded},
		"there is no room for it": {func(_ *rejointest.Client, _ *rejointest.Call, store *kit.StuckStore) { store.Release() }, rejoin.ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				store := kit.NewStuckStore(t)
				store.Store = kit.FullStore{Store: store.Store, N: 2}
				c := rejointest.New(t, app, rejointest.Config{Capabilities: kit.Offers, Server: rejoin.Config{Store: store}})
				call, tool := kit.StuckCall(t, c, next, store)
				got := make(chan error, 1)
				tool.Session().AskFunc(tool.Ctx, "roots/list", nil, func(_ json.RawMessage, err error) { got <- err })
				test.then(c, call, store)
				kit.Elapse(time.Minute)
				require.Len(t, got, 1, "whoever asks waits for ever")
				require.ErrorIs(t, <-got, test.want)
			})
		})
	}
}
