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
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Some clients take a clean end for success, whatever they were told, and poll again at once: millions of times a day. Each answer has an id and a retry
// for clients that use them. Other clients get a hundred answers at once and a hundred a second, in each form that a GET can have.
func TestAClientThatComesBackAtOnceIsHeldBack(t *testing.T) {
	for name, test := range map[string]struct {
		hides   bool // the writer hides Flush
		policy  rejoin.Policy
		prepare func(t *testing.T, c *rejointest.Client, next func() *kit.ManualTool) (cursor string)
	}{
		"the standalone stream, let go after a millisecond": {
			policy: rejoin.Policy{CloseAfter: time.Millisecond},
			prepare: func(*testing.T, *rejointest.Client, func() *kit.ManualTool) string {
				return ""
			},
		},
		"a call, let go after a millisecond": {policy: rejoin.Policy{CloseAfter: time.Millisecond}, prepare: primed},
		"a call, behind what cannot flush":   {hides: true, prepare: primed},
		"the standalone stream, behind what cannot flush": {hides: true, prepare: func(_ *testing.T, c *rejointest.Client, _ func() *kit.ManualTool) string {
			return c.Listen().IDs()[0]
		}},
		"a result, over and over": {prepare: func(t *testing.T, c *rejointest.Client, next func() *kit.ManualTool) string {
			t.Helper()
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(0, 0, ""))
			tool.Returns("done")
			return call.IDs()[0]
		}},
		"a result that was dropped": {policy: rejoin.Policy{Retain: time.Second}, prepare: func(t *testing.T, c *rejointest.Client, next func() *kit.ManualTool) string {
			t.Helper()
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(0, 0, ""))
			tool.Returns("done")
			kit.Elapse(time.Minute)
			return call.IDs()[0]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				mw := &kit.Buffering{}
				c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: test.policy}, Handler: mw.Handler})
				cursor := test.prepare(t, c, next)
				kit.Elapse(time.Minute) // the polls so far do not count any more
				mw.On = test.hides
				const most = 100 + 5*100 + 1
				gets := 0
				for began := time.Now(); time.Since(began) < 5*time.Second; gets++ {
					require.LessOrEqual(t, gets, most, "after %v", time.Since(began))
					body, res := kit.ReadAll(t, c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", cursor)))
					require.Equal(t, http.StatusOK, res.StatusCode, "none is refused")
					require.Regexp(t, `^id: \S+\nretry: [1-9]\d{3,}\ndata: \n\n`, body, "a second or more")
				}
				require.Greater(t, gets, 300, "nor is it slower than it says")
			})
		})
	}
}

// primed starts a call whose client is disconnected, and returns its cursor.
func primed(t *testing.T, c *rejointest.Client, next func() *kit.ManualTool) string {
	t.Helper()
	call := c.CallTool("x", nil)
	tool := next()
	require.NoError(t, tool.Progress(0, 0, ""))
	synctest.Wait()
	call.Cut()
	ids := call.IDs()
	return ids[len(ids)-1]
}

// If there is no stream, a GET is told so at once, however often it asks: a client that gets a clean end, or no answer, polls for ever.
func TestNoStreamIsSaidAtOnce(t *testing.T) {
	modern := kit.BothEras{Fake: &kit.Fake{}, Handler: http.NotFoundHandler()}
	for name, test := range map[string]struct {
		cfg     rejoin.Config
		hides   bool
		version string
		allow   string
	}{
		"no standalone stream":           {cfg: rejoin.Config{NoStandalone: true}, allow: "POST, DELETE"},
		"behind what cannot flush":       {hides: true, allow: "POST, DELETE"},
		"the modern era beside sessions": {cfg: rejoin.Config{Eras: rejoin.EraBoth}, version: "2026-07-28", allow: "POST"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				mw := &kit.Buffering{On: test.hides}
				c := kit.New(t, modern, rejointest.Config{Server: test.cfg, Handler: mw.Handler})
				began, resting := time.Now(), len(kit.Goroutines())
				for range 500 {
					var header []string
					if test.version != "" {
						header = []string{"Mcp-Protocol-Version", test.version}
					}
					body, res := kit.ReadAll(t, c.Do(kit.Request(t, http.MethodGet, "", header...)))
					require.Equal(t, "405 error(-32600,null)", kit.Refusal(t, body, res))
					require.Equal(t, test.allow, res.Header.Get("Allow"))
				}
				require.Zero(t, time.Since(began))
				require.LessOrEqual(t, len(kit.Goroutines()), resting)
			})
		})
	}
}

