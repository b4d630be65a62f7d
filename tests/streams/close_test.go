package streams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// What SEP-1699 requires, byte for byte.
func TestAPolledCallOnTheWire(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 3, "a"))
		require.NoError(t, tool.CloseStream(2*time.Second))
		kit.Elapse(call.WaitClosed())
		call.Poll()
		require.NoError(t, tool.Notify("notifications/message", map[string]string{"data": "größe\n"}))
		tool.Returns(map[string]int{"n": 1})
		const stream = `([A-Za-z0-9_-]{22})`
		// A response that is complete when its head is sent has a Content-Length, and needs no chunks.
		const head = "HTTP/1\\.1 200 OK\r\nCache-Control: no-cache, no-transform\r\n(?:Content-Length: [0-9]+\r\n)?Content-Type: text/event-stream\r\n" +
			"Date: [^\r]*\r\nX-Accel-Buffering: no\r\n\r\n"
		want := regexp.MustCompile(`^` + head +
			"id: " + stream + `\.0\.[0-9a-z]+` + "\nretry: 1000\ndata: \n\n" +
			"event: message\nid: " + stream + `\.1` + "\ndata: " + regexp.QuoteMeta(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1,"total":3,"message":"a"}}`) + "\n\n" +
			"retry: (2[0-4][0-9]{2})\n\n" + head +
			"id: " + stream + `\.1\.[0-9a-z]+` + "\nretry: 1000\ndata: \n\n" +
			"event: message\nid: " + stream + `\.2` + "\ndata: " + regexp.QuoteMeta(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"größe\n"}}`) + "\n\n" +
			"event: message\nid: " + stream + `\.3` + "\ndata: " + regexp.QuoteMeta(`{"jsonrpc":"2.0","id":2,"result":{"n":1}}`) + "\n\n$")
		parts := want.FindStringSubmatch(call.Wire())
		require.NotNil(t, parts, "%q", call.Wire())
		for _, i := range []int{2, 4, 5, 6} {
			require.Equal(t, parts[1], parts[i], "one stream has one name")
		}
	})
}

// A stream that is complete when its head is sent is one write with a Content-Length. What comes later is sent in chunks. Both are flushed at once.
func TestAStreamThatIsWholeHasALength(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeSSE}}})
		quick := c.CallTool("x", nil)
		next().Returns("done")
		require.Equal(t, "200 sse primer@0 1:result closed", kit.Last(quick))
		_, body, _ := strings.Cut(quick.Wire(), "\r\n\r\n")
		require.Equal(t, strconv.Itoa(len(body)), quick.Header().Get("Content-Length"))

		slow := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Notify("notifications/message", nil))
		require.Equal(t, "200 sse primer@0 1:message open", kit.Last(slow))
		require.Empty(t, slow.Header().Get("Content-Length"), "more will come")
		tool.Returns("done")
		require.Equal(t, "200 sse primer@0 1:message 2:result closed", kit.Last(slow))
	})
}

// A stream may be closed any number of times. Earlier events are written before the close, later ones wait.
func TestFiftyClosesOfARequestStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		n := 0
		send := func(k int) {
			for range k {
				require.NoError(t, tool.Progress(float64(n), 0, ""))
				n++
			}
		}
		for i := range 50 {
			send(i % 4)
			require.NoError(t, tool.CloseStream(0))
			require.NoError(t, tool.CloseStream(0), "a client that is away stays away")
			send(i % 3)
			kit.Elapse(call.WaitClosed())
			call.Poll()
			require.Equal(t, kit.UpTo(n), kit.Progress(t, call.Messages()))
			require.Equal(t, 1, call.Open())
		}
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(n), kit.Progress(t, call.Messages()))
		require.Len(t, call.Messages(), n+1, "each once")
		require.EqualValues(t, 50, c.Server().Stats().Closed)
		require.EqualValues(t, 50, c.Server().Stats().Resumed)
		for _, line := range kit.Summaries(call) {
			requireChain(t, line)
		}
	})
}

func TestFiftyClosesOfTheStandaloneStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		listen := c.Listen()
		c.CallTool("x", nil)
		tool := next()
		n := 0
		send := func(k int) {
			for range k {
				require.NoError(t, tool.Session().Notify(context.Background(), "notifications/progress", json.RawMessage(fmt.Sprintf(`{"progress":%d}`, n))))
				n++
			}
		}
		for i := range 50 {
			send(i % 4)
			require.NoError(t, tool.CloseStandaloneStream(0))
			require.NoError(t, tool.CloseStandaloneStream(0))
			send(i % 3)
			kit.Elapse(listen.WaitClosed())
			listen.Poll()
			require.Equal(t, kit.UpTo(n), kit.Progress(t, listen.Messages()))
			require.Equal(t, 1, listen.Open())
		}
		require.Len(t, listen.Messages(), n)
		tool.Returns("done")
		require.NoError(t, tool.CloseStandaloneStream(0), "the session's stream outlives the call")
		listen.WaitClosed()
	})
}

// With CloseAfter no connection lasts longer, so any tool works behind any proxy.
func TestCloseAfterNeedsNothingOfTheTool(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, kit.Tool(func(context.Context, *rejoin.Handle) (any, error) {
			kit.Elapse(10 * time.Minute)
			return "done", nil
		}), rejointest.Config{Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{CloseAfter: 50 * time.Second}}})
		began := time.Now()
		call := c.CallTool("x", nil)
		for polls := 0; ; polls++ {
			opened := time.Now()
			if time.Since(began) > 9*time.Minute {
				break
			}
			retry := call.WaitClosed()
			require.Equal(t, 50*time.Second, time.Since(opened))
			kit.Elapse(retry)
			call.Poll()
		}
		require.Equal(t, `"done"`, string(call.Result()))
		require.Less(t, time.Since(began), 11*time.Minute)
		lines := kit.Summaries(call)
		require.Equal(t, "200 sse primer@0 retry closed", lines[0])
		require.Equal(t, "200 sse primer@0 1:result closed", lines[len(lines)-1])
		ids := map[string]bool{}
		for _, id := range call.IDs() {
			require.False(t, ids[id], "each primer has a new id")
			ids[id] = true
		}
	})
}

// CloseAfter also closes standalone streams.
func TestCloseAfterOfTheStandaloneStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, &kit.Fake{}, rejointest.Config{Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{CloseAfter: 50 * time.Second}}})
		listen := c.Listen()
		for range 5 {
			opened := time.Now()
			retry := listen.WaitClosed()
			require.Equal(t, 50*time.Second, time.Since(opened))
			kit.Elapse(retry)
			listen.Poll()
			require.Equal(t, 1, listen.Open())
		}
	})
}

// SetPolicy changes CloseAfter for the rest of the call.
func TestSetPolicy(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{KeepAlive: -1}})
		call := c.CallTool("x", nil)
		tool := next()
		kit.Elapse(time.Minute)
		require.NoError(t, tool.SetPolicy(rejoin.Policy{CloseAfter: 2 * time.Minute, Retry: 10 * time.Second}))
		retry := call.WaitClosed()
		kit.RequireSpread(t, 10*time.Second, retry)
		kit.Elapse(retry)
		opened := time.Now()
		call.Poll()
		require.Equal(t, 10*time.Second, lastRetry(t, call), "the primer says so too")
		require.NoError(t, tool.SetPolicy(rejoin.Policy{Retry: -1, AbandonAfter: -1}), "zero fields stay as they are; Retry cannot be off")
		retry = call.WaitClosed()
		require.Equal(t, 2*time.Minute, time.Since(opened))
		require.GreaterOrEqual(t, retry, 10*time.Second)
		kit.Elapse(24 * time.Hour)
		require.NoError(t, tool.Cause(), "AbandonAfter is off")
		call.Poll()
		require.NoError(t, tool.SetPolicy(rejoin.Policy{CloseAfter: -1}))
		kit.Elapse(time.Hour)
		require.Equal(t, 1, call.Open())
		require.NoError(t, tool.SetPolicy(rejoin.Policy{MaxRuntime: time.Second}), "it counts from the start of the call")
		synctest.Wait()
		kit.Elapse(time.Nanosecond)
		require.ErrorIs(t, tool.Cause(), rejoin.ErrMaxRuntime)
		require.ErrorIs(t, tool.SetPolicy(rejoin.Policy{}), rejoin.ErrEnded)
	})
}

