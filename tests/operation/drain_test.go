package operation_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A draining server accepts no new work, and serves requests that belong to running work.
func TestWhatIsServedWhileDraining(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		require.False(t, c.Server().Draining())
		listen := c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		done := kit.Drain(t, c.Server(), 0)
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen), "an idle standalone stream ends")
		require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(call), "the stream of a running call does not")
		for _, test := range []struct{ method, body, session, want string }{
			{"POST", kit.Initialize, "", `503 error(-32000,"mine")`},
			{"POST", kit.Ping, "-", `503 error(-32000,"mine")`},
			{"GET", "", "-", `503 error(-32000,null)`},
			{"POST", `{"jsonrpc":"2.0","method":"notifications/x"}`, "-", "202"},
			{"POST", `{"jsonrpc":"2.0","id":"n.1","result":{}}`, "-", "202"},
		} {
			req := kit.Request(t, test.method, test.body)
			if test.session == "" {
				req.Header["Mcp-Session-Id"] = nil
			}
			body, res := kit.ReadAll(t, c.Do(req))
			if body == "" {
				require.Equal(t, test.want, fmt.Sprint(res.StatusCode))
				continue
			}
			require.Equal(t, test.want, kit.Refusal(t, body, res))
			require.NotEmpty(t, res.Header.Get("Retry-After"))
		}
		listen.Poll()
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen), "a poll of it is served, shortly")
		call.Poll()
		require.Equal(t, "200 sse primer@1 open", kit.Last(call), "a poll of a running call is served")
		require.NoError(t, tool.CloseStream(0))
		kit.Elapse(call.WaitClosed())
		call.Poll()
		require.Empty(t, done)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()), "it ends as always")
		require.Len(t, done, 1)
		require.NoError(t, <-done)
		require.True(t, c.Server().Draining(), "for good")
		c.Delete()
	})
}

// A drain waits for a response that was not fetched, until its client has polled or Retain has passed.
func TestDrainWaitsForResponsesToBeFetched(t *testing.T) {
	for _, comes := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := rejointest.New(t, app, rejointest.Config{})
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.CloseStream(time.Minute))
			retry := call.WaitClosed()
			tool.Returns("done")
			done := kit.Drain(t, c.Server(), 0)
			kit.Elapse(retry)
			require.Empty(t, done)
			if comes {
				call.Poll()
				require.Equal(t, `"done"`, string(call.Result()))
			} else {
				kit.Elapse(5*time.Minute - time.Second)
				synctest.Wait()
				require.Empty(t, done)
				kit.Elapse(time.Second + time.Millisecond)
				synctest.Wait()
			}
			require.Len(t, done, 1)
			require.NoError(t, <-done)
		})
	}
}

// Clients that cannot poll keep their streams until everything is answered.
func TestDrainOfClientsThatCannotPoll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Version: kit.Legacy})
		listen := c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		done := kit.Drain(t, c.Server(), 0)
		require.Equal(t, "200 sse comment open", kit.Last(listen))
		require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
		tool.Returns("done")
		require.Equal(t, "200 sse comment 1:progress 2:result closed", kit.Last(call))
		require.NoError(t, <-done)
		require.Equal(t, "200 sse comment 1:x closed", kit.Last(listen), "now it ends too, and without a retry")
	})
}

// What does not end in time is answered with an error, and counted.
func TestDrainThatTakesTooLong(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{StreamAfter: -1}}})
		undecided := c.CallTool("x", nil)
		next()
		attached := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		away := c.CallTool("x", nil)
		require.NoError(t, next().CloseStream(time.Hour))
		away.WaitClosed()
		sealed := c.CallTool("x", nil)
		s := next()
		require.NoError(t, s.CloseStream(time.Hour))
		sealed.WaitClosed()
		s.Returns("done")
		done := kit.Drain(t, c.Server(), time.Minute)
		kit.Elapse(time.Minute)
		err := <-done
		require.Equal(t, &rejoin.DrainError{Running: 3, Unfetched: 1}, err)
		require.EqualError(t, err, "rejoin: drained with 3 requests running and 1 responses not fetched")
		require.Equal(t, "200 error(-32000,2) shutdown answered", kit.Last(undecided))
		require.Equal(t, "200 sse primer@0 1:progress 2:error(-32000,3) shutdown closed", kit.Last(attached))
		require.ErrorIs(t, tool.Cause(), rejoin.ErrShutdown)
		require.Zero(t, c.Server().Stats().Sessions)
		away.Poll()
		require.Equal(t, "404 error(-32001,null) answered", kit.Last(away))
	})
}

