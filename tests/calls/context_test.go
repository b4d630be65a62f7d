package calls_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A tool may call Done or Err of its context, or context.Cause, at any time: before the end of the call, or only after it.
func TestTheEndOfACallsContext(t *testing.T) {
	for name, early := range map[string]bool{"asked before": true, "asked after": false} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{})
				for why, end := range map[error]func(call *rejointest.Call){
					rejoin.ErrCancelled: func(call *rejointest.Call) { call.Cancel("") },
					context.Canceled:    nil,
				} {
					call := c.CallTool("x", nil)
					tool := next()
					ctx := tool.Ctx
					ended := false
					if early {
						require.NoError(t, ctx.Err())
						require.NoError(t, context.Cause(ctx))
						context.AfterFunc(ctx, func() { ended = true })
					}
					if end == nil {
						tool.Returns("done")
					} else {
						end(call)
					}
					synctest.Wait()
					require.Equal(t, early, ended)
					require.ErrorIs(t, ctx.Err(), context.Canceled)
					require.ErrorIs(t, context.Cause(ctx), why)
					<-ctx.Done()
					derived, stop := context.WithCancel(ctx)
					require.ErrorIs(t, context.Cause(derived), why)
					stop()
				}
			})
		})
	}
}

// A context that is derived from a tool's context needs no goroutine, and the end of the HTTP request does not end it.
func TestACallsContextIsItsOwn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Notify("notifications/message", nil))
		before := len(kit.Goroutines())
		for range 10 {
			ctx, stop := context.WithCancelCause(context.WithValue(tool.Ctx, tool, 1))
			defer stop(errors.New("unused"))
			require.NotNil(t, ctx.Done())
		}
		require.Len(t, kit.Goroutines(), before)
		_, limited := tool.Ctx.Deadline()
		require.False(t, limited)
		require.NotNil(t, tool.Ctx.Value(http.LocalAddrContextKey), "the values are the request's")
		call.Cut()
		synctest.Wait()
		require.NoError(t, tool.Ctx.Err())
		tool.Returns("done")
	})
}
