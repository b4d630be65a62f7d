package calls_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Session.Ask waits as Handle.Ask does, on the stream that Notify would use.
func TestASessionAsksAndWaits(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{OnRequest: func(string, json.RawMessage) (any, error) { return map[string]int{"n": 1}, nil }})
		call := c.CallTool("x", nil)
		tool := next()
		s := tool.Session()
		var got struct{ N int }

		require.NoError(t, s.Ask(tool.Ctx, "roots/list", nil, &got), "in the call")
		require.Equal(t, 1, got.N)
		require.Len(t, asked(t, call.Messages()), 1)

		listen := c.Listen()
		require.NoError(t, s.Ask(t.Context(), "roots/list", nil, nil), "outside of it")
		require.Len(t, asked(t, listen.Messages()), 1)

		listen.Cut()
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Ask(ctx, "roots/list", nil, nil) }()
		kit.Elapse(0)
		cancel(enough)
		require.Equal(t, enough, <-done, "its context has ended while no client was there to be asked")
		require.Equal(t, enough, s.Ask(ctx, "roots/list", nil, nil), "and before")

		call.Cut()
		go func() { done <- s.Ask(tool.Ctx, "roots/list", nil, nil) }()
		kit.Elapse(0)
		tool.Returns("done")
		require.Equal(t, rejoin.ErrEnded, <-done, "its call was answered")
		go func() { done <- s.Ask(t.Context(), "roots/list", nil, nil) }()
		kit.Elapse(0)
		s.End(nil)
		require.ErrorIs(t, <-done, rejoin.ErrSessionEnded)
	})
}
