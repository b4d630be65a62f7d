package lifetime_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// lasts requires that something holds for so long from now and no longer: to the instant, with a slack of a nanosecond. More allows
// for what the wire rounds: a retry is told in milliseconds.
func lasts(t *testing.T, d, slack time.Duration, what string, holds func() bool) {
	t.Helper()
	kit.Elapse(d - slack)
	synctest.Wait()
	require.True(t, holds(), "%s: a moment too early", what)
	kit.Elapse(slack)
	if slack > time.Nanosecond {
		kit.Elapse(slack)
	}
	synctest.Wait()
	require.False(t, holds(), "%s: it should have ended by now", what)
}

// What a session's time counts from: the last thing that its client did, or was told to do. What is refused at the door, or comes from
// others, or is said by the server, is no sign of life.
func TestWhatKeepsASession(t *testing.T) {
	const (
		ttl   = 10 * time.Minute
		after = 5 * time.Minute // of silence, it happens
	)
	for name, test := range map[string]struct {
		do   func(t *testing.T, c *rejointest.Client, next func() *kit.Puppet)
		more time.Duration // from the end of do on
	}{
		"nothing": {func(*testing.T, *rejointest.Client, func() *kit.Puppet) {}, ttl - after},
		"a request": {func(_ *testing.T, c *rejointest.Client, _ func() *kit.Puppet) {
			c.Start("ping", nil).Result()
		}, ttl},
		"a notification": {func(_ *testing.T, c *rejointest.Client, _ func() *kit.Puppet) {
			c.Notify("notifications/x", nil)
		}, ttl},
		"a cancellation of nothing": {func(_ *testing.T, c *rejointest.Client, _ func() *kit.Puppet) {
			c.Notify("notifications/cancelled", map[string]int{"requestId": 77})
		}, ttl},
		"an answer to nothing": {func(t *testing.T, c *rejointest.Client, _ func() *kit.Puppet) {
			_, res := kit.Post(t, c, `{"jsonrpc":"2.0","id":"nobody.1","result":{}}`)
			require.Equal(t, http.StatusAccepted, res.StatusCode)
		}, ttl},
		"a poll that is refused": {func(t *testing.T, c *rejointest.Client, _ func() *kit.Puppet) {
			require.Equal(t, "400 error(-32600,null) unknown", kit.Get(t, c, "Last-Event-ID", "AAAAAAAAAAAAAAAAAAAAAA.0"))
		}, ttl},
		"an open connection": {func(_ *testing.T, c *rejointest.Client, _ func() *kit.Puppet) {
			listen := c.Listen()
			kit.Elapse(7 * ttl)
			listen.Cut()
		}, ttl + time.Second}, // it is due back in a second
		"a connection that was let go": {func(t *testing.T, c *rejointest.Client, next func() *kit.Puppet) {
			listen := c.Listen()
			c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.CloseStandaloneStream(time.Hour))
			tool.Returns("done")
			kit.Elapse(listen.WaitClosed()) // not missing before it was told to be back
		}, ttl},
		"a call that runs": {func(_ *testing.T, c *rejointest.Client, next func() *kit.Puppet) {
			call := c.CallTool("x", nil)
			tool := next()
			kit.Elapse(time.Second)
			call.Cut()
			kit.Elapse(7 * ttl)
			tool.Returns("done")
		}, ttl},
		"a call that nobody can reach": {func(_ *testing.T, c *rejointest.Client, next func() *kit.Puppet) {
			c.CallTool("x", nil).Cut()
			kit.Elapse(7 * ttl)
			next().Returns("done")
		}, ttl},
		"a plain answer that takes long": {func(_ *testing.T, c *rejointest.Client, next func() *kit.Puppet) {
			call := c.CallTool("json", nil)
			kit.Elapse(7 * ttl)
			next().Returns("done")
			call.Result()
		}, ttl},
		"a response that waits": {func(t *testing.T, c *rejointest.Client, next func() *kit.Puppet) {
			call := c.CallTool("x", nil)
			tool := next()
			kit.Elapse(time.Second)
			call.Cut()
			tool.Returns("done")
			kit.Elapse(time.Second) // due back
		}, ttl},
		"a refusal at the door": {func(t *testing.T, c *rejointest.Client, _ func() *kit.Puppet) {
			for _, header := range [][]string{{"Content-Type", "text/plain"}, {"Accept", "text/html"}, {"Mcp-Protocol-Version", "x"}, {"Origin", "http://evil.example"}} {
				_, res := kit.Post(t, c, kit.Ping, header...)
				require.GreaterOrEqual(t, res.StatusCode, 400)
			}
			require.Equal(t, "400 error(-32600,null) unknown", kit.Get(t, c, "Last-Event-ID", "garbage"))
		}, ttl - after},
		"somebody else's requests": {func(t *testing.T, c *rejointest.Client, _ func() *kit.Puppet) {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				_, res := kit.ReadAll(t, c.Do(kit.Request(t, method, kit.Ping, "X-User", "bob")))
				require.Equal(t, http.StatusNotFound, res.StatusCode)
			}
		}, ttl - after},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.Puppets()
				var session *rejoin.Session
				c := rejointest.New(t, opening(app, func(s *rejoin.Session) { session = s }), rejointest.Config{Server: rejoin.Config{
					SessionIdleTTL: ttl, KeepAlive: -1, Principal: kit.ByUser,
					Policy: rejoin.Policy{AbandonAfter: -1},
					PolicyFor: func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
						if r.Name == "json" {
							p.Mode = rejoin.JSON
						}
						return p
					},
				}})
				kit.Elapse(after)
				test.do(t, c, next)
				// What the server says to nobody is no sign of its client.
				kit.Elapse(time.Minute)
				require.NoError(t, session.Notify(t.Context(), "notifications/x", nil))
				slack := time.Nanosecond
				if name == "a connection that was let go" {
					slack = time.Millisecond
				}
				lasts(t, test.more-time.Minute, slack, "the session", func() bool { return c.Server().Stats().Sessions == 1 })
				stats := c.Server().Stats()
				require.Zero(t, stats.Streams+stats.Connections+stats.Parked+stats.StoredBytes)
				require.Equal(t, -32001, c.Start("ping", nil).Err().Code)
			})
		})
	}
}

