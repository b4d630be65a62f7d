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
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Some clients take a clean end for success, whatever they were told, and are back at once: millions of times a day. Each answer has an id
// and a time to wait, for those that look; who does not look gets a hundred at once and a hundred a second, whichever way the server has
// of ending a GET.
func TestAClientThatComesBackAtOnceIsHeldBack(t *testing.T) {
	for name, test := range map[string]struct {
		hides   bool // that the writer can flush
		policy  rejoin.Policy
		prepare func(t *testing.T, c *rejointest.Client, next func() *puppet) (cursor string)
	}{
		"the standalone stream, let go after a millisecond": {
			policy: rejoin.Policy{CloseAfter: time.Millisecond},
			prepare: func(*testing.T, *rejointest.Client, func() *puppet) string {
				return ""
			},
		},
		"a call, let go after a millisecond": {policy: rejoin.Policy{CloseAfter: time.Millisecond}, prepare: primed},
		"a call, behind what cannot flush":   {hides: true, prepare: primed},
		"the standalone stream, behind what cannot flush": {hides: true, prepare: func(_ *testing.T, c *rejointest.Client, _ func() *puppet) string {
			return c.Listen().IDs()[0]
		}},
		"a result, over and over": {prepare: func(t *testing.T, c *rejointest.Client, next func() *puppet) string {
			t.Helper()
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(0, 0, ""))
			tool.returns("done")
			return call.IDs()[0]
		}},
		"a result that was dropped": {policy: rejoin.Policy{Retain: time.Second}, prepare: func(t *testing.T, c *rejointest.Client, next func() *puppet) string {
			t.Helper()
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(0, 0, ""))
			tool.returns("done")
			elapse(time.Minute)
			return call.IDs()[0]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				app, next := puppets()
				mw := &buffering{}
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: test.policy}, Handler: mw.handler})
				cursor := test.prepare(t, c, next)
				elapse(time.Minute) // what was asked for until here is forgiven
				mw.on = test.hides
				const most = 100 + 5*100 + 1
				gets := 0
				for began := time.Now(); time.Since(began) < 5*time.Second; gets++ {
					require.LessOrEqual(t, gets, most, "after %v", time.Since(began))
					body, res := whole(t, c.Do(request(t, http.MethodGet, "", "Last-Event-ID", cursor)))
					require.Equal(t, http.StatusOK, res.StatusCode, "none is refused")
					require.Regexp(t, `^id: \S+\nretry: [1-9]\d{3,}\ndata: \n\n`, body, "a second or more")
				}
				require.Greater(t, gets, 300, "nor is it slower than it says")
			})
		})
	}
}

// primed is a call that runs, and whose client is away.
func primed(t *testing.T, c *rejointest.Client, next func() *puppet) string {
	t.Helper()
	call := c.CallTool("x", nil)
	tool := next()
	require.NoError(t, tool.Progress(0, 0, ""))
	synctest.Wait()
	call.Cut()
	ids := call.IDs()
	return ids[len(ids)-1]
}

// Where there is no stream to be had, a GET is told so before any time has passed, and however often it asks: a client that gets a clean
// end, or silence, comes back for ever.
func TestNoStreamIsSaidAtOnce(t *testing.T) {
	modern := bothEras{&fake{}, http.NotFoundHandler()}
	for name, test := range map[string]struct {
		cfg     rejoin.Config
		hides   bool
		version string
		allow   string
	}{
		"no standalone stream":           {cfg: rejoin.Config{NoStandalone: true}, allow: "POST, DELETE"},
		"behind what cannot flush":       {hides: true, allow: "POST, DELETE"},
		"the modern era beside sessions": {cfg: rejoin.Config{Eras: rejoin.Both}, version: "2026-07-28", allow: "POST"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				mw := &buffering{on: test.hides}
				c := rejointest.New(t, modern, rejointest.Config{Server: test.cfg, Handler: mw.handler})
				began, resting := time.Now(), len(goroutines())
				for range 500 {
					var header []string
					if test.version != "" {
						header = []string{"Mcp-Protocol-Version", test.version}
					}
					body, res := whole(t, c.Do(request(t, http.MethodGet, "", header...)))
					require.Equal(t, "405 error(-32600,null)", refusal(t, body, res))
					require.Equal(t, test.allow, res.Header.Get("Allow"))
				}
				require.Zero(t, time.Since(began))
				require.LessOrEqual(t, len(goroutines()), resting)
			})
		})
	}
}

