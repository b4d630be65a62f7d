package streams_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Invariant 4: a new connection takes over at once, and the old one ends between two events, after a retry.
func TestTakeoverOfAConnectionThatIsAlive(t *testing.T) {
	want := []string{
		"200 sse primer@0 1:progress retry closed",
		"200 sse primer@1 2:progress retry closed",
		"200 sse primer@2 retry closed",
		"200 sse primer@2 3:progress open",
	}
	summary := func(call *rejointest.Call, send func() error) []string {
		require.NoError(t, send())
		call.Poll()
		require.Equal(t, 1, call.Open(), "the old one has ended at once")
		require.NoError(t, send())
		call.Poll()
		call.Poll()
		require.NoError(t, send())
		return kit.Summaries(call)
	}
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.Equal(t, want, summary(call, func() error { return tool.Progress(1, 0, "") }))
		require.Equal(t, want, summary(c.Listen(), func() error {
			return tool.Session().Notify(context.Background(), "notifications/progress", nil)
		}), "the standalone stream is a stream like any other")
		require.EqualValues(t, 6, c.Server().Stats().TakenOver)
	})
}

// A frozen connection cannot be distinguished from a quiet one. The new connection does not wait for it, and what the old one gets ends between two events.
func TestTakeoverOfAFrozenConnection(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		call.Freeze()
		for i := 1; i < 40; i++ { // far more than the connection can buffer
			require.NoError(t, tool.Progress(float64(i), 0, strings.Repeat("x", 10_000)))
		}
		synctest.Wait()
		require.Equal(t, "live", kit.Session(t, c).Streams[1].State)
		began := time.Now()
		res := c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", call.IDs()[1]))
		require.Equal(t, http.StatusOK, res.StatusCode)
		got := make([]byte, 39*10_000)
		_, err := io.ReadFull(res.Body, got)
		require.NoError(t, err, "all that the old one did not read")
		require.Zero(t, time.Since(began), "at once")

		call.Thaw()
		require.Zero(t, call.Open())
		old := strings.Fields(kit.Last(call))
		require.Equal(t, []string{"retry", "closed"}, old[len(old)-2:], "it is told when to come back")
		requireChain(t, kit.Last(call))
		require.Less(t, len(old), 20, "and not what came after it was replaced")
		require.EqualValues(t, 1, c.Server().Stats().Connections)
	})
}

// Two connections never read one stream at the same time, however often they take turns: an event that one gets the other does not get.
func TestTwentyTakeoversLoseAndDoubleNothing(t *testing.T) {
	for seed := range uint64(5) {
		kit.Bubble(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			c := kit.New(t, kit.Tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
				for i := range 500 {
					if err := h.Progress(float64(i), 500, ""); err != nil {
						return nil, err
					}
					if i%3 != 0 {
						kit.Elapse(time.Millisecond)
					}
				}
				return "done", nil
			}), rejointest.Config{})
			call := c.CallTool("x", nil)
			for range 20 {
				kit.Elapse(time.Duration(random.IntN(30)) * time.Millisecond)
				switch ids := call.IDs(); random.IntN(4) {
				case 0: // it polls from an older cursor
					call.PollFrom(ids[random.IntN(len(ids))])
				case 1: // the client cannot see the end of the old connection
					call.Freeze()
					call.Poll()
				default:
					call.Poll()
				}
			}
			require.Equal(t, `"done"`, string(call.Result()))
			require.Equal(t, kit.UpTo(500), kit.Progress(t, call.Messages()), "the union is complete and in order")
			for _, line := range kit.Summaries(call) {
				requireChain(t, line)
			}
			require.EqualValues(t, 20, c.Server().Stats().TakenOver)
		})
	}
}

var sequences = regexp.MustCompile(`(?:primer@|\b)(\d+):?`)

// requireChain checks that the events of a stream follow its primer without a gap.
func requireChain(t *testing.T, line string) {
	t.Helper()
	line = strings.TrimPrefix(line, "200 sse ")
	next := -1
	for _, m := range sequences.FindAllStringSubmatch(line, -1) {
		n := kit.Atoi(t, m[1])
		if next >= 0 {
			require.Equal(t, next, n, line)
		}
		next = n + 1
	}
	require.NotContains(t, line, "torn")
	require.NotContains(t, line, "strange")
}

// If no client asks for an event twice, none is written twice: all connections together have each event once.
func TestNeverTwoReaders(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, kit.Tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			for i := range 200 {
				_ = h.Progress(float64(i), 0, "")
				kit.Elapse(time.Millisecond)
			}
			return "done", nil
		}), rejointest.Config{})
		call := c.CallTool("x", nil)
		for range 20 {
			kit.Elapse(5 * time.Millisecond)
			call.Poll()
		}
		call.Result()
		require.Equal(t, 201, strings.Count(call.Wire(), `"jsonrpc"`))
	})
}

// Two clients that poll in turns with cursors of their own each see the whole stream in order.
func TestPingPongOfTwoClients(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		first := call.IDs()[0]
		for i := range 20 {
			call.PollFrom(first) // the other client starts from the beginning each time
			require.NoError(t, tool.Progress(float64(i+1), 0, ""))
			require.Equal(t, kit.UpTo(i+2), kit.Progress(t, call.Messages()))
			requireChain(t, kit.Last(call))
			require.Equal(t, 1, call.Open())
		}
	})
}
