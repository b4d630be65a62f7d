package streams_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// After KeepAlive without a write a stream gets a comment: each kind of stream, for each kind of client. After another write it does not.
func TestKeepAliveOnlyWhenQuiet(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: version, Server: rejoin.Config{
				KeepAlive: time.Minute, Policy: rejoin.Policy{StreamAfter: time.Millisecond},
			}})
			listen := c.Listen()
			call := c.CallTool("x", nil)
			tool := next()
			kit.Elapse(time.Millisecond)
			for i := range 10 {
				kit.Elapse(59 * time.Second)
				require.NoError(t, tool.Progress(float64(i), 0, ""))
			}
			require.NotContains(t, strings.TrimPrefix(kit.Last(call), "200 sse comment"), "comment")
			kit.Elapse(time.Minute - time.Nanosecond)
			require.Contains(t, kit.Last(call), "10:progress open")
			kit.Elapse(time.Nanosecond)
			require.Contains(t, kit.Last(call), "10:progress comment open")
			kit.Elapse(time.Minute)
			require.Contains(t, kit.Last(call), "10:progress comment comment open")
			require.Equal(t, greeted("200 sse <greet>@0", version)+strings.Repeat(" comment", 11)+" open", kit.Last(listen))
		})
	}
}

func TestKeepAliveOff(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, &kit.Fake{}, rejointest.Config{Server: rejoin.Config{KeepAlive: -1}})
		listen := c.Listen()
		kit.Elapse(time.Hour)
		require.Equal(t, "200 sse primer@0 open", kit.Last(listen))
	})
}

// An answer whose form is undecided is not a stream yet, so it gets no comments.
func TestNoKeepAliveBeforeTheHead(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeJSON}}})
		call := c.CallTool("x", nil)
		kit.Elapse(time.Hour)
		next().Returns("done")
		require.Equal(t, "200 result answered", kit.Last(call))
	})
}

// A client that stops reading is noticed after WriteTimeout, and only its connection is lost.
func TestWriteTimeoutOfAFrozenReader(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{WriteTimeout: time.Minute}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		call.Freeze()
		for i := 1; i < 100; i++ {
			require.NoError(t, tool.Progress(float64(i), 0, strings.Repeat("x", 2000)), "the tool does not notice")
		}
		kit.Elapse(time.Minute - time.Second)
		require.True(t, tool.Connected())
		kit.Elapse(2 * time.Second)
		require.False(t, tool.Connected())
		require.EqualValues(t, 1, c.Server().Stats().WritesTimedOut)
		require.NoError(t, tool.Cause())
		call.Poll()
		require.Equal(t, kit.UpTo(100), kit.Progress(t, call.Messages()))
	})
}

// A client that reads slowly gets as much time as it needs: the deadline is extended for each piece.
func TestASlowReaderIsNotTimedOut(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{WriteTimeout: 10 * time.Second}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		call.Cut()
		for i := 1; i < 20; i++ {
			require.NoError(t, tool.Progress(float64(i), 0, strings.Repeat("x", 60_000)))
		}
		res := c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", call.IDs()[1]))
		piece := make([]byte, 70_000) // a client has that time for 64 KiB
		for range 16 {
			kit.Elapse(8 * time.Second)
			_, err := io.ReadFull(res.Body, piece)
			require.NoError(t, err)
		}
		require.Zero(t, c.Server().Stats().WritesTimedOut)
		require.True(t, tool.Connected())
	})
}

// The time-outs of an http.Server count from the arrival of a request. They cut neither streams nor slow answers.
func TestTimeoutsOfTheHTTPServerCutNothing(t *testing.T) {
	for _, mode := range []rejoin.Mode{rejoin.ModeAuto, rejoin.ModeSSE, rejoin.ModeJSON} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{
				Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{Mode: mode, StreamAfter: time.Minute}},
				HTTP:   func(s *http.Server) { s.WriteTimeout, s.ReadTimeout = time.Second, time.Second },
			})
			listen := c.Listen()
			call := c.CallTool("x", nil)
			tool := next()
			kit.Elapse(10 * time.Minute)
			require.Len(t, kit.Summaries(call), 1)
			require.NoError(t, tool.Progress(1, 0, ""))
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
			kit.Elapse(10 * time.Minute)
			tool.Returns("done")
			want := map[rejoin.Mode]string{
				rejoin.ModeAuto: "200 sse primer@0 1:progress 2:result closed",
				rejoin.ModeSSE:  "200 sse primer@0 1:progress 2:result closed",
				rejoin.ModeJSON: "200 result answered",
			}
			require.Equal(t, want[mode], kit.Last(call))
			require.Equal(t, "200 sse primer@0 1:x open", kit.Last(listen))
			listen.Poll()
			kit.Elapse(10 * time.Minute)
			require.Equal(t, "200 sse primer@1 open", kit.Last(listen))
		})
	}
}

// withDeadline is a middleware that gives each request a deadline, as http.TimeoutHandler and many others do.
func withDeadline(d time.Duration) func(*rejoin.Server) http.Handler {
	return func(s *rejoin.Server) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			defer cancel()
			s.Serve(w, r.WithContext(ctx))
		})
	}
}

// If a middleware will cut the connection, its client is disconnected before: by a tenth of the time, at least 50 ms.
func TestADeadlineOfAMiddlewareClosesInTime(t *testing.T) {
	for deadline, closed := range map[time.Duration]time.Duration{
		time.Minute:            54 * time.Second,
		200 * time.Millisecond: 150 * time.Millisecond,
	} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{
				Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{StreamAfter: time.Millisecond}}, Handler: withDeadline(deadline),
			})
			listen := c.Listen()
			call := c.CallTool("x", nil)
			tool := next()
			began := time.Now()
			for range 3 {
				retry := call.WaitClosed()
				require.Equal(t, closed, time.Since(began))
				listen.WaitClosed()
				kit.Elapse(retry)
				began = time.Now()
				call.Poll()
				listen.Poll()
			}
			require.NoError(t, tool.Cause())
			tool.Returns("done")
			require.Equal(t, `"done"`, string(call.Result()))
			require.Equal(t, "200 sse primer@0 retry closed", kit.Summaries(call)[0])
			require.Equal(t, "200 sse primer@0 retry closed", kit.Summaries(listen)[0])
		})
	}
}

// noDeadlines hides write deadlines, as many middlewares do.
type noDeadlines struct{ http.ResponseWriter }

func (w noDeadlines) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// The same if the server's WriteTimeout cannot be extended.
func TestAWriteTimeoutThatCannotBeMovedClosesInTime(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{
			Server: rejoin.Config{KeepAlive: -1},
			HTTP:   func(s *http.Server) { s.WriteTimeout = 10 * time.Second },
			Handler: func(s *rejoin.Server) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Serve(noDeadlines{w}, r) })
			},
		})
		call := c.CallTool("x", nil)
		tool := next()
		began := time.Now()
		retry := call.WaitClosed()
		require.Equal(t, 9*time.Second, time.Since(began))
		kit.Elapse(retry)
		call.Poll()
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}