var retries = regexp.MustCompile(`(?m)^retry: ([0-9]+)$`)

// allRetries returns the retries of all connections, in order.
func allRetries(t *testing.T, call *rejointest.Call) (all []time.Duration) {
	t.Helper()
	for _, m := range retries.FindAllStringSubmatch(call.Wire(), -1) {
		ms, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		all = append(all, time.Duration(ms)*time.Millisecond)
	}
	return all
}

// lastRetry returns the newest retry.
func lastRetry(t *testing.T, call *rejointest.Call) time.Duration {
	t.Helper()
	all := allRetries(t, call)
	return all[len(all)-1]
}

// The retry before a close grows with each empty poll, up to RetryMax, and an event resets it. The retry of a primer is always the base.
func TestRetryGrowsWithEmptyPolls(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{Retry: time.Second, RetryMax: 4 * time.Second}}})
		call := c.CallTool("x", nil)
		tool := next()
		for round := range 2 {
			grown := time.Second
			for range 7 {
				require.NoError(t, tool.CloseStream(0))
				kit.Elapse(call.WaitClosed())
				said := allRetries(t, call)
				kit.RequireSpread(t, grown, said[len(said)-1])
				require.Equal(t, time.Second, said[len(said)-2], "the primer says the base")
				call.Poll()
				grown = min(grown*3/2, 4*time.Second)
			}
			require.NoError(t, tool.CloseStream(time.Minute))
			kit.RequireSpread(t, time.Minute, call.WaitClosed())
			if round == 0 {
				require.NoError(t, tool.Progress(1, 0, ""))
			}
			call.Poll()
		}
	})
}

// Clients that are disconnected together do not poll at the same time.
func TestRetryIsSpread(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		told := map[time.Duration]bool{}
		for range 30 {
			call := c.CallTool("x", nil)
			require.NoError(t, next().CloseStream(10*time.Second))
			retry := call.WaitClosed()
			kit.RequireSpread(t, 10*time.Second, retry)
			told[retry] = true
		}
		require.Greater(t, len(told), 20)
	})
}

// Every retry is from a millisecond to an hour.
func TestRetryIsBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		for said, want := range map[time.Duration]time.Duration{
			time.Nanosecond: time.Millisecond, 100 * time.Hour: time.Hour, -time.Second: time.Second,
		} {
			call := c.CallTool("x", nil)
			require.NoError(t, next().CloseStream(said))
			kit.RequireSpread(t, want, call.WaitClosed())
			require.LessOrEqual(t, call.WaitClosed(), time.Hour)
		}
	})
}

// Retain counts from the response, or from when the client was due. Empty polls do not extend it.
func TestRetain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{
			Policy: rejoin.Policy{Retain: time.Minute}, Store: eventstore.NewMemory(eventstore.MemoryConfig{}),
		}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.CloseStream(30*time.Minute))
		tool.Returns("done")
		kit.Elapse(call.WaitClosed() + time.Minute - time.Millisecond)
		require.EqualValues(t, 2, c.Server().Stats().Streams)
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
		kit.Elapse(time.Minute + 2*time.Second)
		require.EqualValues(t, 1, c.Server().Stats().Streams)
		require.Zero(t, c.Server().Stats().StoredBytes, "nothing of it is kept")
	})
}
