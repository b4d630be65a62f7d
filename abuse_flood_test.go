package rejoin_test

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
)

// A tool that talks and talks to a client that does not listen costs what the store may hold of its session, and nobody else anything.
func TestAMillionNotificationsToNobody(t *testing.T) {
	for name, test := range map[string]struct {
		n     int
		leave func(*rejointest.Call)
	}{
		"it has gone":       {1_000_000 / fewer, (*rejointest.Call).Cut},
		"it does not read":  {200_000 / min(fewer, 4), (*rejointest.Call).Freeze},
		"it comes and goes": {200_000 / min(fewer, 4), func(call *rejointest.Call) { call.Cut(); call.Poll(); call.Freeze(); call.Poll(); call.Cut() }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				app, next := puppets()
				said := &lines{}
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
				base, began := heapAlloc(), time.Now()
				params := json.RawMessage(`{"x":"` + strings.Repeat("x", 40) + `"}`)
				taken, refused := 0, 0
				for range test.n {
					switch err := tool.Session().Notify(tool.ctx, "notifications/x", params); err {
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
				require.Equal(t, 1, said.count("no room"), "said once")
				flat(t, base, 8<<20, "a flood of "+strconv.Itoa(test.n))

				atOnce(t, "the other call", func() {
					bystander.returns("done")
					require.Equal(t, `"done"`, string(other.Result()))
				})
				atOnce(t, "another session", func() {
					_, res := post(t, c, initialize, "Mcp-Session-Id", "")
					body, _ := post(t, c, ping, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))
					require.Equal(t, "result", shape(body))
				})
				tool.returns("done")
				call.Poll()
				require.Equal(t, `"done"`, string(call.Result()), "and its own response is taken")
				require.Len(t, call.Messages(), 1+taken+1, "with all that was")
			})
		})
	}
}

// On a session's own stream nobody waits for a response: it keeps the newest, and takes for ever.
func TestVeryManyNotificationsAside(t *testing.T) {
	const n = 200_000 / fewer
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		base := heapAlloc()
		for i := range n {
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", json.RawMessage(`{"n":`+strconv.Itoa(i)+`}`)))
		}
		stats := c.Server().Stats()
		require.Zero(t, stats.Full)
		require.Greater(t, stats.Evicted, int64(n/2))
		require.LessOrEqual(t, stats.StoredBytes, int64(257<<10))
		flat(t, base, 2<<20, "a backlog of which most is lost")
		heard := c.Listen().Messages()
		require.Len(t, heard, n-int(stats.Evicted), "what is left is heard")
		require.Contains(t, string(heard[len(heard)-1]), `{"n":`+strconv.Itoa(n-1)+`}`)
		tool.returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A session lives for years, and each thing that its client does leaves nothing: calls that are over, cancels of what never was, answers that
// nobody asked for, cursors that never were, batches of the wrong version.
func TestAHundredThousandOfEachLeaveNothing(t *testing.T) {
	const n = 100_000 / fewer
	garbage := func(i int) string { return "AAAAAAAAAAAAAAAAAA" + strconv.FormatInt(int64(i)+0x100000, 16)[1:] + "A.1" }
	for name, test := range map[string]struct {
		status int
		ask    func(t *testing.T, id string, i int) *http.Request
	}{
		"calls": {http.StatusOK, func(t *testing.T, id string, i int) *http.Request {
			t.Helper()
			return inSession(t, id, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"tools/call","params":{"name":"x"}}`)
		}},
		"cancels of what never was": {http.StatusAccepted, func(t *testing.T, id string, i int) *http.Request {
			t.Helper()
			return inSession(t, id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+strconv.Itoa(i)+`}}`)
		}},
		"answers to nothing": {http.StatusAccepted, func(t *testing.T, id string, i int) *http.Request {
			t.Helper()
			return inSession(t, id, `{"jsonrpc":"2.0","id":"nobody.`+strconv.Itoa(i)+`","result":{}}`)
		}},
		"cursors that never were": {http.StatusBadRequest, func(t *testing.T, id string, i int) *http.Request {
			t.Helper()
			return request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", garbage(i))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newServer(t, &fake{}, rejoin.Config{})
				resting := len(goroutines())
				id := spoken(t, s)
				var base uint64
				for i := range n {
					if i == n/10 {
						base = heapAlloc()
					}
					if w := straight(s, test.ask(t, id, i)); w.status != test.status {
						require.Equal(t, test.status, w.status, w.body.String())
					}
				}
				flat(t, base, 512<<10, "nine tenths of them")
				stats := s.Stats()
				require.EqualValues(t, 1, stats.Streams)
				require.Zero(t, stats.Connections+stats.StoredBytes)
				require.Equal(t, http.StatusOK, straight(s, inSession(t, id, ping)).status)
				rested(t, resting)
			})
		})
	}
}

// Streams that were let go and never fetched are forgotten, the oldest first, and so are their cursors, when there are too many.
func TestVeryManyDroppedCursors(t *testing.T) {
	const n, kept, remembered = 20_000 / min(fewer, 4), 256, 1000
	bubble(t, func(t *testing.T) {
		app := &fake{request: func(c *rejoin.Call) {
			if c.Method() != "initialize" {
				_ = c.Handle().CloseStream(0)
			}
			accept(c)
		}}
		s := newServer(t, app, rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}})
		id := spoken(t, s)
		var cursors []string
		var base uint64
		for i := range n {
			if i == n/4 {
				base = heapAlloc()
			}
			w := straight(s, inSession(t, id, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"x"}`))
			_, rest, ok := strings.Cut(w.body.String(), "id: ")
			require.True(t, ok, w.body.String())
			cursor, _, _ := strings.Cut(rest, "\n")
			cursors = append(cursors, cursor)
		}
		cursors, base = cursors[:n:n], base+uint64(n*3/4*80) // which the test itself holds
		flat(t, base, 2<<20, "streams that nobody came back for")
		require.EqualValues(t, 1+kept, s.Stats().Streams, "ended ones that are kept")
		poll := func(cursor string) string {
			return serve(s, request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", cursor)).story()
		}
		require.Equal(t, `400 error(-32600,null) unknown ended`, poll(cursors[0]), "forgotten")
		require.Equal(t, `200 sse primer@0 1:error(-32000,`+strconv.Itoa(n-kept-remembered)+`) expired ended`, poll(cursors[n-kept-remembered]), "dropped, and remembered")
		require.Equal(t, `200 sse primer@0 1:result ended`, poll(cursors[n-kept]), "kept")
		elapse(2 * time.Minute)
		require.EqualValues(t, 1, s.Stats().Streams)
		require.Zero(t, s.Stats().StoredBytes)
		for _, cursor := range []string{cursors[n-kept], cursors[n-1]} {
			require.Contains(t, poll(cursor), "expired ended")
		}
	})
}
