package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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

// Invariant 8: what a client has not fetched of a running request is never evicted. The tool gets an error if there is no room, and its response is
// still accepted.
func TestAFullLogOfARunningRequest(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 64 << 10})
			c := rejointest.New(t, app, rejointest.Config{Version: version, Capabilities: kit.Offers, Server: rejoin.Config{Store: store}})
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(0, 0, ""))
			synctest.Wait()
			call.Cut()
			n := kit.Fill(t, tool, 1)
			require.Greater(t, n, 40)
			require.ErrorIs(t, tool.Ask(context.Background(), "roots/list", map[string]string{"x": strings.Repeat("x", 5000)}, nil), rejoin.ErrFull, "it is larger than the reserve")
			require.EqualValues(t, 2, c.Server().Stats().Full, "counted")
			require.NoError(t, tool.Cause(), "the call goes on")
			require.Zero(t, c.Server().Stats().Evicted)

			call.Poll() // gets everything that was accepted
			require.Equal(t, kit.UpTo(n+1), kit.Progress(t, call.Messages()))
			more := 0
			if version == kit.Polling {
				require.Regexp(t, ` retry closed$`, kit.Last(call), "it is let go, so that it comes back and acknowledges what it has")
				require.Zero(t, kit.Fill(t, tool, n+1), "it was written, but may have been lost on the way")
				call.Poll()
				more = kit.Fill(t, tool, n+1)
				require.Greater(t, more, 40, "so there is room again")
				call.Poll()
			} else {
				for ; more < 200; more++ {
					require.NoError(t, tool.Progress(float64(n+1+more), 0, strings.Repeat("x", 1000)), "it cannot be let go, and has read all")
					synctest.Wait()
				}
				require.Regexp(t, " open$", kit.Last(call))
			}
			require.Equal(t, kit.UpTo(1+n+more), kit.Progress(t, call.Messages()))

			call.Cut()
			tool.Returns(strings.Repeat("y", 100_000))
			call.Poll()
			require.Len(t, string(call.Result()), 100_002, "the response is always taken")
			require.Equal(t, kit.UpTo(1+n+more), kit.Progress(t, call.Messages()), "and nothing before it is lost")
		})
	}
}

// A full log does not delay others and leaves no gap: the next event that is accepted has the next number.
func TestNoGapWhereThereWasNoRoom(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: 64 << 10})
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call := c.CallTool("x", nil)
		tool := next()
		n := kit.Fill(t, tool, 0)
		require.NoError(t, tool.CloseStream(0), "it can still be closed")
		require.NoError(t, tool.Progress(float64(n), 0, ""), "something small fits")
		synctest.Wait()
		// The store may have had the client acknowledge what it had read, so it may have been sent away before the close, and may be again.
		require.NotContains(t, kit.Last(call), fmt.Sprintf(" %d:progress", n+1), "it came after the close")
		for got := 0; got <= n; got = len(kit.Progress(t, call.Messages())) {
			require.Regexp(t, ":progress retry closed$", kit.Last(call))
			call.Poll()
		}
		require.Equal(t, kit.UpTo(n+1), kit.Progress(t, call.Messages()))
		require.Regexp(t, fmt.Sprintf(` %d:progress open$`, n+1), kit.Last(call))
	})
}

// A question is accepted where progress has no more room, because its own session or all sessions together have reached the limit.
func TestAQuestionIsAskedWhereProgressHasNoRoom(t *testing.T) {
	for name, cfg := range map[string]eventstore.MemoryConfig{
		"a full session": {SessionBytes: 64 << 10},
		"a full store":   {SessionBytes: 256 << 10, TotalBytes: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := rejointest.New(t, app, rejointest.Config{
					Capabilities: kit.Offers, Server: rejoin.Config{Store: eventstore.NewMemory(cfg), Logger: kit.QuietLogger()},
					OnRequest: func(string, json.RawMessage) (any, error) { return "yes", nil },
				})
				for range 8 { // in other sessions, if there is room
					id := kit.OpenReady(t, c.Server())
					kit.Serve(c.Server(), kit.InSession(t, id, kit.CallBody("1", `{"_meta":{"progressToken":1}}`)))
					hostile := next()
					require.NoError(t, hostile.CloseStream(time.Hour))
					if cfg.TotalBytes > 0 {
						kit.Fill(t, hostile, 0)
					}
				}
				call := c.CallTool("x", nil)
				tool := next()
				require.NoError(t, tool.CloseStream(0))
				synctest.Wait()
				if cfg.TotalBytes == 0 {
					kit.Fill(t, tool, 0)
				}
				require.ErrorIs(t, tool.Progress(-1, 0, strings.Repeat("x", 3000)), rejoin.ErrFull)
				answer := tool.Asks(tool.Ctx, "roots/list")
				require.Empty(t, answer)
				call.Poll()
				require.Equal(t, `"yes"`, <-answer)
				tool.Returns("done")
				for call.Result() == nil {
					call.Poll()
				}
				require.Equal(t, `"done"`, string(call.Result()))
			})
		})
	}
}

