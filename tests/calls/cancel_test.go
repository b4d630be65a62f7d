package calls_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Invariant 5: a disconnect never cancels. The transports specification, "sending messages to the server" 6.
func TestADisconnectNeverCancels(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy} {
		for name, lose := range map[string]func(*kit.ManualTool, *rejointest.Call){
			"undecided": func(_ *kit.ManualTool, call *rejointest.Call) { call.Cut() },
			"attached":  func(p *kit.ManualTool, call *rejointest.Call) { _ = p.Progress(1, 0, ""); synctest.Wait(); call.Cut() },
			"frozen":    func(p *kit.ManualTool, call *rejointest.Call) { _ = p.Progress(1, 0, ""); call.Freeze() },
			"many times": func(p *kit.ManualTool, call *rejointest.Call) {
				for range 10 {
					_ = p.Progress(1, 0, "")
					synctest.Wait()
					call.Cut()
					kit.Elapse(time.Second)
					call.Poll()
				}
				call.Cut()
			},
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					app, next := kit.ManualTools()
					c := kit.New(t, app, rejointest.Config{Version: version})
					call := c.CallTool("x", nil)
					tool := next()
					lose(tool, call)
					kit.Elapse(9 * time.Minute)
					require.NoError(t, tool.Cause())
					require.NoError(t, tool.Progress(2, 0, ""))
					tool.Returns("done")
					if name != "undecided" {
						call.Poll()
						require.Equal(t, `"done"`, string(call.Result()))
					}
				})
			})
		}
	}
}

// A call's context is cancelled with the cause, and the app is told when the session ends.
func TestWhatCancelsTellsWhy(t *testing.T) {
	for name, test := range map[string]struct {
		policy rejoin.Policy
		do     func(*rejointest.Client, *rejointest.Call)
		cause  error
		ended  bool // the session ends too
	}{
		"notifications/cancelled": {do: func(_ *rejointest.Client, call *rejointest.Call) { call.Cancel("") }, cause: rejoin.ErrCancelled},
		"DELETE":                  {do: func(c *rejointest.Client, _ *rejointest.Call) { c.Delete() }, cause: rejoin.ErrSessionEnded, ended: true},
		"EndSession": {do: func(c *rejointest.Client, _ *rejointest.Call) {
			for info := range c.Server().Sessions() {
				_ = c.Server().EndSession(info.Ref)
			}
		}, cause: rejoin.ErrSessionEnded, ended: true},
		"AbandonAfter": {
			policy: rejoin.Policy{AbandonAfter: time.Minute, StreamAfter: time.Millisecond},
			do: func(_ *rejointest.Client, call *rejointest.Call) {
				kit.Elapse(time.Second)
				call.Cut()
				kit.Elapse(time.Minute + time.Second)
			}, cause: rejoin.ErrAbandoned,
		},
		"MaxRuntime": {
			policy: rejoin.Policy{MaxRuntime: time.Minute},
			do:     func(*rejointest.Client, *rejointest.Call) { kit.Elapse(time.Minute) }, cause: rejoin.ErrMaxRuntime,
		},
		"Close": {do: func(c *rejointest.Client, _ *rejointest.Call) { c.Server().Close() }, cause: rejoin.ErrShutdown, ended: true},
		"Drain": {do: func(c *rejointest.Client, _ *rejointest.Call) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = c.Server().Drain(ctx)
		}, cause: rejoin.ErrShutdown, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var told kit.Ends
				c := kit.New(t, told.App(), rejointest.Config{Server: rejoin.Config{Policy: test.policy}})
				test.do(c, c.CallTool("x", nil))
				synctest.Wait()
				require.Equal(t, []error{test.cause}, told.Cancelled)
				if test.ended {
					require.Equal(t, []error{test.cause}, told.Ended)
				} else {
					require.Empty(t, told.Ended)
				}
			})
		})
	}
}

// After its response a call's context is cancelled, and so are contexts derived from it.
func TestAContextEndsWithItsCall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Cause())
		child, cancel := context.WithCancel(tool.Ctx)
		defer cancel()
		tool.Returns("done")
		require.ErrorIs(t, tool.Cause(), context.Canceled)
		require.ErrorIs(t, child.Err(), context.Canceled)
	})
}

// AbandonAfter counts from the time at which the client was told to poll. Each poll starts it again.
func TestAbandonAfterCountsFromDueBack(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{AbandonAfter: time.Minute}}})
		call := c.CallTool("x", nil)
		tool := next()
		for range 3 {
			require.NoError(t, tool.CloseStream(time.Hour/2))
			kit.Elapse(call.WaitClosed() + time.Minute - time.Millisecond)
			require.NoError(t, tool.Cause(), "it is not overdue before it was told to be back")
			call.Poll()
			require.Equal(t, 1, call.Open())
		}
		require.NoError(t, tool.CloseStream(time.Hour/2))
		kit.Elapse(call.WaitClosed() + time.Minute + time.Millisecond)
		require.ErrorIs(t, tool.Cause(), rejoin.ErrAbandoned)
		require.EqualValues(t, 1, c.Server().Stats().Abandoned)
		call.Poll()
		require.JSONEq(t, `{"reason":"abandoned"}`, string(call.Err().Data))
	})
}

