package streams_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// If the writer cannot flush, a POST is answered as in mode JSON, and there is no standalone stream.
func TestAWriterThatCannotFlush(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		mw := &kit.Buffering{On: true}
		c := kit.New(t, app, rejointest.Config{Handler: mw.Handler, Capabilities: kit.Offers})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""), "dropped")
		require.NoError(t, tool.Notify("notifications/x", nil))
		require.True(t, tool.Resumable())
		require.ErrorIs(t, tool.Ask(context.Background(), "roots/list", nil, nil), rejoin.ErrNoStream)
		kit.Elapse(time.Minute)
		require.Equal(t, "open", kit.Last(call))
		tool.Returns("done")
		require.Equal(t, "200 result answered", kit.Last(call))

		body, res := kit.ReadAll(t, c.Do(kit.Request(t, http.MethodGet, "")))
		require.Equal(t, "405 error(-32600,null)", kit.Refusal(t, body, res))
		require.Equal(t, "POST, DELETE", res.Header.Get("Allow"))
		mw.On = false
		require.Equal(t, "200 sse primer@0 1:x open", kit.Last(c.Listen()), "the notification waited there")
	})
}

// A response that ends at once needs no flush, so a client can be disconnected and poll for the rest. Behind a middleware with a time limit this happens
// before the limit, and no call is lost for taking longer.
func TestACallIsLetGoThroughAWriterThatCannotFlush(t *testing.T) {
	buffered := (&kit.Buffering{On: true}).Handler
	for name, tt := range map[string]struct {
		handler func(*rejoin.Server) http.Handler
		policy  rejoin.Policy
		letGo   func(*rejoin.Handle)
	}{
		"by the tool":         {handler: buffered, letGo: func(h *rejoin.Handle) { require.NoError(t, h.CloseStream(0)) }},
		"by CloseAfter":       {handler: buffered, policy: rejoin.Policy{CloseAfter: 5 * time.Second}},
		"in mode SSE":         {handler: buffered, policy: rejoin.Policy{CloseAfter: 5 * time.Second, Mode: rejoin.ModeSSE}},
		"http.TimeoutHandler": {handler: func(s *rejoin.Server) http.Handler { return http.TimeoutHandler(stdadapter.New(s), 10*time.Second, "") }},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{Handler: tt.handler, Server: rejoin.Config{Policy: tt.policy, Logger: kit.QuietLogger()}})
				call := c.CallTool("x", nil)
				tool := next()
				require.NoError(t, tool.Progress(1, 0, "dropped"))
				if tt.letGo != nil {
					tt.letGo(tool.Handle)
				}
				kit.Elapse(9*time.Second + time.Millisecond)
				require.Equal(t, "200 sse primer@0 retry closed", kit.Last(call))
				require.NoError(t, tool.Progress(2, 0, ""))
				call.Poll()
				kit.Elapse(9*time.Second + time.Millisecond)
				require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
				kit.Elapse(time.Minute)
				tool.Returns("done")
				call.Poll()
				require.Equal(t, "200 sse primer@1 2:result closed", kit.Last(call))
			})
		})
	}
}

// A poll through such a writer is short: it gets the events that are there, and a retry.
func TestAShortPoll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		mw := &kit.Buffering{}
		c := kit.New(t, app, rejointest.Config{Handler: mw.Handler})
		listen := c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		mw.On = true
		listen.Poll()
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen))
		call.Poll()
		require.Equal(t, "200 sse primer@1 retry closed", kit.Last(call))
		require.NoError(t, tool.Progress(1, 0, ""))
		require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
		call.Poll()
		require.Equal(t, "200 sse primer@1 2:progress retry closed", kit.Last(call))
		listen.Poll()
		require.Equal(t, "200 sse primer@0 1:x retry closed", kit.Last(listen))
		tool.Returns("done")
		call.Poll()
		require.Equal(t, "200 sse primer@2 3:result closed", kit.Last(call))
		call.Poll()
		require.Equal(t, "204 sse answered", kit.Last(call))
		mw.On = false
		require.Equal(t, "200 sse primer@1 open", kit.Last(c.Listen()), "what was written once is history")
	})
}

// A short poll brings all events that are there, however many, and they count as fetched.
func TestAShortPollOfALongLog(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		mw := &kit.Buffering{}
		c := kit.New(t, app, rejointest.Config{Handler: mw.Handler})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		call.Cut()
		for i := 1; i < 50; i++ {
			require.NoError(t, tool.Progress(float64(i), 0, strings.Repeat("x", 10_000)))
		}
		mw.On = true
		call.Poll()
		require.Equal(t, kit.UpTo(50), kit.Progress(t, call.Messages()))
		require.True(t, strings.HasSuffix(kit.Last(call), " 50:progress retry closed"))
		tool.Returns("done")
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
		require.NoError(t, c.Server().Drain(context.Background()), "nothing is left to fetch")
	})
}

// Clients that cannot poll keep their connection until the response is there.
func TestAnOldClientBehindAWriterThatCannotFlush(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		mw := &kit.Buffering{}
		c := kit.New(t, app, rejointest.Config{Version: kit.Legacy, Handler: mw.Handler})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		mw.On = true
		call.Poll()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.Equal(t, 1, call.Open())
		kit.Elapse(time.Minute)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(2), kit.Progress(t, call.Messages()))
	})
}
