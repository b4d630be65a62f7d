package rejointest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// What a user's test must report, and with which words.
func TestFailures(t *testing.T) {
	quick := tool(func(context.Context, *rejoin.Handle) (any, error) { return 1, nil })
	chatty := tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
		_ = h.Progress(1, 0, "")
		return 1, nil
	})
	closing := tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
		_ = h.CloseStream(time.Second)
		elapse(time.Minute)
		return 1, nil
	})
	failing := tool(func(context.Context, *rejoin.Handle) (any, error) { return nil, rejoin.Errorf(-5, "out of order") })
	hanging := tool(func(ctx context.Context, _ *rejoin.Handle) (any, error) {
		<-ctx.Done()
		return nil, nil
	})
	for name, test := range map[string]struct {
		app  rejoin.App
		cfg  rejointest.Config
		do   func(*rejointest.Client)
		want string // a regular expression; "": no failure
	}{
		"WaitClosed, and the response is plain": {
			app: quick, do: func(c *rejointest.Client) { c.CallTool("x", nil).WaitClosed() }, want: "response came before .* was closed",
		},
		"WaitClosed, and the response comes on the stream": {
			app: chatty, do: func(c *rejointest.Client) { c.CallTool("x", nil).WaitClosed() }, want: "response came before .* was closed",
		},
		"WaitClosed, and there is no stream": {
			app: quick, do: func(c *rejointest.Client) {
				call := c.Listen()
				c.Delete()
				call.Poll()
				call.WaitClosed()
			}, want: "not answered with a stream",
		},
		"WaitClosed, and the connection was cut": {
			app: closing, do: func(c *rejointest.Client) {
				call := c.Listen()
				call.Cut()
				call.WaitClosed()
			}, want: "the server did not close it",
		},
		"WaitClosed, and the server never closes": {
			app: hanging, do: func(c *rejointest.Client) { c.CallTool("x", nil).WaitClosed() }, want: "waited 1h0m0s for the server to close",
		},
		"WaitMessages, and there are fewer": {
			app: closing, do: func(c *rejointest.Client) { c.CallTool("x", nil).WaitMessages(1) }, want: "0 messages came, not 1",
		},
		"WaitMessages, and nothing comes": {
			app: hanging, cfg: rejointest.Config{Patience: time.Minute},
			do: func(c *rejointest.Client) { c.CallTool("x", nil).WaitMessages(1) }, want: "waited 1m0s for 1 messages.*\n--- 0s: POST tools/call",
		},
		"Result of an error": {
			app: failing, do: func(c *rejointest.Client) { c.CallTool("x", nil).Result() }, want: "JSON-RPC error -5: out of order",
		},
		"Result never comes": {
			app: hanging, do: func(c *rejointest.Client) { c.CallTool("x", nil).Result() }, want: "waited 1h0m0s for the response",
		},
		"Result never comes to one who polls": {
			app: hanging, cfg: rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{CloseAfter: time.Minute}}},
			do: func(c *rejointest.Client) { c.CallTool("x", nil).Result() }, want: "waited 1h0m0s for the response",
		},
		"Result never comes, and each poll ends at once": {
			app: hanging, cfg: rejointest.Config{Patience: time.Minute, Server: rejoin.Config{Policy: rejoin.Policy{CloseAfter: 1}}},
			do: func(c *rejointest.Client) { c.CallTool("x", nil).Result() }, want: "polled for 1m0s|waited 1m0s",
		},
		"Result of a cancelled call": {
			app: hanging, do: func(c *rejointest.Client) {
				call := c.CallTool("x", nil)
				call.Cancel("")
				call.Result()
			}, want: "no event id cannot come back",
		},
		"Result of a call that was cut before there was an id": {
			app: hanging, do: func(c *rejointest.Client) {
				call := c.CallTool("x", nil)
				call.Cut()
				call.Result()
			}, want: "no event id cannot come back",
		},
		"Poll without an id": {
			app: hanging, do: func(c *rejointest.Client) { c.CallTool("x", nil).Poll() }, want: "no event id came yet",
		},
		"Err of a result": {
			app: quick, do: func(c *rejointest.Client) { c.CallTool("x", nil).Err() }, want: "not an error: 1",
		},
		"Notify without a session": {
			app: quick, do: func(c *rejointest.Client) {
				c.Delete()
				c.Notify("notifications/x", nil)
			}, want: "notifications/x: 404 Not Found: .*-32001",
		},
		"Delete twice": {
			app: quick, do: func(c *rejointest.Client) {
				c.Delete()
				c.Delete()
			}, want: "DELETE: 404 Not Found",
		},
		"a version that the app does not speak": {
			app: quick, cfg: rejointest.Config{Version: "1999-01-01"}, do: func(*rejointest.Client) {},
			want: `negotiated version "2025-11-25"`,
		},
		"a configuration that is refused": {
			app: quick, cfg: rejointest.Config{Server: rejoin.Config{Node: "a b"}}, do: func(*rejointest.Client) {}, want: "Node",
		},
		"nothing": {
			app: chatty, do: func(c *rejointest.Client) {
				c.Listen()
				c.CallTool("x", nil).Result()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := failures(t, test.app, test.cfg, test.do)
				if test.want == "" {
					require.Empty(t, got)
					return
				}
				require.Regexp(t, "(?s)"+test.want, got)
			})
		})
	}
}