// A cancellation of an unknown request does no harm, and initialize cannot be cancelled.
func TestCancellationsThatDoNotApply(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		for _, params := range []string{
			``, `,"params":{}`, `,"params":{"requestId":"2"}`, `,"params":{"requestId":99}`, `,"params":{"requestId":null}`,
			`,"params":{"requestId":2.5}`, `,"params":{"requestId":1}`, `,"params":{"requestId":[2]}`,
		} {
			body, res := kit.Post(t, c, `{"jsonrpc":"2.0","method":"notifications/cancelled"`+params+`}`)
			require.Equal(t, 202, res.StatusCode, params)
			require.Empty(t, body)
			require.NoError(t, tool.Cause(), params)
		}
		call.Cancel("")
		require.ErrorIs(t, tool.Cause(), rejoin.ErrCancelled)
		call.Cancel("")
		require.Equal(t, "200 sse closed", kit.Last(call))
	})
}

// Nothing of a request that its client has cancelled can be fetched, also before the connection has noticed the cancellation, and also from an
// earlier event.
func TestACancelledRequestIsNotResumed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		first := call.IDs()[0]
		call.Freeze()
		for i := range 30 {
			require.NoError(t, tool.Progress(float64(i+1), 0, strings.Repeat("x", 10_000)))
		}
		call.Cancel("")
		require.EqualValues(t, 1, c.Server().Stats().Connections, "it cannot be told")
		call.PollFrom(first)
		require.Equal(t, "204 sse answered", kit.Last(call))
	})
}

// The id of a request is free again when the request was cancelled or answered, or when its answer can never reach the client.
func TestWhenAnIDIsFreeAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		id := next().Session().ID()
		same := func() (string, string) {
			w := kit.Serve(c.Server(), kit.InSession(t, id, `{"jsonrpc":"2.0","id":"same","method":"x"}`))
			return w.Summary(), w.Body.String()
		}
		now, _ := same()
		require.Equal(t, "open", now)
		first := next()
		now, body := same()
		require.Equal(t, `400 error(-32600,"same") ended`, now)
		require.Contains(t, body, "in flight")
		first.Returns("done")
		now, _ = same()
		require.Equal(t, "open", now, "answered")
		second := next()
		c.Notify("notifications/cancelled", map[string]any{"requestId": "same"})
		require.ErrorIs(t, second.Cause(), rejoin.ErrCancelled)
		now, _ = same()
		require.Equal(t, "open", now, "cancelled")
		third := next()
		require.NoError(t, third.Progress(1, 0, ""))
		require.NoError(t, third.CloseStream(0))
		now, _ = same()
		require.Equal(t, `400 error(-32600,"same") ended`, now, "parked is in flight")
	})
}

// A running request keeps its session, and so does a connection. Without both the session expires.
func TestIdleSessions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var told kit.Ends
		var call *rejoin.Call
		app := told.App()
		app.OnRequest = func(c *rejoin.Call) {
			if c.Method() == "x" {
				call = c
				return
			}
			kit.Accept(c)
		}
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{
			SessionIdleTTL: time.Minute, Policy: rejoin.Policy{AbandonAfter: -1},
		}})
		kit.Elapse(59 * time.Second)
		c.Notify("notifications/x", nil)
		kit.Elapse(59 * time.Second)
		c.Start("ping", nil).Result()
		kit.Elapse(59 * time.Second)
		x := c.Start("x", nil)
		kit.Elapse(time.Hour)
		x.Cut()
		kit.Elapse(time.Hour)
		require.Len(t, kit.Sessions(c.Server()), 1, "a request runs")
		require.NoError(t, call.Reply(nil))
		listen := c.Listen()
		kit.Elapse(time.Hour)
		require.Len(t, kit.Sessions(c.Server()), 1, "a connection is open")
		listen.Cut()
		kit.Elapse(time.Minute + time.Second - time.Nanosecond) // the client is due in a second
		require.Len(t, kit.Sessions(c.Server()), 1)
		kit.Elapse(time.Nanosecond)
		require.Empty(t, kit.Sessions(c.Server()))
		require.Equal(t, []error{rejoin.ErrSessionEnded}, told.Ended)
		require.Empty(t, told.Cancelled)
		require.Equal(t, -32001, c.Start("ping", nil).Err().Code)
	})
}
