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

// lasts requires that holds returns true for d from now, and false after that. slack is for values that are rounded on the way, such as a retry in
// milliseconds.
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

// What the idle time of a session counts from: the last thing that its client did, or was told to do. Requests that are refused before their
// session is looked at, requests of other users, and what the server sends do not count.
func TestWhatKeepsASession(t *testing.T) {
	const (
		ttl   = 10 * time.Minute
		after = 5 * time.Minute // the action happens after this time
	)
	for name, test := range map[string]struct {
		do   func(t *testing.T, c *rejointest.Client, next func() *kit.ManualTool)
		more time.Duration // how long the session lives after do
	}{
		"nothing": {func(*testing.T, *rejointest.Client, func() *kit.ManualTool) {}, ttl - after},
		"a request": {func(_ *testing.T, c *rejointest.Client, _ func() *kit.ManualTool) {
			c.Start("ping", nil).Result()
		}, ttl},
		"a notification": {func(_ *testing.T, c *rejointest.Client, _ func() *kit.ManualTool) {
			c.Notify("notifications/x", nil)
		}, ttl},
		"a cancellation of nothing": {func(_ *testing.T, c *rejointest.Client, _ func() *kit.ManualTool) {
			c.Notify("notifications/cancelled", map[string]int{"requestId": 77})
		}, ttl},
		"an answer to nothing": {func(t *testing.T, c *rejointest.Client, _ func() *kit.ManualTool) {
			_, res := kit.Post(t, c, `{"jsonrpc":"2.0","id":"nobody.1","result":{}}`)
			require.Equal(t, http.StatusAccepted, res.StatusCode)
		}, ttl},
		"a poll for which nothing is left": {func(t *testing.T, c *rejointest.Client, next func() *kit.ManualTool) {
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(1, 0, ""))
			tool.Returns("done")
			call.Result()
			kit.Elapse(time.Minute)
			call.Poll()
			require.Equal(t, "204 sse answered", kit.Last(call))
		}, ttl},
		"an open connection": {func(_ *testing.T, c *rejointest.Client, _ func() *kit.ManualTool) {
			listen := c.Listen()
			kit.Elapse(7 * ttl)
			listen.Cut()
		}, ttl + time.Second}, // it is due in a second
		"a connection that was let go": {func(t *testing.T, c *rejointest.Client, next func() *kit.ManualTool) {
			listen := c.Listen()
			c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.CloseStandaloneStream(time.Hour))
			tool.Returns("done")
			kit.Elapse(listen.WaitClosed()) // until the client is due
		}, ttl},
		"a call that runs": {func(_ *testing.T, c *rejointest.Client, next func() *kit.ManualTool) {
			call := c.CallTool("x", nil)
			tool := next()
			kit.Elapse(time.Second)
			call.Cut()
			kit.Elapse(7 * ttl)
			tool.Returns("done")
		}, ttl},
		"a call that nobody can reach": {func(_ *testing.T, c *rejointest.Client, next func() *kit.ManualTool) {
			c.CallTool("x", nil).Cut()
			kit.Elapse(7 * ttl)
			next().Returns("done")
		}, ttl},
		"a plain answer that takes long": {func(_ *testing.T, c *rejointest.Client, next func() *kit.ManualTool) {
			call := c.CallTool("json", nil)
			kit.Elapse(7 * ttl)
			next().Returns("done")
			call.Result()
		}, ttl},
		"a response that waits": {func(t *testing.T, c *rejointest.Client, next func() *kit.ManualTool) {
			call := c.CallTool("x", nil)
			tool := next()
			kit.Elapse(time.Second)
			call.Cut()
			tool.Returns("done")
			kit.Elapse(time.Second) // until the client is due
		}, ttl},
		"a refusal at the door": {func(t *testing.T, c *rejointest.Client, _ func() *kit.ManualTool) {
			for _, header := range [][]string{{"Content-Type", "text/plain"}, {"Accept", "text/html"}, {"Mcp-Protocol-Version", "x"}, {"Origin", "http://evil.example"}} {
				_, res := kit.Post(t, c, kit.Ping, header...)
				require.GreaterOrEqual(t, res.StatusCode, 400)
			}
			for _, cursor := range []string{"garbage", "AAAAAAAAAAAAAAAAAAAAAA.0"} {
				require.Equal(t, "400 error(-32600,null) unknown", kit.Get(t, c, "Last-Event-ID", cursor))
			}
		}, ttl - after},
		"somebody else's requests": {func(t *testing.T, c *rejointest.Client, _ func() *kit.ManualTool) {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				_, res := kit.ReadAll(t, c.Do(kit.Request(t, method, kit.Ping, "X-User", "bob")))
				require.Equal(t, http.StatusNotFound, res.StatusCode)
			}
		}, ttl - after},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				var session *rejoin.Session
				c := rejointest.New(t, opening(app, func(s *rejoin.Session) { session = s }), rejointest.Config{Server: rejoin.Config{
					SessionIdleTTL: ttl, KeepAlive: -1, Principal: kit.ByUser,
					Policy: rejoin.Policy{AbandonAfter: -1},
					PolicyFor: func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
						if r.Name == "json" {
							p.Mode = rejoin.ModeJSON
						}
						return p
					},
				}})
				kit.Elapse(after)
				test.do(t, c, next)
				// What the server sends without a reader does not count.
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

// opening calls seen with the sessions that an app opens.
func opening(app rejoin.App, seen func(*rejoin.Session)) rejoin.App {
	return &kit.Fake{OnOpen: func(r *http.Request, s *rejoin.Session) (rejoin.AppSession, error) {
		seen(s)
		return app.Open(r, s, nil)
	}}
}

// A negative SessionIdleTTL means that sessions do not expire.
func TestLifetimesThatAreOff(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
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