// A client gets its response even from a store that does not accept it.
func TestAStoreThatRefusesTheResponse(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := kit.FullStore{Store: eventstore.NewMemory(eventstore.MemoryConfig{}), SealsToo: true}
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call := c.CallTool("x", nil)
		tool := next()
		require.ErrorIs(t, tool.Progress(0, 0, ""), rejoin.ErrFull)
		tool.Returns("done")
		require.Equal(t, "200 sse primer@0 -:result closed", kit.Last(call))
	})
}

// A client that has events which the store could forget is let go, so that it says by its poll that it has them. It gets its response then.
func TestAStoreThatRefusesTheResponseOfAClientThatWasLetGo(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := kit.FullStore{Store: eventstore.NewMemory(eventstore.MemoryConfig{}), N: 1, SealsToo: true}
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait() // it is written
		require.ErrorIs(t, tool.Progress(1, 0, ""), rejoin.ErrFull)
		tool.Returns("done")
		require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
		call.Poll()
		require.Equal(t, "200 sse primer@1 -:result closed", kit.Last(call))
	})
}

// A message may have 16 MiB. A larger response becomes an error.
func TestMessagesThatAreTooLarge(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{
			Capabilities: kit.Offers, Server: rejoin.Config{Store: eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: -1})},
		})
		call := c.CallTool("x", nil)
		tool := next()
		huge := json.RawMessage(`"` + strings.Repeat("x", 16<<20) + `"`)
		require.ErrorIs(t, tool.Notify("notifications/x", huge), rejoin.ErrTooLarge)
		require.ErrorIs(t, tool.Ask(context.Background(), "roots/list", huge, nil), rejoin.ErrTooLarge)
		tool.Returns(huge)
		e := call.Err()
		require.Equal(t, rejoin.CodeInternal, e.Code)
		require.Contains(t, e.Message, "16 MiB")
	})
}

// failing is a store in which operations of one kind fail, from the nth to the last one; last 0: for ever.
func failing(op string, n, last int) eventstore.Store {
	return storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(what string, i int) error {
		if what == op && i >= n && (last == 0 || i <= last) {
			return kit.ErrStore
		}
		return nil
	})
}

// Invariant 8: with a store that fails, no client waits for ever. The stream goes on without ids, so its client must not be disconnected.
func TestAStoreThatFails(t *testing.T) {
	for _, test := range []struct {
		from int // the first append that fails
		want string
	}{
		{1, "200 sse primer@0 -:progress -:progress -:result closed"},
		{2, "200 sse primer@0 1:progress -:progress -:result closed"},
		{3, "200 sse primer@0 1:progress 2:progress -:result closed"},
	} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: failing("append", test.from, 0)}})
			call := c.CallTool("x", nil)
			tool := next()
			for i := range 2 {
				require.NoError(t, tool.Progress(float64(i), 0, ""))
				if i+1 >= test.from {
					require.False(t, tool.Resumable())
					require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable)
				} else {
					require.True(t, tool.Resumable())
				}
			}
			tool.Returns("done")
			require.Equal(t, test.want, kit.Last(call))
			require.Equal(t, `"done"`, string(call.Result()))
			require.NotZero(t, c.Server().Stats().StoreFailed)
		})
	}
}

// A store that panics counts as failed: the stream goes on, later sends on it do not wait for ever, and the process survives.
func TestAStoreThatPanics(t *testing.T) {
	for _, test := range []struct {
		op     string
		want   string
		failed int64
	}{
		{"append", "200 sse primer@0 1:progress -:progress -:progress -:result closed", 2}, // it is tried again at the next event, and then no more
		{"log", "200 sse primer@0 -:progress -:progress -:progress -:result closed", 2},
		{"read", "200 sse primer@0 1:error(-32603,2) store closed", 1},
		{"mark", "200 sse primer@0 1:progress 2:progress 3:progress 4:result closed", 0},
		{"drop", "200 sse primer@0 1:progress 2:progress 3:progress 4:result closed", 0},
	} {
		t.Run(test.op, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				store := panicking{eventstore.NewMemory(eventstore.MemoryConfig{}), test.op}
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store, Logger: kit.QuietLogger()}})
				call := c.CallTool("x", nil)
				tool := next()
				for i := range 3 {
					require.NoError(t, tool.Progress(float64(i), 0, ""))
				}
				tool.Returns("done")
				require.Equal(t, test.want, kit.Last(call))
				require.Equal(t, test.failed, c.Server().Stats().StoreFailed)
				c.Delete()
				require.Zero(t, c.Server().Stats().Sessions)
				if test.op == "drop" {
					require.Positive(t, c.Server().Stats().StoreFailed)
				}
			})
		})
	}
}

