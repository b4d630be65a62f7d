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

// Invariant 4: a new connection takes over at once, and the old one ends on an event boundary, having been told when to come back.
func TestTakeoverOfAConnectionThatIsAlive(t *testing.T) {
	want := []string{
		"200 sse primer@0 1:progress retry closed",
		"200 sse primer@1 2:progress retry closed",
		"200 sse primer@2 retry closed",
		"200 sse primer@2 3:progress open",
	}
	story := func(call *rejointest.Call, send func() error) []string {
		require.NoError(t, send())
		call.Poll()
		require.Equal(t, 1, call.Open(), "the old one has ended at once")
		require.NoError(t, send())
		call.Poll()
		call.Poll()
		require.NoError(t, send())
		return kit.Story(call)
	}
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.Puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.Equal(t, want, story(call, func() error { return tool.Progress(1, 0, "") }))
		require.Equal(t, want, story(c.Listen(), func() error {
			return tool.Session().Notify(context.Background(), "notifications/progress", nil)
		}), "the standalone stream is a stream like any other")
		require.EqualValues(t, 6, c.Server().Stats().TakenOver)
	})
}

// A connection that has frozen cannot be told from one that is quiet. The new one does not wait for it; and what the old one has
// been given ends between two events.
func TestTakeoverOfAFrozenConnection(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.Puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		call.Freeze()
		for i := 1; i < 40; i++ { // far more than the network takes
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

// Two connections never read one stream: what one gets the other does not get, however often they take turns.
func TestTwentyTakeoversLoseAndDoubleNothing(t *testing.T) {
	for seed := range uint64(5) {
		kit.Bubble(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			c := rejointest.New(t, kit.Tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
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
				case 0: // of a client that lost some
					call.PollFrom(ids[random.IntN(len(ids))])
				case 1: // it cannot see the end of the old one
					call.Freeze()
					call.Poll()
				default:
					call.Poll()
				}
			}
			require.Equal(t, `"done"`, string(call.Result()))
			require.Equal(t, kit.UpTo(500), kit.Progress(t, call.Messages()), "the union is complete and in order")
			for _, line := range kit.Story(call) {
				requireChain(t, line)
			}
			require.EqualValues(t, 20, c.Server().Stats().TakenOver)
		})
	}
}

var sequences = regexp.MustCompile(`(?:primer@|\b)(\d+):?`)

// requireChain checks that a stream goes on without a gap from where its primer says.
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

// Where nobody reads twice, nothing is written twice: all connections together carry each event once.
func TestNeverTwoReaders(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, kit.Tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
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

// Clients that poll with cursors of their own, in turns, each see the whole stream in order.
func TestPingPongOfTwoClients(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.Puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		first := call.IDs()[0]
		for i := range 20 {
			call.PollFrom(first) // the other client starts over, each time
			require.NoError(t, tool.Progress(float64(i+1), 0, ""))
			require.Equal(t, kit.UpTo(i+2), kit.Progress(t, call.Messages()))
			requireChain(t, kit.Last(call))
			require.Equal(t, 1, call.Open())
		}
	})
}
