package door_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A tool sends without end to a client that does not read. That costs at most what the store may hold of its session, and nothing for others.
func TestAMillionNotificationsToNobody(t *testing.T) {
	for name, test := range map[string]struct {
		n     int
		leave func(*rejointest.Call)
	}{
		"it has gone":       {1_000_000 / kit.Fewer, (*rejointest.Call).Cut},
		"it does not read":  {200_000 / min(kit.Fewer, 4), (*rejointest.Call).Freeze},
		"it comes and goes": {200_000 / min(kit.Fewer, 4), func(call *rejointest.Call) { call.Cut(); call.Poll(); call.Freeze(); call.Poll(); call.Cut() }},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				said := &kit.Log{}
				c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{
					KeepAlive: -1, Logger: slog.New(slog.NewTextHandler(said, nil)), Policy: rejoin.Policy{AbandonAfter: -1},
				}})
				call := c.CallTool("x", nil)
				tool := next()
				require.NoError(t, tool.Progress(0, 0, ""))
				call.WaitMessages(1)
				other := c.CallTool("y", nil)
				bystander := next()
				test.leave(call)
				base, began := kit.HeapAlloc(), time.Now()
				params := json.RawMessage(`{"x":"` + strings.Repeat("x", 40) + `"}`)
				taken, refused := 0, 0
				for range test.n {
					switch err := tool.Session().Notify(tool.Ctx, "notifications/x", params); err {
					case nil:
						taken++
					default:
						require.ErrorIs(t, err, rejoin.ErrFull)
						refused++
					}
				}
				require.Zero(t, time.Since(began), "the tool never waits")
				require.Positive(t, refused)
				require.Less(t, taken, 45_000, "of 4 MiB")
				stats := c.Server().Stats()
				require.EqualValues(t, refused, stats.Full)
				require.LessOrEqual(t, stats.StoredBytes, int64(4<<20))
				require.LessOrEqual(t, stats.Evicted, int64(1), "what it has acknowledged, by coming back")
				require.Equal(t, 1, said.Count("no room"), "said once")
				kit.RequireFlat(t, base, 8<<20, "a flood of "+strconv.Itoa(test.n))

				kit.AtOnce(t, "the other call", func() {
					bystander.Returns("done")
					require.Equal(t, `"done"`, string(other.Result()))
				})
				kit.AtOnce(t, "another session", func() {
					_, res := kit.Post(t, c, kit.Initialize, "Mcp-Session-Id", "")
					body, _ := kit.Post(t, c, kit.Ping, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))
					require.Equal(t, "result", kit.MessageSummary(body))
				})
				tool.Returns("done")
				call.Poll()
				require.Equal(t, `"done"`, string(call.Result()), "and its own response is taken")
				require.Len(t, call.Messages(), 1+taken+1, "with all that was")
			})
		})
	}
}