// late is a middleware that has something to do when the handler has returned: to log, to store, to meter.
func late(s *rejoin.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Serve(w, r)
		elapse(5 * time.Second)
	})
}

// What answers a request is flushed when it is there, not when the handler has returned.
func TestAnAnswerWaitsForNoMiddleware(t *testing.T) {
	for name, policy := range map[string]rejoin.Policy{"plain JSON": {}, "mode JSON": {Mode: rejoin.JSON}, "mode SSE": {Mode: rejoin.SSE}} {
		for _, version := range []string{polling, legacy, batches} {
			bubble(t, func(t *testing.T) {
				app, next := puppets()
				c := rejointest.New(t, app, rejointest.Config{Version: version, Handler: late, Server: rejoin.Config{Policy: policy}})
				atOnce(t, name+": initialize", func() {
					res := c.Do(request(t, http.MethodPost, initialize, "Mcp-Session-Id", ""))
					_, err := res.Body.Read(make([]byte, 1))
					require.NoError(t, err)
				})
				call := c.CallTool("x", nil)
				tool := next()
				elapse(time.Minute)
				atOnce(t, name+": the result", func() {
					tool.returns("done")
					require.Equal(t, `"done"`, string(call.Result()))
				})
			})
		}
	}
}

// So is what has no body, and what is refused.
func TestARefusalWaitsForNoMiddleware(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{Handler: late})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		tool.returns("done")
		ids := call.IDs()
		for _, test := range []struct {
			what   string
			req    *http.Request
			status int
		}{
			{"a notification", request(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/x"}`), 202},
			{"an answer", request(t, http.MethodPost, `{"jsonrpc":"2.0","id":"x.1","result":{}}`), 202},
			{"nothing left", request(t, http.MethodGet, "", "Last-Event-ID", ids[len(ids)-1]), 204},
			{"a cursor", request(t, http.MethodGet, "", "Last-Event-ID", "garbage"), 400},
			{"an origin", request(t, http.MethodPost, ping, "Origin", "https://evil.example"), 403},
			{"a verb", request(t, http.MethodPut, ""), 405},
			{"no JSON", request(t, http.MethodPost, "{"), 400},
			{"the end", request(t, http.MethodDelete, ""), 204},
			{"a session", request(t, http.MethodPost, ping), 404},
		} {
			atOnce(t, test.what, func() {
				_, res := whole(t, c.Do(test.req))
				require.Equal(t, test.status, res.StatusCode, test.what)
			})
		}
	})
}

// So are the events of a stream, its end, and what a poll brings, whatever is left of it.
func TestAStreamWaitsForNoMiddleware(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{Handler: late, Server: rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}}})
		call, tool := c.CallTool("x", nil), next()
		atOnce(t, "progress", func() {
			require.NoError(t, tool.Progress(0, 0, ""))
			require.Equal(t, "200 sse primer@0 1:progress open", last(call))
		})
		atOnce(t, "what comes before a close", func() {
			require.NoError(t, tool.CloseStream(0))
			require.Equal(t, "200 sse primer@0 1:progress retry open", last(call))
		})
		call.WaitClosed()
		atOnce(t, "a poll", func() {
			call.Poll()
			require.Equal(t, "200 sse primer@1 open", last(call))
		})
		atOnce(t, "the standalone stream", func() {
			listen := c.Listen()
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
			require.Equal(t, "200 sse primer@0 1:x open", last(listen))
		})
		atOnce(t, "the result", func() {
			tool.returns("done")
			require.True(t, strings.HasPrefix(last(call), "200 sse primer@1 2:result "), last(call))
		})
		first := call.IDs()[0]
		atOnce(t, "a poll for what is recorded", func() {
			call.PollFrom(first)
			require.True(t, strings.HasPrefix(last(call), "200 sse primer@0 1:progress 2:result "), last(call))
		})
		elapse(2 * time.Minute)
		atOnce(t, "a poll for what is gone", func() {
			res := c.Do(request(t, http.MethodGet, "", "Last-Event-ID", first))
			require.Positive(t, res.ContentLength) // so its end is known before the connection is
			body, _ := whole(t, res)
			require.Contains(t, body, "expired")
		})
		quick := c.CallTool("quick", nil)
		atOnce(t, "a call that is let go before its head", func() {
			require.NoError(t, next().CloseStream(0))
			require.True(t, strings.HasPrefix(last(quick), "200 sse primer@0 retry "), last(quick))
		})
	})
}
