package lifetime_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A notification's context ends when its session ends, and has the cause of that: directly, in a derived context, and if it is read only later.
func TestTheContextOfANotificationEndsWithItsSession(t *testing.T) {
	for name, end := range map[string]struct {
		do    func(*rejointest.Client)
		cause error
	}{
		"DELETE":       {func(c *rejointest.Client) { c.Delete() }, rejoin.ErrSessionEnded},
		"Server.Close": {func(c *rejointest.Client) { c.Server().Close() }, rejoin.ErrShutdown},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				var told []*rejoin.Notification
				app := &kit.Fake{OnNotification: func(n *rejoin.Notification) { told = append(told, n) }}
				c := rejointest.New(t, app, rejointest.Config{})
				c.Notify("notifications/x", nil)
				c.Notify("notifications/y", nil)
				synctest.Wait()
				require.NotEmpty(t, told)
				ctx, late := told[len(told)-1].Context(), told[len(told)-2].Context()
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				own, giveUp := context.WithCancel(ctx)
				giveUp()
				require.ErrorIs(t, own.Err(), context.Canceled)
				require.NoError(t, ctx.Err(), "the request has been answered, and the session lasts")
				require.NoError(t, derived.Err())
				require.Same(t, c.Server(), rejoin.ServerFromContext(derived))

				end.do(c)
				synctest.Wait()
				<-derived.Done()
				for what, ctx := range map[string]context.Context{"itself": ctx, "derived": derived, "not looked at before": late} {
					require.ErrorIs(t, ctx.Err(), context.Canceled, what)
					require.ErrorIs(t, context.Cause(ctx), end.cause, what)
				}
			})
		})
	}
}