// panicking is a store that panics in one operation: always, but for append only at the second event of a log.
type panicking struct {
	eventstore.Store
	op string
}

func (s panicking) in(op string) {
	if s.op == op {
		panic("the store is broken")
	}
}

func (s panicking) Log(k eventstore.Key) eventstore.Log {
	s.in("log")
	return panickingLog{s.Store.Log(k), s}
}

func (s panicking) DropSession(ctx context.Context, session string) error {
	s.in("drop")
	return s.Store.DropSession(ctx, session)
}

type panickingLog struct {
	eventstore.Log
	panicking
}

func (l panickingLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if first == 2 {
		l.in("append")
	}
	return l.Log.Append(ctx, first, events, seal)
}

func (l panickingLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	l.in("read")
	return l.Log.Read(ctx, after, buf, maxBytes)
}

func (l panickingLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	l.in("restore")
	return l.Log.Restore(ctx, first, events, seal)
}

func (l panickingLog) Mark(m eventstore.Mark) {
	l.in("mark")
	l.Log.Mark(m)
}

func (l panickingLog) Drop(ctx context.Context) error {
	l.in("drop")
	return l.Log.Drop(ctx)
}

// When the store works again, the next event has an id.
func TestAStoreThatFailsOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: failing("append", 2, 2)}})
		for _, want := range []string{
			"200 sse primer@0 1:progress -:progress 3:progress 4:result closed",
			"200 sse primer@0 1:progress 2:progress 3:progress 4:result closed",
		} {
			call := c.CallTool("x", nil)
			tool := next()
			for i := range 3 {
				require.NoError(t, tool.Progress(float64(i), 0, ""))
				synctest.Wait()
			}
			tool.Returns("done")
			require.Equal(t, want, kit.Last(call))
		}
	})
}

// CloseAfter does not disconnect a client that could not resume. A client that is disconnected when the store fails still gets everything.
func TestAStoreThatFailsWhileTheClientIsAway(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{
			KeepAlive: -1, Store: failing("append", 3, 0), Policy: rejoin.Policy{CloseAfter: time.Minute},
		}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		call.WaitClosed()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.NoError(t, tool.Progress(2, 0, ""))
		require.NoError(t, tool.Progress(3, 0, ""))
		call.Poll()
		require.Equal(t, "200 sse primer@1 2:progress -:progress -:progress open", kit.Last(call))
		kit.Elapse(time.Hour / 2)
		tool.Returns("done")
		require.Equal(t, "200 sse primer@1 2:progress -:progress -:progress -:result closed", kit.Last(call))
		require.Equal(t, kit.UpTo(4), kit.Progress(t, call.Messages()))
	})
}

// If a recorded event cannot be read, its client gets an error for its request. The call itself goes on.
func TestAStoreThatCannotRead(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: failing("read", 1, 0)}})
		listen := c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		require.Equal(t, "200 sse primer@0 1:error(-32603,2) store closed", kit.Last(call))
		require.NotContains(t, call.Wire(), kit.ErrStore.Error())
		require.NoError(t, tool.Cause())
		require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen), "nobody waits for a response there: its client may try again")
		tool.Returns("done")
		require.Equal(t, `{}`, string(c.Start("ping", nil).Result()), "and plain answers need no store")
	})
}

// A store that cannot drop a log does no harm.
func TestAStoreThatCannotDrop(t *testing.T) {
	for _, op := range []string{"drop", "dropsession"} {
		kit.Bubble(t, func(t *testing.T) {
			var told kit.Ends
			app := told.App()
			c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: failing(op, 1, 0), Policy: rejoin.Policy{Retain: time.Second}}})
			call := c.CallTool("x", nil)
			kit.Elapse(time.Second)
			require.Equal(t, "200 sse primer@0 open", kit.Last(call))
			call.Cancel("")
			kit.Elapse(time.Minute)
			c.Delete()
			require.Len(t, told.Ended, 1)
			require.Zero(t, c.Server().Stats().Sessions)
		})
	}
}
