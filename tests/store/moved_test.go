package store_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
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

// An append or a read says that another process owns the session. Then the session ends in this process: clients that can poll are told to, calls are
// cancelled with the reason, the app is told, and nothing more of the session is appended or dropped.
func TestAFencedSession(t *testing.T) {
	for _, op := range []string{"append", "read"} {
		for _, version := range []string{kit.Polling, kit.Legacy} {
			t.Run(op+" "+version, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					var fenced atomic.Bool
					var after, drops atomic.Int64
					store := storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(what string, _ int) error {
						switch {
						case !fenced.Load():
						case what == "append" || what == "read":
							after.Add(1)
						default:
							drops.Add(1)
						}
						if fenced.Load() && what == op {
							return eventstore.ErrFenced
						}
						return nil
					})
					var ends kit.Ends
					calls := make(chan *rejoin.Call, 10)
					app := ends.App()
					cancels := app.OnRequest
					app.OnRequest = func(c *rejoin.Call) {
						cancels(c)
						if c.Method() != "initialize" {
							calls <- c
						}
					}
					var log kit.Log
					c := rejointest.New(t, app, rejointest.Config{Version: version, Server: rejoin.Config{
						Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					}})
					listen := c.Listen()
					attached := c.Start("x", nil)
					call := <-calls
					require.NoError(t, call.Handle().Progress(0, 0, ""))
					require.NoError(t, call.Handle().Notify("notifications/x", nil))
					undecided := c.Start("x", nil)
					<-calls
					synctest.Wait()
					fenced.Store(true)
					err := call.Handle().Notify("notifications/x", nil)
					if op == "append" {
						require.ErrorIs(t, err, rejoin.ErrMoved)
					}
					synctest.Wait()
					for range 3 {
						require.ErrorIs(t, call.Handle().Notify("notifications/x", nil), rejoin.ErrSessionEnded)
					}
					_ = call.Reply(nil)
					ofCall, ofListen := ` -:error\(-32000,2\) moved closed$`, " closed$" // it cannot come back
					if version == kit.Polling {
						ofCall, ofListen = " retry closed$", " retry closed$"
						require.NotContains(t, kit.Last(attached), "error")
					}
					require.Regexp(t, ofCall, kit.Last(attached))
					require.Regexp(t, ofListen, kit.Last(listen))
					require.Equal(t, "200 error(-32000,3) moved answered", kit.Last(undecided), "it may have run, and is not to be sent again")
					require.Equal(t, []error{rejoin.ErrMoved, rejoin.ErrMoved}, ends.Cancelled)
					require.Equal(t, []error{rejoin.ErrMoved}, ends.Ended)
					require.ErrorIs(t, rejoin.ErrMoved, rejoin.ErrSessionEnded)
					kit.Elapse(time.Minute)
					require.LessOrEqual(t, after.Load(), int64(2), "the one that was fenced")
					require.Zero(t, drops.Load(), "it is another process's now")
					stats := c.Server().Stats()
					require.EqualValues(t, 1, stats.Moved)
					require.Zero(t, stats.Sessions+stats.Streams+stats.Connections+stats.StoreFailed)
					require.Equal(t, 1, log.Count("another process owns"))
				})
			})
		}
	}
}

// fencedStore is a store that refuses every operation once fenced is set: another process owns the session.
func fencedStore() (store eventstore.Store, fenced *atomic.Bool) {
	fenced = &atomic.Bool{}
	store = storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(string, int) error {
		if fenced.Load() {
			return eventstore.ErrFenced
		}
		return nil
	})
	return store, fenced
}

// Many appends, reads and closes of one session learn at once that the session has moved. It ends once.
func TestFencesCross(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		store, fenced := fencedStore()
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store, Logger: kit.QuietLogger()}})
		var calls []*rejointest.Call
		for range 32 {
			calls = append(calls, c.CallTool("x", nil))
			tool := next()
			go func() {
				for i := 0; tool.Ctx.Err() == nil; i++ {
					if err := tool.Progress(float64(i), 0, ""); err != nil && !errors.Is(err, rejoin.ErrSessionEnded) && !errors.Is(err, rejoin.ErrEnded) {
						t.Error(err)
					}
					_ = tool.CloseStream(time.Millisecond)
					kit.Elapse(time.Millisecond)
				}
				if !errors.Is(context.Cause(tool.Ctx), rejoin.ErrMoved) {
					t.Error(context.Cause(tool.Ctx))
				}
			}()
		}
		kit.Elapse(20 * time.Millisecond)
		fenced.Store(true)
		kit.Elapse(time.Second)
		for _, call := range calls {
			require.Regexp(t, " (closed|answered)$", kit.Last(call))
			call.Poll()
			require.Equal(t, http.StatusNotFound, call.Status())
		}
		require.EqualValues(t, 1, c.Server().Stats().Moved)
	})
}

// A batch whose answer is undecided gets an error for each of its requests.
func TestAFencedBatch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		store, fenced := fencedStore()
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Version: "2025-03-26", Server: rejoin.Config{
			Store: store, Logger: kit.QuietLogger(), Policy: rejoin.Policy{StreamAfter: -1},
		}})
		c.CallTool("x", nil)
		tool := next()
		answer := make(chan string, 1)
		go func() {
			body, _ := kit.Post(t, c, `[{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x"}},{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"x"}}]`)
			answer <- body
		}()
		next()
		next()
		fenced.Store(true)
		require.ErrorIs(t, tool.Progress(0, 0, ""), rejoin.ErrMoved)
		moved := `,"error":{"code":-32000,"message":"another process owns the session now; the request may have run","data":{"reason":"moved"}}}`
		require.JSONEq(t, `[{"jsonrpc":"2.0","id":"a"`+moved+`,{"jsonrpc":"2.0","id":"b"`+moved+`]`, <-answer)
	})
}