// No client waits for a response on the standalone stream: it keeps the newest events, and accepts new ones for ever.
func TestVeryManyNotificationsAside(t *testing.T) {
	const n = 200_000 / kit.Fewer
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		base := kit.HeapAlloc()
		for i := range n {
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", json.RawMessage(`{"n":`+strconv.Itoa(i)+`}`)))
		}
		stats := c.Server().Stats()
		require.Zero(t, stats.Full)
		require.Greater(t, stats.Evicted, int64(n/2))
		require.LessOrEqual(t, stats.StoredBytes, int64(257<<10))
		kit.RequireFlat(t, base, 2<<20, "a backlog of which most is lost")
		heard := c.Listen().Messages()
		require.Len(t, heard, n-int(stats.Evicted), "what is left is heard")
		require.Contains(t, string(heard[len(heard)-1]), `{"n":`+strconv.Itoa(n-1)+`}`)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A session lives for years, and nothing that its client does leaves anything: calls that have ended, cancellations of unknown requests, answers
// without a question, unknown cursors, batches in the wrong version.
func TestAHundredThousandOfEachLeaveNothing(t *testing.T) {
	const n = 100_000 / kit.Fewer
	garbage := func(i int) string { return "AAAAAAAAAAAAAAAAAA" + strconv.FormatInt(int64(i)+0x100000, 16)[1:] + "A.1" }
	for name, test := range map[string]struct {
		status int
		ask    func(t *testing.T, id string, i int) *http.Request
	}{
		"calls": {http.StatusOK, func(t *testing.T, id string, i int) *http.Request {
			t.Helper()
			return kit.InSession(t, id, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"tools/call","params":{"name":"x"}}`)
		}},
		"cancels of what never was": {http.StatusAccepted, func(t *testing.T, id string, i int) *http.Request {
			t.Helper()
			return kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+strconv.Itoa(i)+`}}`)
		}},
		"answers to nothing": {http.StatusAccepted, func(t *testing.T, id string, i int) *http.Request {
			t.Helper()
			return kit.InSession(t, id, `{"jsonrpc":"2.0","id":"nobody.`+strconv.Itoa(i)+`","result":{}}`)
		}},
		"cursors that never were": {http.StatusBadRequest, func(t *testing.T, id string, i int) *http.Request {
			t.Helper()
			return kit.Request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", garbage(i))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
				resting := len(kit.Goroutines())
				id := kit.OpenReady(t, s)
				var base uint64
				for i := range n {
					if i == n/10 {
						base = kit.HeapAlloc()
					}
					if w := kit.ServeNow(s, test.ask(t, id, i)); w.Status != test.status {
						require.Equal(t, test.status, w.Status, w.Body.String())
					}
				}
				kit.RequireFlat(t, base, 512<<10, "nine tenths of them")
				stats := s.Stats()
				require.EqualValues(t, 1, stats.Streams)
				require.Zero(t, stats.Connections+stats.StoredBytes)
				require.Equal(t, http.StatusOK, kit.ServeNow(s, kit.InSession(t, id, kit.Ping)).Status)
				kit.RequireRested(t, resting)
			})
		})
	}
}

// If there are too many streams that were closed and never fetched, the oldest are dropped, and so are their cursors.
func TestVeryManyDroppedCursors(t *testing.T) {
	const n, kept, remembered = 20_000 / min(kit.Fewer, 4), 256, 1000
	kit.Bubble(t, func(t *testing.T) {
		app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
			if c.Method() != "initialize" {
				_ = c.Handle().CloseStream(0)
			}
			kit.Accept(c)
		}}
		s := kit.NewServer(t, app, rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}})
		id := kit.OpenReady(t, s)
		var cursors []string
		var base uint64
		for i := range n {
			if i == n/4 {
				base = kit.HeapAlloc()
			}
			w := kit.ServeNow(s, kit.InSession(t, id, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"x"}`))
			_, rest, ok := strings.Cut(w.Body.String(), "id: ")
			require.True(t, ok, w.Body.String())
			cursor, _, _ := strings.Cut(rest, "\n")
			cursors = append(cursors, cursor)
		}
		cursors, base = cursors[:n:n], base+uint64(n*3/4*80) // what the test itself keeps does not count
		kit.RequireFlat(t, base, 2<<20, "streams that nobody came back for")
		require.EqualValues(t, 1+kept, s.Stats().Streams, "ended ones that are kept")
		poll := func(cursor string) string {
			return kit.Serve(s, kit.Request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", cursor)).Summary()
		}
		require.Equal(t, `204 sse ended`, poll(cursors[0]), "forgotten")
		require.Equal(t, `200 sse primer@0 1:error(-32000,`+strconv.Itoa(n-kept-remembered)+`) expired ended`, poll(cursors[n-kept-remembered]), "dropped, and remembered")
		require.Equal(t, `200 sse primer@0 1:result ended`, poll(cursors[n-kept]), "kept")
		kit.Elapse(2 * time.Minute)
		require.EqualValues(t, 1, s.Stats().Streams)
		require.Zero(t, s.Stats().StoredBytes)
		for _, cursor := range []string{cursors[n-kept], cursors[n-1]} {
			require.Contains(t, poll(cursor), "expired ended")
		}
	})
}