// Drains and closes may come in any number and order, and at once.
func TestDrainAndCloseAreIdempotent(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		first, second, third := kit.Drain(t, c.Server(), 0), kit.Drain(t, c.Server(), 0), kit.Drain(t, c.Server(), time.Second)
		kit.Elapse(time.Second / 2)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		for i, done := range []chan error{first, second, third} {
			require.Len(t, done, 1, "%d", i)
			require.NoError(t, <-done, "%d", i)
		}
		require.NoError(t, c.Server().Drain(context.Background()))
		c.Server().Close()
		c.Server().Close()
		require.NoError(t, c.Server().Drain(context.Background()))
		require.Zero(t, c.Server().Stats().Sessions)
	})
	kit.Bubble(t, func(t *testing.T) { // the drains end because the only session ends
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		next()
		call.Cut()
		first, second := kit.Drain(t, c.Server(), 0), kit.Drain(t, c.Server(), 0)
		c.Delete()
		require.Len(t, first, 1)
		require.Len(t, second, 1)
	})
	s, err := rejoin.NewServer(&kit.Fake{}, rejoin.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Drain(context.Background()), "with nothing to do")
}

// Close does not wait. After it only running responses are served.
func TestClose(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var told kit.Ends
		app := told.App()
		opened := 0
		app.OnOpen = func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) { opened++; return app, nil }
		c := rejointest.New(t, app, rejointest.Config{})
		listen := c.Listen()
		call := c.CallTool("x", nil)
		frozen := c.CallTool("x", nil)
		kit.Elapse(time.Second)
		frozen.Freeze()
		kit.AtOnce(t, "Close", c.Server().Close)
		require.JSONEq(t, `{"reason":"shutdown"}`, string(call.Err().Data))
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen))
		require.Equal(t, []error{rejoin.ErrShutdown, rejoin.ErrShutdown}, told.Cancelled)
		require.Equal(t, []error{rejoin.ErrShutdown}, told.Ended)
		require.Zero(t, c.Server().Stats().Sessions)
		body, res := kit.Post(t, c, kit.Initialize, "Mcp-Session-Id", "")
		require.Equal(t, `503 error(-32000,"mine")`, kit.Refusal(t, body, res))
		require.Equal(t, 1, opened, "the app is not asked for another session")
	})
}

// A client that sends initialize while the server closes is told to try again. It is not told that a session has ended, because it never had one.
func TestCloseDuringInitialize(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{OnRequest: func(*rejoin.Call) {}}, rejoin.Config{})
		w := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize))
		require.Equal(t, "open", w.Summary())
		s.Close()
		require.Equal(t, `503 error(-32000,"mine") ended`, w.Summary())
		require.Zero(t, s.Stats().Sessions)
	})
}

// After a drain http.Server.Shutdown has nothing to wait for.
func TestShutdownReturnsAfterADrain(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			var hs *http.Server
			c := rejointest.New(t, app, rejointest.Config{Version: version, HTTP: func(s *http.Server) { hs = s }})
			listen := c.Listen()
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(1, 0, ""))
			done := kit.Drain(t, c.Server(), time.Hour)
			tool.Returns("done")
			require.NoError(t, <-done)
			require.Equal(t, `"done"`, string(call.Result()))
			require.Zero(t, listen.Open())
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			require.NoError(t, hs.Shutdown(ctx))
		})
	}
}

// Close can be registered with http.Server.RegisterOnShutdown: it ends streams that would never end.
func TestCloseOnShutdown(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		var hs *http.Server
		c := rejointest.New(t, app, rejointest.Config{HTTP: func(s *http.Server) { hs = s }})
		hs.RegisterOnShutdown(c.Server().Close)
		listen := c.Listen()
		call := c.CallTool("x", nil)
		require.NoError(t, next().Progress(1, 0, ""))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, hs.Shutdown(ctx))
		require.Zero(t, listen.Open())
		require.JSONEq(t, `{"reason":"shutdown"}`, string(call.Err().Data))
	})
}