// late is a middleware that does something after the handler has returned, such as logging.
func late(s *rejoin.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Serve(w, r)
		kit.Elapse(5 * time.Second)
	})
}

// An answer is flushed when it is complete, not when the handler has returned.
func TestAnAnswerWaitsForNoMiddleware(t *testing.T) {
	for name, policy := range map[string]rejoin.Policy{"plain JSON": {}, "mode JSON": {Mode: rejoin.ModeJSON}, "mode SSE": {Mode: rejoin.ModeSSE}} {
		for _, version := range []string{kit.Polling, kit.Legacy, kit.Batches} {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{Version: version, Handler: late, Server: rejoin.Config{Policy: policy}})
				kit.AtOnce(t, name+": initialize", func() {
					res := c.Do(kit.Request(t, http.MethodPost, kit.Initialize, "Mcp-Session-Id", ""))
					_, err := res.Body.Read(make([]byte, 1))
					require.NoError(t, err)
				})
				call := c.CallTool("x", nil)
				tool := next()
				kit.Elapse(time.Minute)
				kit.AtOnce(t, name+": the result", func() {
					tool.Returns("done")
					require.Equal(t, `"done"`, string(call.Result()))
				})
			})
		}
	}
}

// The same for answers without a body, and for refusals.
func TestARefusalWaitsForNoMiddleware(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Handler: late})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		tool.Returns("done")
		ids := call.IDs()
		for _, test := range []struct {
			what   string
			req    *http.Request
			status int
		}{
			{"a notification", kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/x"}`), 202},
			{"an answer", kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","id":"x.1","result":{}}`), 202},
			{"nothing left", kit.Request(t, http.MethodGet, "", "Last-Event-ID", ids[len(ids)-1]), 204},
			{"a cursor", kit.Request(t, http.MethodGet, "", "Last-Event-ID", "garbage"), 400},
			{"an origin", kit.Request(t, http.MethodPost, kit.Ping, "Origin", "https://evil.example"), 403},
			{"a verb", kit.Request(t, http.MethodPut, ""), 405},
			{"no JSON", kit.Request(t, http.MethodPost, "{"), 400},
			{"the end", kit.Request(t, http.MethodDelete, ""), 204},
			{"a session", kit.Request(t, http.MethodPost, kit.Ping), 404},
		} {
			kit.AtOnce(t, test.what, func() {
				_, res := kit.ReadAll(t, c.Do(test.req))
				require.Equal(t, test.status, res.StatusCode, test.what)
			})
		}
	})
}

// The same for the events of a stream, for its end, and for what a poll brings, whatever is left of it.
func TestAStreamWaitsForNoMiddleware(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Handler: late, Server: rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}}})
		call, tool := c.CallTool("x", nil), next()
		kit.AtOnce(t, "progress", func() {
			require.NoError(t, tool.Progress(0, 0, ""))
			require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(call))
		})
		kit.AtOnce(t, "what comes before a close", func() {
			require.NoError(t, tool.CloseStream(0))
			require.Equal(t, "200 sse primer@0 1:progress retry open", kit.Last(call))
		})
		call.WaitClosed()
		kit.AtOnce(t, "a poll", func() {
			call.Poll()
			require.Equal(t, "200 sse primer@1 open", kit.Last(call))
		})
		kit.AtOnce(t, "the standalone stream", func() {
			listen := c.Listen()
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
			require.Equal(t, "200 sse primer@0 1:x open", kit.Last(listen))
		})
		kit.AtOnce(t, "the result", func() {
			tool.Returns("done")
			require.True(t, strings.HasPrefix(kit.Last(call), "200 sse primer@1 2:result "), kit.Last(call))
		})
		first := call.IDs()[0]
		kit.AtOnce(t, "a poll for what is recorded", func() {
			call.PollFrom(first)
			require.True(t, strings.HasPrefix(kit.Last(call), "200 sse primer@0 1:progress 2:result "), kit.Last(call))
		})
		kit.Elapse(2 * time.Minute)
		kit.AtOnce(t, "a poll for what is gone", func() {
			res := c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", first))
			require.Positive(t, res.ContentLength) // so the client knows its end before the connection ends
			body, _ := kit.ReadAll(t, res)
			require.Contains(t, body, "expired")
		})
		quick := c.CallTool("quick", nil)
		kit.AtOnce(t, "a call that is let go before its head", func() {
			require.NoError(t, next().CloseStream(0))
			require.True(t, strings.HasPrefix(kit.Last(quick), "200 sse primer@0 retry "), kit.Last(quick))
		})
	})
}