// What no good server does is reported, whatever the test looks at.
func TestFaultsOfTheServer(t *testing.T) {
	const (
		primer   = "id: p\nretry: 1\ndata: \n\n"
		one      = "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n"
		two      = "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n\n"
		response = "id: 3\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":1}\n\n"
	)
	result := func(call *rejointest.Call) { call.Result() }
	for name, test := range map[string]struct {
		bodies []string
		do     func(*rejointest.Call)
		want   string
	}{
		"none":                         {[]string{primer + one, two + response}, result, ""},
		"an event twice":               {[]string{primer + one + one + response}, result, `event "1" came twice`},
		"an event on two connections":  {[]string{primer + one + two, two + response}, result, `event "2" came twice`},
		"an event with an old id":      {[]string{primer + one, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"c\"}\n\n" + response}, result, `event "1" came twice`},
		"a primer twice":               {[]string{primer + one, primer + two + response}, result, `id of a primer, "p", came before`},
		"an empty id":                  {[]string{primer + one + "id: \ndata: {}\n\n" + response}, result, "empty event id"},
		"an event with a name":         {[]string{primer + "event: x\n" + one + response}, result, `event of type "x"`},
		"no JSON":                      {[]string{primer + "id: 9\ndata: x\n\n" + response}, result, "not a JSON-RPC message"},
		"an end inside an event":       {[]string{primer + "id: 9\ndata: {}\n", response}, result, "ended inside an event"},
		"a response to another call":   {[]string{primer + "id: 9\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}\n\n" + response}, result, "not to this request"},
		"two responses":                {[]string{primer + response + "id: 9\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":1}\n\n"}, result, "a second response"},
		"nothing left and no response": {[]string{primer + one, ""}, result, "status 204, and without a response"},
		"polls that bring no id": {
			[]string{primer, ": \n\n", ": \n\n", ": \n\n", ": \n\n", ": \n\n"}, result, "came back 5 times, and got no new event id",
		},
		"a replay": {[]string{primer + one + two + response, one + two + response, ""}, func(call *rejointest.Call) {
			call.PollFrom("p")
			call.Result()
			call.Poll()
		}, ""},
		"a replay with a gap": {[]string{primer + one + two + response, two + response}, func(call *rejointest.Call) {
			call.PollFrom("p")
		}, `event "2" came, .*"b".*, where a replay should have brought "1"`},
		"a replay out of order": {[]string{primer + one + two + response, two + one + response}, func(call *rejointest.Call) {
			call.PollFrom("p")
		}, `event "2" came`},
		"a replay that is not the same": {[]string{primer + one + response, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"z\"}\n\n"}, func(call *rejointest.Call) {
			call.PollFrom("p")
		}, `event "1" came`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				app := tool(func(context.Context, *rejoin.Handle) (any, error) { return struct{}{}, nil })
				got := failures(t, app, script(test.bodies...), func(c *rejointest.Client) { test.do(c.CallTool("x", nil)) })
				if test.want == "" {
					require.Empty(t, got)
					return
				}
				require.Regexp(t, "(?s)"+test.want, got)
			})
		})
	}
}

func TestBrokenByTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := tool(func(context.Context, *rejoin.Handle) (any, error) { return struct{}{}, nil })
		cfg := rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					s.Serve(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write([]byte("id: p\ndata: \n\n"))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
		}}
		got := failures(t, app, cfg, func(c *rejointest.Client) { c.Listen().WaitClosed() })
		require.Regexp(t, "(?s)the server did not close it.*id: p\ndata: \n\n--- 0s: broken: unexpected EOF", got)
	})
}

func TestAnswerIsNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			return nil, h.Ask(ctx, "roots/list", nil, nil)
		})
		var c *rejointest.Client
		cfg := rejointest.Config{OnRequest: func(string, json.RawMessage) (any, error) {
			return nil, c.Server().EndSession(session(c).Ref)
		}}
		got := failures(t, app, cfg, func(client *rejointest.Client) {
			c = client
			c.CallTool("x", nil).WaitClosed()
		})
		require.Contains(t, got, "the answer to roots/list")
		require.Contains(t, got, "404")
	})
}

func TestNewOutsideABubble(t *testing.T) {
	got := failures(t, tool(nil), rejointest.Config{}, func(*rejointest.Client) {})
	require.Contains(t, got, "inside synctest.Test")
}

func TestEverythingEndsWithTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *rejointest.Client
		var mu sync.Mutex
		var causes []error
		t.Cleanup(func() { // after New's
			require.Len(t, causes, 3)
			for _, cause := range causes {
				require.ErrorIs(t, cause, rejoin.ErrShutdown)
			}
			require.Zero(t, c.Server().Stats().Sessions)
			require.True(t, c.Server().Draining())
		})
		c = rejointest.New(t, tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			elapse(30 * time.Minute) // whatever ctx says
			mu.Lock()
			defer mu.Unlock()
			causes = append(causes, context.Cause(ctx))
			return nil, nil
		}), rejointest.Config{})
		c.Listen()
		c.CallTool("slow", nil)
		away := c.CallTool("slow", nil)
		elapse(time.Second)
		away.Cut()
		c.CallTool("frozen", nil).Freeze()
	})
}
