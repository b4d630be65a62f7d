package calls_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestConnected(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.True(t, tool.Connected(), "it waits for its answer")
		require.NoError(t, tool.WaitConnected(context.Background()))
		require.NoError(t, tool.Progress(1, 0, ""))
		require.True(t, tool.Connected())
		require.NoError(t, tool.CloseStream(0))
		synctest.Wait()
		require.False(t, tool.Connected())

		back := tool.Waits(context.Background())
		bored, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		gaveUp := tool.Waits(bored)
		require.Zero(t, len(back)+len(gaveUp))
		kit.Elapse(10 * time.Second)
		synctest.Wait()
		require.Len(t, gaveUp, 1)
		require.ErrorIs(t, <-gaveUp, context.DeadlineExceeded)
		require.Empty(t, back)
		call.Poll()
		require.Len(t, back, 1)
		require.NoError(t, <-back)
		require.True(t, tool.Connected())

		call.Cut()
		require.False(t, tool.Connected())
		ended := tool.Waits(context.Background())
		tool.Returns("done")
		require.Len(t, ended, 1)
		require.ErrorIs(t, <-ended, rejoin.ErrEnded)
		require.ErrorIs(t, tool.WaitConnected(context.Background()), rejoin.ErrEnded)
		require.False(t, tool.Connected())
	})
}

// WaitConnected for a client that can never poll waits until the call ends.
func TestWaitConnectedOfAStrandedCall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		call.Cut()
		require.False(t, tool.Connected())
		require.False(t, tool.Resumable())
		w := tool.Waits(context.Background())
		require.Empty(t, w)
		kit.Elapse(11 * time.Minute)
		synctest.Wait()
		require.ErrorIs(t, tool.Cause(), rejoin.ErrAbandoned)
		require.ErrorIs(t, <-w, rejoin.ErrEnded)
	})
}

func TestResumable(t *testing.T) {
	for _, test := range []struct {
		version string
		mode    rejoin.Mode
		want    bool
	}{
		{kit.Polling, rejoin.ModeAuto, true},
		{kit.Polling, rejoin.ModeSSE, true},
		{kit.Polling, rejoin.ModeJSON, false},
		{kit.Legacy, rejoin.ModeAuto, false},
		{kit.Batches, rejoin.ModeSSE, false},
		{"2024-11-05", rejoin.ModeAuto, false},
	} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: test.version, Server: rejoin.Config{Policy: rejoin.Policy{Mode: test.mode}}})
			call := c.CallTool("x", nil)
			tool := next()
			require.Equal(t, test.want, tool.Resumable(), "%+v", test)
			if test.mode != rejoin.ModeJSON {
				require.NoError(t, tool.Progress(1, 0, ""))
				synctest.Wait()
				call.Cut()
				require.Equal(t, test.want, tool.Resumable(), "away, %+v", test)
			}
			tool.Returns("done")
			require.False(t, tool.Resumable())
		})
	}
}

// PolicyFor changes the policy of one request.
func TestPolicyFor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var seen []rejoin.RequestInfo
		app, next := kit.ManualTools()
		config := rejointest.Config{Header: http.Header{"User-Agent": {"me/1"}}, Capabilities: map[string]any{"x": struct{}{}}}
		config.Server = rejoin.Config{
			Policy: rejoin.Policy{Retry: 2 * time.Second},
			PolicyFor: func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
				seen = append(seen, rejoin.RequestInfo{Method: r.Method, Name: r.Name})
				require.Equal(t, "rejointest", r.Client.Name)
				require.Equal(t, "me/1", r.Client.UserAgent)
				require.JSONEq(t, `{"name":"rejointest","version":"1"}`, string(r.Client.Raw))
				require.JSONEq(t, `{"x":{}}`, string(r.Client.Capabilities))
				require.Equal(t, map[bool]string{true: "2025-11-25"}[r.Method != "initialize"], r.Client.Protocol)
				require.Equal(t, r.Method != "initialize", r.Polls)
				require.NotNil(t, r.HTTP)
				require.Equal(t, 2*time.Second, p.Retry, "it comes filled in")
				require.Equal(t, 30*time.Second, p.RetryMax)
				if r.Name == "slow" {
					p.CloseAfter = time.Minute
				}
				return p
			},
		}
		c := kit.New(t, app, config)
		slow, other := c.CallTool("slow", nil), c.CallTool("other", nil)
		c.Start("prompts/get", map[string]string{"name": "p", "uri": "u"})
		c.Start("resources/read", map[string]string{"name": "p", "uri": "u"})
		c.Start("anything", map[string]string{"name": "p", "uri": "u"})
		began := time.Now()
		kit.RequireSpread(t, 2*time.Second, slow.WaitClosed())
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, 1, other.Open())
		require.Equal(t, []rejoin.RequestInfo{
			{Method: "initialize"}, {Method: "tools/call", Name: "slow"}, {Method: "tools/call", Name: "other"},
			{Method: "prompts/get", Name: "p"}, {Method: "resources/read", Name: "u"}, {Method: "anything"},
		}, seen)
		for range 5 {
			next().Returns(nil)
		}
	})
}

// Outside of a call there is a handle that does nothing.
func TestTheHandleOfNoCall(t *testing.T) {
	h := rejoin.HandleFromContext(context.Background())
	require.NotNil(t, h)
	require.ErrorIs(t, h.CloseStream(0), rejoin.ErrNoCall)
	require.ErrorIs(t, h.CloseStandaloneStream(0), rejoin.ErrNoCall)
	require.ErrorIs(t, h.SetPolicy(rejoin.Policy{}), rejoin.ErrNoCall)
	require.ErrorIs(t, h.WaitConnected(context.Background()), rejoin.ErrNoCall)
	require.ErrorIs(t, h.Progress(1, 2, ""), rejoin.ErrNoCall)
	require.ErrorIs(t, h.Notify("notifications/x", nil), rejoin.ErrNoCall)
	require.ErrorIs(t, h.Ask(context.Background(), "roots/list", nil, nil), rejoin.ErrNoCall)
	require.False(t, h.Connected())
	require.False(t, h.Resumable())
	require.Empty(t, h.Stream())
	require.Nil(t, h.Session())
	require.Nil(t, rejoin.ServerFromContext(context.Background()))
}
