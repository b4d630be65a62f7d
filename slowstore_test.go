package rejoin_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// stuck is a store whose operations of some kinds block from the moment at which the test says so until it says that they may go on.
type stuck struct {
	eventstore.Store
	mu      sync.Mutex
	block   map[string]bool
	release chan struct{}
	once    sync.Once
}

func newStuck(t *testing.T) *stuck {
	s := &stuck{block: map[string]bool{}, release: make(chan struct{})}
	s.Store = storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(op string, _ int) error {
		s.mu.Lock()
		block := s.block[op]
		s.mu.Unlock()
		if block {
			<-s.release
		}
		return nil
	})
	t.Cleanup(s.goOn) // before the bubble ends
	return s
}

// goOn ends it.
func (s *stuck) goOn() {
	s.on()
	s.once.Do(func() { close(s.release) })
}

// on makes those operations block that begin from now on; no others do.
func (s *stuck) on(ops ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block = map[string]bool{}
	for _, op := range ops {
		s.block[op] = true
	}
}

// atOnce fails the test if f takes time.
func atOnce(t *testing.T, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	require.Zero(t, time.Since(began), "%s waits for the store", what)
}

// stuckCall is a call whose goroutine is stuck in an append of its second message.
func stuckCall(t *testing.T, c *rejointest.Client, next func() *puppet, store *stuck) (*rejointest.Call, *puppet) {
	t.Helper()
	call := c.CallTool("x", nil)
	tool := next()
	require.NoError(t, tool.Progress(0, 0, ""))
	store.on("append")
	go func() { _ = tool.Progress(1, 0, "") }()
	synctest.Wait()
	store.on()
	require.Equal(t, "200 sse primer@0 1:progress open", last(call))
	return call, tool
}

// Invariant 9: no store call runs under a lock. So a store that is stuck in one append delays the stream it was for, and nothing else.
func TestAnAppendThatBlocksDelaysItsStreamOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		store := newStuck(t)
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call, tool := stuckCall(t, c, next, store)
		atOnce(t, "another goroutine of the same call", func() {
			require.NoError(t, tool.Progress(2, 0, ""))
			require.NoError(t, tool.Notify("notifications/progress", map[string]int{"progress": 3}))
			require.NoError(t, tool.CloseStream(0))
			require.True(t, tool.Resumable())
		})
		atOnce(t, "a poll", func() {
			call.Poll()
			require.Equal(t, "200 sse primer@1 open", last(call))
		})
		atOnce(t, "another call", func() {
			other := c.CallTool("y", nil)
			t2 := next()
			require.NoError(t, t2.Progress(0, 0, ""))
			t2.returns("done")
			require.Equal(t, "200 sse primer@0 1:progress 2:result closed", last(other))
		})
		atOnce(t, "the standalone stream", func() {
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
			require.Equal(t, "200 sse primer@0 1:x open", last(c.Listen()))
		})
		atOnce(t, "another session", func() {
			_, res := post(t, c, initialize, "Mcp-Session-Id", "")
			body, _ := post(t, c, ping, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))
			require.Equal(t, "result", shape(body))
		})
		atOnce(t, "what an operator looks at", func() {
			c.Server().Stats()
			require.Len(t, sessions(c.Server()), 2)
		})
		elapse(6 * time.Second) // StoreTimeout is 5 s
		require.Equal(t, "200 sse primer@1 -:progress -:progress -:progress open", last(call), "in order, and without ids")
		require.Equal(t, upTo(4), progress(t, call.Messages()))
		require.EqualValues(t, 1, c.Server().Stats().StoreFailed)
	})
}

// Where the append succeeds after all, only time was lost.
func TestAnAppendThatDrags(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		store := storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(op string, _ int) error {
			if op == "append" {
				elapse(time.Second)
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
		tool.returns("done")
		require.Zero(t, time.Since(began))
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, upTo(5), progress(t, call.Messages()))
		require.Equal(t, "200 sse primer@0 1:progress retry closed", story(call)[0])
	})
}

