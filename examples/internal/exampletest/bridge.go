package exampletest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// RunBridge starts an example with an SDK's server. It polls a call whose tool disconnects its client, and checks that the client of another
// call is disconnected after CloseAfter.
func RunBridge(t *testing.T, run func(ctx context.Context, ln net.Listener, closeAfter time.Duration) error) {
	t.Helper()
	site, stop, wait := start(t, func(ctx context.Context, ln net.Listener) error { return run(ctx, ln, 50*time.Millisecond) })
	s := open(t, site, "")
	first := s.callTool(t, "export", "0.2")
	first.toEnd(t)
	require.Nil(t, first.result, "the client is let go before the result")
	require.NotEmpty(t, first.cursor, "a client without an event id cannot come back")
	require.Positive(t, first.retry)
	text, steps := s.poll(t, first)
	require.Equal(t, "exported", text)
	require.Equal(t, []int{0, 1, 2, 3}, steps, "progress comes once each, in order")

	endless := s.callTool(t, "reindex", "3600")
	endless.toEnd(t)
	require.Nil(t, endless.result, "the client is let go, though the tool knows nothing of it")
	s.end(t)

	stop()
	wait()
}

// Tools calls the tools of a bridged server in virtual time: the slow tool, which runs three times as long as the proxy's limit, those of
// letGo, which disconnect their client themselves, and one that asks its user.
func Tools(t *testing.T, app func() rejoin.App, letGo ...string) {
	t.Helper()
	bubble := func(name string, cfg rejointest.Config, test func(c *client)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(&client{rejointest.New(t, app(), cfg), require.New(t), time.Now()})
			})
		})
	}
	proxied := rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{CloseAfter: 50 * time.Second}}}

	bubble("a quick tool answers in JSON", proxied, func(c *client) {
		call := c.CallTool("count_words", map[string]any{"text": "in the beginning"})
		c.is.Equal("3 words", c.text(call))
		c.is.True(call.JSON())
	})
	bubble("a slow tool that knows nothing outlives a proxy", proxied, func(c *client) {
		call := c.CallTool("reindex", map[string]any{"seconds": 180})
		call.WaitClosed()
		c.is.Equal(50*time.Second, c.passed())
		c.is.Equal("4 shelves indexed", c.text(call))
		c.is.GreaterOrEqual(c.passed(), 3*time.Minute)
		c.is.Equal(4, strings.Count(call.Wire(), "200 OK"), "it went away three times")
	})
	for _, name := range letGo {
		bubble(name+" lets its client go by itself", rejointest.Config{}, func(c *client) {
			call := c.CallTool(name, map[string]any{"seconds": 180})
			c.is.Positive(call.WaitClosed())
			c.is.Zero(c.passed())
			c.is.Contains(c.text(call), name[:4])
			c.is.GreaterOrEqual(c.passed(), 3*time.Minute)
		})
	}
	for action, want := range map[string]string{"accept": "thrown away", "decline": "kept"} {
		user := proxied
		user.OnRequest = func(method string, _ json.RawMessage) (any, error) {
			if method != "elicitation/create" {
				return nil, fmt.Errorf("asked for %s", method)
			}
			return map[string]any{"action": action, "content": map[string]any{}}, nil
		}
		bubble("a tool asks, and the user says "+action, user, func(c *client) {
			c.is.Equal(want, c.text(c.CallTool("forget", map[string]any{})))
		})
	}
}

// client is a client in virtual time.
type client struct {
	*rejointest.Client

	is    *require.Assertions
	start time.Time
}

func (c *client) passed() time.Duration { return time.Since(c.start) }

// text polls for the result of a call, and returns its text.
func (c *client) text(call *rejointest.Call) string {
	raw := call.Result()
	var r result
	c.is.NoError(json.Unmarshal(raw, &r))
	c.is.Len(r.Content, 1, "%s", raw)
	return r.Content[0].Text
}
