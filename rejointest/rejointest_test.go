package rejointest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

func TestToolClosesItsStreamThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			for i := range 3 {
				if err := errors.Join(h.Progress(float64(i), 3, ""), h.CloseStream(time.Minute)); err != nil {
					return nil, err
				}
				elapse(2 * time.Minute)
			}
			return "done", nil
		}), rejointest.Config{})
		call := c.CallTool("slow", nil)
		for i := range 3 {
			retry := call.WaitClosed()
			require.GreaterOrEqual(t, retry, time.Minute, "what the tool said")
			require.LessOrEqual(t, retry, 72*time.Second, "and up to a fifth more")
			require.Zero(t, call.Open(), "nobody reads a stream that was closed")
			require.Len(t, progress(t, call.Messages()), i+1, "what was sent before the close came before it")
			elapse(retry)
			call.Poll()
			require.Equal(t, 1, call.Open(), "the tool still works, so the poll waits")
			require.Equal(t, http.StatusOK, call.Status())
		}
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, []int{0, 1, 2}, progress(t, call.Messages()))
		require.Len(t, call.Messages(), 4, "three times progress, and the response")
		require.Len(t, call.IDs(), 4+4, "and a primer on each of four connections")
		require.False(t, call.JSON())
		require.Zero(t, call.Open(), "the response ends the stream")
		require.EqualValues(t, 3, c.Server().Stats().Closed)
		require.EqualValues(t, 3, c.Server().Stats().Resumed)
	})
}

func TestResultWaitsAsLongAsTheServerSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			return "done", h.CloseStream(20 * time.Minute) // the response is there long before
		}), rejointest.Config{})
		call := c.CallTool("quick", nil)
		retry := call.WaitClosed()
		call.Result()
		require.Equal(t, retry, time.Since(began))
	})
}

func TestCutInTheMiddleOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := false
		c := rejointest.New(t, tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			for i := range 4 {
				_ = h.Progress(float64(i), 4, "")
				elapse(time.Second)
			}
			cancelled = ctx.Err() != nil
			return "done", nil
		}), rejointest.Config{})
		call := c.CallTool("slow", nil)
		call.WaitMessages(2)
		call.Cut()
		require.Zero(t, call.Open())
		info := streams(c)
		require.Equal(t, "parked", info[1].State, "the server noticed at once")
		elapse(time.Second)
		require.Len(t, call.Messages(), 2, "nothing comes through a connection that was cut")
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, []int{0, 1, 2, 3}, progress(t, call.Messages()), "nothing is lost, nothing comes twice")
		require.False(t, cancelled, "a disconnect is no cancellation")
		require.Contains(t, call.String(), "cut by the test")
	})
}

func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			for i := range 4 {
				_ = h.Progress(float64(i), 4, "")
				elapse(time.Second)
			}
			return "done", nil
		}), rejointest.Config{})
		call := c.CallTool("slow", nil)
		call.WaitMessages(1)
		call.Freeze() // a connection that died without a word
		elapse(time.Second)
		call.Poll()
		require.Equal(t, 2, call.Open(), "the frozen connection cannot see that it was ended")
		require.Equal(t, []int{0, 1}, progress(t, call.Messages()), "the new one gets at once what the old one did not read")
		require.EqualValues(t, 1, c.Server().Stats().TakenOver)
		call.Thaw()
		require.Equal(t, 1, call.Open(), "now it does")
		require.Contains(t, call.Wire(), `"progress":1`)
		require.Equal(t, []int{0, 1}, progress(t, call.Messages()), "what it had not read is no part of the call any more")
		call.Poll() // this one was alive
		require.Equal(t, 1, call.Open(), "so the server could end it")
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, []int{0, 1, 2, 3}, progress(t, call.Messages()))
	})
}

func TestLegacyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		resumable := true
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			_ = h.Progress(1, 2, "")
			err, resumable = h.CloseStream(time.Second), h.Resumable()
			elapse(time.Minute)
			return "done", nil
		}), rejointest.Config{Version: "2025-06-18"})
		call := c.CallTool("slow", nil)
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.ErrorIs(t, err, rejoin.ErrNotResumable)
		require.False(t, resumable)
		require.NotContains(t, call.Wire(), "retry:", "such a client chokes on a primer and on a close")
		require.Len(t, call.IDs(), 2, "but each message has an id")
		require.Len(t, call.Messages(), 2)

		call.PollFrom(call.IDs()[0])
		require.Zero(t, call.Open())
		require.Len(t, call.IDs(), 3, "so it can resume, with a GET")
		require.Len(t, call.Messages(), 2)
	})
}

func TestQuickToolIsAnsweredWithJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(context.Context, *rejoin.Handle) (any, error) {
			elapse(99 * time.Millisecond)
			return map[string]int{"n": 1}, nil
		}), rejointest.Config{})
		call := c.CallTool("quick", map[string]any{"x": 1})
		require.False(t, call.JSON(), "there is no answer yet")
		require.JSONEq(t, `{"n":1}`, string(call.Result()))
		require.True(t, call.JSON())
		require.Empty(t, call.IDs())
		require.Len(t, call.Messages(), 1)
		require.Regexp(t, `^HTTP/1\.1 200 OK\r\n(?s:.*)\r\n\r\n\{"jsonrpc":"2.0","id":2,"result":\{"n":1\}\}$`, call.Wire())
	})
}

func TestStandaloneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			return nil, h.Session().Notify(context.Background(), "notifications/tools/list_changed", nil)
		}), rejointest.Config{})
		listen := c.Listen()
		require.Equal(t, 1, listen.Open())
		require.Len(t, listen.IDs(), 1, "primed")
		c.CallTool("change", nil).Result()
		require.Len(t, listen.WaitMessages(1), 1)

		n, err := c.Server().CloseStreams(session(c).Ref, time.Minute)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.GreaterOrEqual(t, listen.WaitClosed(), time.Minute)
		c.CallTool("change", nil).Result()
		require.Len(t, listen.Messages(), 1, "nobody listens")
		listen.Poll()
		require.Len(t, listen.Messages(), 2)
		require.Equal(t, 1, listen.Open())

		again := c.Listen()
		require.Zero(t, listen.Open(), "the newest wins")
		require.Equal(t, 1, again.Open())
		require.Empty(t, again.Messages(), "a backlog is delivered, history is not")
	})
}

func TestFrozenReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			began := time.Now()
			_ = h.Progress(0, 0, "")
			elapse(time.Millisecond)
			for i := range 100 {
				if err := h.Progress(float64(i+1), 0, strings.Repeat("x", 10_000)); err != nil {
					return nil, err
				}
			}
			took = time.Since(began)
			elapse(10 * time.Minute)
			return "done", nil
		}), rejointest.Config{Server: rejoin.Config{WriteTimeout: 10 * time.Second}})
		call := c.CallTool("loud", nil)
		call.WaitMessages(1)
		call.Freeze()
		elapse(9 * time.Second)
		synctest.Wait()
		require.Equal(t, time.Millisecond, took, "the tool does not notice")
		require.Equal(t, "live", streams(c)[1].State, "the server waits for the reader")
		require.Zero(t, c.Server().Stats().WritesTimedOut)
		elapse(2 * time.Second)
		synctest.Wait()
		require.Equal(t, "parked", streams(c)[1].State, "but not longer than WriteTimeout")
		require.EqualValues(t, 1, c.Server().Stats().WritesTimedOut)
		require.Len(t, call.Messages(), 1)

		call.Thaw()
		require.Zero(t, call.Open())
		got := len(call.Messages())
		require.Greater(t, got, 4, "what was in the buffer is read")
		require.Less(t, got, 12, "which holds 64 KiB")
		call.Poll()
		require.Len(t, call.Messages(), 101)
		require.JSONEq(t, `"done"`, string(call.Result()))
		for i, n := range progress(t, call.Messages()) {
			require.Equal(t, i, n)
		}
	})
}

func TestTimeoutsOfTheServerCutNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			elapse(10 * time.Minute)
			return "done", nil
		}), rejointest.Config{HTTP: func(s *http.Server) {
			s.WriteTimeout, s.ReadTimeout, s.IdleTimeout = time.Second, time.Second, time.Second
		}})
		listen := c.Listen()
		call := c.CallTool("slow", nil)
		began := time.Now()
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, 10*time.Minute, time.Since(began), "no poll was needed")
		require.Len(t, call.IDs(), 2, "one connection did it all")
		require.Equal(t, 1, strings.Count(call.Wire(), "retry:"), "the primer's: who has the response need not come back")
		require.Equal(t, 1, listen.Open())
	})
}

func TestDeleteEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 2)
		c := rejointest.New(t, tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			_ = h.Progress(1, 2, "")
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, nil
		}), rejointest.Config{})
		listen, call, other := c.Listen(), c.CallTool("slow", nil), c.CallTool("slow", nil)
		other.Cut()
		c.Delete()
		require.ErrorIs(t, <-causes, rejoin.ErrSessionEnded)
		require.ErrorIs(t, <-causes, rejoin.ErrSessionEnded)
		require.Zero(t, listen.Open()+call.Open())
		call.WaitClosed() // cleanly
		require.Len(t, call.Messages(), 1, "and without a response")
		call.Poll()
		require.Equal(t, http.StatusNotFound, call.Status())
		require.Equal(t, -32001, call.Err().Code)
		require.Equal(t, -32001, other.Err().Code)
		require.Equal(t, -32001, c.Start("ping", nil).Err().Code)
		require.Zero(t, c.Server().Stats().Sessions)
	})
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			elapse(40 * time.Second)
			_ = h.Progress(1, 2, "")
			elapse(20 * time.Second)
			return "done", nil
		}), rejointest.Config{})
		call := c.CallTool("slow", nil)
		comments := func() int { // and not the empty data of primers
			return strings.Count(call.Wire(), ": \n\n") - strings.Count(call.Wire(), "data: \n\n")
		}
		elapse(15 * time.Second) // the primer is sent after 100 ms
		require.Zero(t, comments())
		elapse(100 * time.Millisecond)
		require.Equal(t, 1, comments(), "after 15 s of silence")
		call.WaitMessages(1)
		require.Equal(t, 2, comments())
		elapse(15*time.Second - 1)
		require.Equal(t, 2, comments(), "the message broke the silence")
		elapse(1)
		require.Equal(t, 3, comments())
		call.Result()
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		c := rejointest.New(t, tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			_ = h.Progress(1, 2, "")
			<-ctx.Done()
			cause = context.Cause(ctx)
			return "too late", nil
		}), rejointest.Config{})
		call := c.CallTool("slow", nil)
		call.Cancel("enough")
		require.ErrorIs(t, cause, rejoin.ErrCancelled)
		call.WaitClosed()
		require.Len(t, call.Messages(), 1)
		call.Poll()
		require.Equal(t, http.StatusNoContent, call.Status())
	})
}

func TestOldAndForeignCursors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			for i := range 3 {
				_ = h.Progress(float64(i), 3, "")
			}
			return "done", nil
		}), rejointest.Config{})
		call := c.CallTool("quick", nil)
		require.JSONEq(t, `"done"`, string(call.Result()))
		ids := call.IDs()
		require.Len(t, ids, 5)
		for i, id := range ids[:4] {
			before := len(call.IDs())
			call.PollFrom(id)
			require.Len(t, call.IDs(), before+1+4-i, "a primer, and what follows the cursor")
			require.Len(t, call.Messages(), 4, "each once, however often it is replayed")
			require.JSONEq(t, `"done"`, string(call.Result()))
		}
		call.PollFrom(ids[4])
		require.Equal(t, http.StatusNoContent, call.Status(), "nothing is left")
		call.PollFrom("garbage")
		require.Equal(t, http.StatusBadRequest, call.Status())
		require.Equal(t, rejoin.CodeInvalidRequest, call.Err().Code)

		elapse(10 * time.Minute) // Retain is over
		call.PollFrom(ids[1])
		require.JSONEq(t, `{"reason":"expired"}`, string(call.Err().Data))
		require.Len(t, call.Messages(), 5)
	})
}
