package rejoin_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Invariant 5: a disconnect never cancels. The transports specification, "sending messages to the server" 6.
func TestADisconnectNeverCancels(t *testing.T) {
	for _, version := range []string{polling, legacy} {
		for name, lose := range map[string]func(*puppet, *rejointest.Call){
			"undecided": func(_ *puppet, call *rejointest.Call) { call.Cut() },
			"attached":  func(p *puppet, call *rejointest.Call) { _ = p.Progress(1, 0, ""); synctest.Wait(); call.Cut() },
			"frozen":    func(p *puppet, call *rejointest.Call) { _ = p.Progress(1, 0, ""); call.Freeze() },
			"many times": func(p *puppet, call *rejointest.Call) {
				for range 10 {
					_ = p.Progress(1, 0, "")
					synctest.Wait()
					call.Cut()
					elapse(time.Second)
					call.Poll()
				}
				call.Cut()
			},
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					app, next := puppets()
					c := rejointest.New(t, app, rejointest.Config{Version: version})
					call := c.CallTool("x", nil)
					tool := next()
					lose(tool, call)
					elapse(9 * time.Minute)
					require.NoError(t, tool.cause())
					require.NoError(t, tool.Progress(2, 0, ""))
					tool.returns("done")
					if name != "undecided" {
						call.Poll()
						require.Equal(t, `"done"`, string(call.Result()))
					}
				})
			})
		}
	}
}

// causes collects what an app is told.
type causes struct {
	mu        sync.Mutex
	cancelled []error // by the contexts of its calls
	ended     []error
}

func (c *causes) app() *fake {
	return &fake{
		request: func(call *rejoin.Call) {
			if call.Method() == "initialize" {
				accept(call)
				return
			}
			context.AfterFunc(call.Context(), func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.cancelled = append(c.cancelled, context.Cause(call.Context()))
			})
		},
		ended: func(cause error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ended = append(c.ended, cause)
		},
	}
}

// A call's context is cancelled with the cause, and the app is told when the session is over.
func TestWhatCancelsTellsWhy(t *testing.T) {
	for name, test := range map[string]struct {
		policy rejoin.Policy
		do     func(*rejointest.Client, *rejointest.Call)
		cause  error
		ended  bool // the session too
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
				elapse(time.Second)
				call.Cut()
				elapse(time.Minute + time.Second)
			}, cause: rejoin.ErrAbandoned,
		},
		"MaxRuntime": {
			policy: rejoin.Policy{MaxRuntime: time.Minute},
			do:     func(*rejointest.Client, *rejointest.Call) { elapse(time.Minute) }, cause: rejoin.ErrMaxRuntime,
		},
		"Close": {do: func(c *rejointest.Client, _ *rejointest.Call) { c.Server().Close() }, cause: rejoin.ErrShutdown, ended: true},
		"Drain": {do: func(c *rejointest.Client, _ *rejointest.Call) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = c.Server().Drain(ctx)
		}, cause: rejoin.ErrShutdown, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var told causes
				c := rejointest.New(t, told.app(), rejointest.Config{Server: rejoin.Config{Policy: test.policy}})
				test.do(c, c.CallTool("x", nil))
				synctest.Wait()
				require.Equal(t, []error{test.cause}, told.cancelled)
				if test.ended {
					require.Equal(t, []error{test.cause}, told.ended)
				} else {
					require.Empty(t, told.ended)
				}
			})
		})
	}
}

// After its response a call's context is cancelled, so that what was derived from it ends too.
func TestAContextEndsWithItsCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.cause())
		child, cancel := context.WithCancel(tool.ctx)
		defer cancel()
		tool.returns("done")
		require.ErrorIs(t, tool.cause(), context.Canceled)
		require.ErrorIs(t, child.Err(), context.Canceled)
	})
}