// opening tells of the sessions that an app is given.
func opening(app rejoin.App, seen func(*rejoin.Session)) rejoin.App {
	return &kit.Fake{OnOpen: func(r *http.Request, s *rejoin.Session) (rejoin.AppSession, error) {
		seen(s)
		return app.Open(r, s, nil)
	}}
}

// Off is off.
func TestLifetimesThatAreOff(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.Puppets()
		c := rejointest.New(t, app, rejointest.Config{Patience: 1e5 * time.Hour, Server: rejoin.Config{
			SessionIdleTTL: -1, KeepAlive: -1, Policy: rejoin.Policy{AbandonAfter: -1, MaxRuntime: -1, Retain: -1, CloseAfter: -1, StreamAfter: time.Millisecond},
		}})
		sealed := c.CallTool("x", nil)
		tool := next()
		kit.Elapse(time.Second)
		sealed.Cut()
		tool.Returns("done")
		kit.Elapse(1e4 * time.Hour)
		require.Len(t, kit.Sessions(c.Server()), 1, "no SessionIdleTTL")
		parked := c.CallTool("x", nil)
		parkedTool := next()
		kit.Elapse(time.Second)
		parked.Cut()
		open := c.CallTool("x", nil)
		openTool := next()
		kit.Elapse(1e4 * time.Hour)
		require.NoError(t, parkedTool.Cause(), "no AbandonAfter, no MaxRuntime")
		require.NoError(t, openTool.Cause())
		require.Equal(t, 1, open.Open(), "no CloseAfter")
		require.Equal(t, `"done"`, string(sealed.Result()), "no Retain")
		parkedTool.Returns("late")
		require.Equal(t, `"late"`, string(parked.Result()))
		openTool.Returns("later")
		require.Equal(t, `"later"`, string(open.Result()))
	})
}