// DELETE and Close do not wait for a store: neither for the append that is stuck, nor for what they themselves give to it.
func TestAStuckStoreDelaysNoEnd(t *testing.T) {
	all := []string{"append", "drop", "dropsession"}
	for name, end := range map[string]func(*testing.T, *rejointest.Client, *puppet){
		"DELETE": func(_ *testing.T, c *rejointest.Client, _ *puppet) { c.Delete() },
		"Close":  func(_ *testing.T, c *rejointest.Client, _ *puppet) { c.Server().Close() },
		"EndSession": func(t *testing.T, c *rejointest.Client, _ *puppet) {
			require.NoError(t, c.Server().EndSession(session(t, c).Ref))
		},
		"End": func(_ *testing.T, _ *rejointest.Client, p *puppet) { p.Session().End(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				app, next := puppets()
				store := newStuck(t)
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
				call, tool := stuckCall(t, c, next, store)
				var tools []*puppet
				for range 3 {
					c.CallTool("y", nil)
					tools = append(tools, next())
					require.NoError(t, tools[len(tools)-1].Progress(0, 0, ""))
				}
				store.on(all...)
				atOnce(t, name, func() { end(t, c, tool) })
				require.Error(t, tool.cause())
				for _, tool := range tools {
					require.Error(t, tool.cause())
				}
				if name != "Close" {
					require.Equal(t, "200 sse primer@0 1:progress closed", last(call))
				}
				elapse(20 * time.Second)
				require.Equal(t, 0, call.Open())
				require.Zero(t, c.Server().Stats().Sessions)
			})
		})
	}
}

// A store without a deadline may block for ever. What is stuck in it is its own stream's misfortune.
func TestAStoreThatNeverAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		store := newStuck(t)
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store, StoreTimeout: -1}})
		call, tool := stuckCall(t, c, next, store)
		for range 100 {
			require.NoError(t, tool.Progress(2, 0, ""))
		}
		elapse(5 * time.Minute)
		require.Contains(t, last(call), "1:progress comment")
		other := c.CallTool("y", nil)
		next().returns("done")
		require.Equal(t, `"done"`, string(other.Result()))
		call.Cancel("")
		require.ErrorIs(t, tool.cause(), rejoin.ErrCancelled)
		c.Delete()
		require.Zero(t, call.Open())
	})
}

// What waits for a slow store is bounded.
func TestTheQueueOfASlowStoreIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		store := newStuck(t)
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call, tool := stuckCall(t, c, next, store)
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
		tool.returns("done")
		elapse(6 * time.Second)
		require.Equal(t, `"done"`, string(call.Result()), "the response is always taken")
		require.Len(t, call.Messages(), 2+n+1)
	})
}

// A question that waits for a slow store, and then finds no way to the client, is answered with the reason.
func TestAQuestionThatWaitedForTheStoreIsNotForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*rejointest.Client, *rejointest.Call, *stuck)
		want error
	}{
		"the call is gone":        {func(_ *rejointest.Client, call *rejointest.Call, _ *stuck) { call.Cancel("") }, rejoin.ErrCancelled},
		"the session is gone":     {func(c *rejointest.Client, _ *rejointest.Call, _ *stuck) { c.Delete() }, rejoin.ErrSessionEnded},
		"there is no room for it": {func(_ *rejointest.Client, _ *rejointest.Call, store *stuck) { store.goOn() }, rejoin.ErrFull},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				app, next := puppets()
				store := newStuck(t)
				store.Store = fullAfter{store.Store, 2, false}
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
				call, tool := stuckCall(t, c, next, store)
				got := make(chan error, 1)
				tool.Session().Ask(tool.ctx, "roots/list", nil, func(_ json.RawMessage, err error) { got <- err })
				test.then(c, call, store)
				elapse(time.Minute)
				require.Len(t, got, 1, "whoever asks waits for ever")
				require.ErrorIs(t, <-got, test.want)
			})
		})
	}
}

// fullAfter is a store that is full after the first n events of a log, but for what seals it, or also for that.
type fullAfter struct {
	eventstore.Store
	n        uint64
	sealsToo bool
}

func (s fullAfter) Log(k eventstore.Key) eventstore.Log { return fullLog{s.Store.Log(k), s} }

type fullLog struct {
	eventstore.Log
	fullAfter
}

func (l fullLog) Append(ctx context.Context, seq uint64, data []byte, seal bool) error {
	if seq > l.n && (!seal || l.sealsToo) {
		return eventstore.ErrFull
	}
	return l.Log.Append(ctx, seq, data, seal)
}