// AbandonAfter counts from when the client was told to be back, and each poll begins it anew.
func TestAbandonAfterCountsFromDueBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{AbandonAfter: time.Minute}}})
		call := c.CallTool("x", nil)
		tool := next()
		for range 3 {
			require.NoError(t, tool.CloseStream(time.Hour/2))
			elapse(call.WaitClosed() + time.Minute - time.Millisecond)
			require.NoError(t, tool.cause(), "it is not overdue before it was told to be back")
			call.Poll()
			require.Equal(t, 1, call.Open())
		}
		require.NoError(t, tool.CloseStream(time.Hour/2))
		elapse(call.WaitClosed() + time.Minute + time.Millisecond)
		require.ErrorIs(t, tool.cause(), rejoin.ErrAbandoned)
		require.EqualValues(t, 1, c.Server().Stats().Abandoned)
		call.Poll()
		require.JSONEq(t, `{"reason":"abandoned"}`, string(call.Err().Data))
	})
}

// A cancellation of something that is not there, or not yet, harms nobody; initialize cannot be cancelled at all.
func TestCancellationsThatDoNotApply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		for _, params := range []string{
			``, `,"params":{}`, `,"params":{"requestId":"2"}`, `,"params":{"requestId":99}`, `,"params":{"requestId":null}`,
			`,"params":{"requestId":2.0}`, `,"params":{"requestId":1}`, `,"params":{"requestId":[2]}`,
		} {
			body, res := post(t, c, `{"jsonrpc":"2.0","method":"notifications/cancelled"`+params+`}`)
			require.Equal(t, 202, res.StatusCode, params)
			require.Empty(t, body)
			require.NoError(t, tool.cause(), params)
		}
		call.Cancel("")
		require.ErrorIs(t, tool.cause(), rejoin.ErrCancelled)
		call.Cancel("")
		require.Equal(t, "200 sse closed", last(call))
	})
}

// Of a request that its client has cancelled nothing is left to fetch, also where the connection has not noticed yet, and also from
// further back.
func TestACancelledRequestIsNotResumed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{})
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
		require.Equal(t, "204 sse answered", last(call))
	})
}

// The id of a request that was cancelled, or answered, or that nobody can read the answer of, is free again.
func TestWhenAnIDIsFreeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		id := next().Session().ID()
		same := func() (string, string) {
			w := serve(c.Server(), inSession(t, id, `{"jsonrpc":"2.0","id":"same","method":"x"}`))
			return w.story(), w.body.String()
		}
		now, _ := same()
		require.Equal(t, "open", now)
		first := next()
		now, body := same()
		require.Equal(t, `400 error(-32600,"same") ended`, now)
		require.Contains(t, body, "in flight")
		first.returns("done")
		now, _ = same()
		require.Equal(t, "open", now, "answered")
		second := next()
		c.Notify("notifications/cancelled", map[string]any{"requestId": "same"})
		require.ErrorIs(t, second.cause(), rejoin.ErrCancelled)
		now, _ = same()
		require.Equal(t, "open", now, "cancelled")
		third := next()
		require.NoError(t, third.Progress(1, 0, ""))
		require.NoError(t, third.CloseStream(0))
		now, _ = same()
		require.Equal(t, `400 error(-32600,"same") ended`, now, "parked is in flight")
	})
}

// A request that runs, and a connection, are signs of life. Without any, the session ends.
func TestIdleSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told causes
		var call *rejoin.Call
		app := told.app()
		app.request = func(c *rejoin.Call) {
			if c.Method() == "x" {
				call = c
				return
			}
			accept(c)
		}
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{
			SessionIdleTTL: time.Minute, Policy: rejoin.Policy{AbandonAfter: -1},
		}})
		elapse(59 * time.Second)
		c.Notify("notifications/x", nil)
		elapse(59 * time.Second)
		c.Start("ping", nil).Result()
		elapse(59 * time.Second)
		x := c.Start("x", nil)
		elapse(time.Hour)
		x.Cut()
		elapse(time.Hour)
		require.Len(t, sessions(c.Server()), 1, "a request runs")
		require.NoError(t, call.Reply(nil))
		listen := c.Listen()
		elapse(time.Hour)
		require.Len(t, sessions(c.Server()), 1, "a connection is open")
		listen.Cut()
		elapse(time.Minute + time.Second - time.Nanosecond) // it is due back in a second
		require.Len(t, sessions(c.Server()), 1)
		elapse(time.Nanosecond)
		require.Empty(t, sessions(c.Server()))
		require.Equal(t, []error{rejoin.ErrSessionEnded}, told.ended)
		require.Empty(t, told.cancelled)
		require.Equal(t, -32001, c.Start("ping", nil).Err().Code)
	})
}
