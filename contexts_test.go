package rejoin

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/lazy"
)

// Package context finds the inner context of a lazy.Context. So derived contexts are cancelled at once, not by goroutines that wait, and end
// with its cause. See lazy.Context.Value.
func TestContextOfACallIsKnownToItsPackage(t *testing.T) {
	type key struct{}
	enough := errors.New("enough")
	for name, c := range map[string]context.Context{
		"a call":         &callContext{Context: lazy.Context{Values: context.WithValue(t.Context(), key{}, 1)}},
		"a session":      &lazy.Context{},
		"a notification": &notificationContext{values: context.WithValue(t.Context(), key{}, 1), s: &Session{}},
	} {
		derived, cancel := context.WithCancel(c)
		defer cancel()
		require.NoError(t, derived.Err(), name)
		switch c := c.(type) {
		case *callContext:
			require.Equal(t, 1, c.Value(key{}))
			c.Cancel(enough)
		case *lazy.Context:
			require.Nil(t, c.Value(key{}))
			c.Cancel(enough)
		case *notificationContext:
			require.Equal(t, 1, c.Value(key{}))
			c.s.context().Cancel(enough)
		}
		require.ErrorIs(t, derived.Err(), context.Canceled, "%s: a goroutine would need some time for it", name)
		require.Equal(t, enough, context.Cause(derived), name)
		require.Equal(t, enough, context.Cause(c), name)
		require.ErrorIs(t, c.Err(), context.Canceled, name)
	}
}
