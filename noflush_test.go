package rejoin_test

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
)

// buffering hides from the server that responses can be flushed, while the test says so: as a middleware does that gathers whole
// responses.
type buffering struct{ on bool }

func (b *buffering) handler(s *rejoin.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.on {
			w = struct{ http.ResponseWriter }{w}
		}
		s.Serve(w, r)
	})
}

// Where the writer cannot flush, a POST is answered as in mode JSON, and there is no standalone stream.
func TestAWriterThatCannotFlush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		mw := &buffering{on: true}
		c := rejointest.New(t, app, rejointest.Config{Handler: mw.handler})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""), "dropped")
		require.NoError(t, tool.Notify("notifications/x", nil))
		require.True(t, tool.Resumable())
		require.ErrorIs(t, tool.Request(context.Background(), "roots/list", nil, nil), rejoin.ErrNoStream)
		elapse(time.Minute)
		require.Equal(t, "open", last(call))
		tool.returns("done")
		require.Equal(t, "200 result answered", last(call))

		body, res := whole(t, c.Do(request(t, http.MethodGet, "")))
		require.Equal(t, "405 error(-32600,null)", refusal(t, body, res))
		require.Equal(t, "POST, DELETE", res.Header.Get("Allow"))
		mw.on = false
		require.Equal(t, "200 sse primer@0 1:x open", last(c.Listen()), "the notification waited there")
	})
}

// A response that ends at once needs no flush: so a client can be sent away, and polls for the rest. Behind a middleware with a time
// limit this happens before it strikes, and no call is lost for taking longer.
func TestACallIsLetGoThroughAWriterThatCannotFlush(t *testing.T) {
	buffered := (&buffering{on: true}).handler
	for name, tt := range map[string]struct {
		handler func(*rejoin.Server) http.Handler
		policy  rejoin.Policy
		letGo   func(*rejoin.Handle)
	}{
		"by the tool":         {handler: buffered, letGo: func(h *rejoin.Handle) { require.NoError(t, h.CloseStream(0)) }},
		"by CloseAfter":       {handler: buffered, policy: rejoin.Policy{CloseAfter: 5 * time.Second}},
		"in mode SSE":         {handler: buffered, policy: rejoin.Policy{CloseAfter: 5 * time.Second, Mode: rejoin.SSE}},
		"http.TimeoutHandler": {handler: func(s *rejoin.Server) http.Handler { return http.TimeoutHandler(stdadapter.New(s), 10*time.Second, "") }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				app, next := puppets()
				c := rejointest.New(t, app, rejointest.Config{Handler: tt.handler, Server: rejoin.Config{Policy: tt.policy, Logger: quietLogger()}})
				call := c.CallTool("x", nil)
				tool := next()
				require.NoError(t, tool.Progress(1, 0, "dropped"))
				if tt.letGo != nil {
					tt.letGo(tool.Handle)
				}
				elapse(9*time.Second + time.Millisecond)
				require.Equal(t, "200 sse primer@0 retry closed", last(call))
				require.NoError(t, tool.Progress(2, 0, ""))
				call.Poll()
				elapse(9*time.Second + time.Millisecond)
				require.Equal(t, "200 sse primer@0 1:progress retry closed", last(call))
				elapse(time.Minute)
				tool.returns("done")
				call.Poll()
				require.Equal(t, "200 sse primer@1 2:result closed", last(call))
			})
		})
	}
}

// With a cursor such a writer is good for a short poll: what is there, and when to come back.
func TestAShortPoll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		mw := &buffering{}
		c := rejointest.New(t, app, rejointest.Config{Handler: mw.handler})
		listen := c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		mw.on = true
		listen.Poll()
		require.Equal(t, "200 sse primer@0 retry closed", last(listen))
		call.Poll()
		require.Equal(t, "200 sse primer@1 retry closed", last(call))
		require.NoError(t, tool.Progress(1, 0, ""))
		require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
		call.Poll()
		require.Equal(t, "200 sse primer@1 2:progress retry closed", last(call))
		listen.Poll()
		require.Equal(t, "200 sse primer@0 1:x retry closed", last(listen))
		tool.returns("done")
		call.Poll()
		require.Equal(t, "200 sse primer@2 3:result closed", last(call))
		call.Poll()
		require.Equal(t, "204 sse answered", last(call))
		mw.on = false
		require.Equal(t, "200 sse primer@1 open", last(c.Listen()), "what was written once is history")
	})
}

// A short poll brings all that is there, however much it is, and counts as fetched.
func TestAShortPollOfALongLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		mw := &buffering{}
		c := rejointest.New(t, app, rejointest.Config{Handler: mw.handler})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		call.Cut()
		for i := 1; i < 50; i++ {
			require.NoError(t, tool.Progress(float64(i), 0, strings.Repeat("x", 10_000)))
		}
		mw.on = true
		call.Poll()
		require.Equal(t, upTo(50), progress(t, call.Messages()))
		require.True(t, strings.HasSuffix(last(call), " 50:progress retry closed"))
		tool.returns("done")
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
		require.NoError(t, c.Server().Drain(context.Background()), "nothing is left to fetch")
	})
}

// Clients that cannot poll keep their connection until the response is there.
func TestAnOldClientBehindAWriterThatCannotFlush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		mw := &buffering{}
		c := rejointest.New(t, app, rejointest.Config{Version: legacy, Handler: mw.handler})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		mw.on = true
		call.Poll()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.Equal(t, 1, call.Open())
		elapse(time.Minute)
		tool.returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, upTo(2), progress(t, call.Messages()))
	})
}
