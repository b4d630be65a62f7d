package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// get is a GET of the session.
func (w *rowWorld) get(header ...string) *http.Request {
	return w.request(http.MethodGet, "", header...)
}

// cursor is a GET with a cursor.
func (w *rowWorld) cursor(id string) *http.Request { return w.get("Last-Event-ID", id) }

// lastID returns the newest event id of a call.
func lastID(call *rejointest.Call) string {
	ids := call.IDs()
	return ids[len(ids)-1]
}

// The answer to each GET: the transports specification of 2025-11-25, "listening for messages from the server" and "resumability and redelivery".
var getRows = []row{
	{"an Accept without SSE is refused with 406 at once, whatever else is wrong", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		for _, no := range []string{"application/json", "text/html", "application/*", "text/event-stream;q=0", "*/*;q=0", "*/*, text/event-stream;q=0.000"} {
			for _, rest := range [][]string{nil, {"Last-Event-ID", lastID(call)}, {"Last-Event-ID", "garbage"}, {"Mcp-Session-Id", "nobody"}, {"Mcp-Session-Id", ""}} {
				w.refuses(w.get(append([]string{"Accept", no}, rest...)...), "406 error(-32600,null)", "text/event-stream")
			}
		}
		w.refuses(w.get("Accept", "application/json", "Accept", "text/html"), "406 error(-32600,null)", "text/event-stream")
		require.Equal(t, 1, call.Open())
		w.lives()
	}},
	{"*/* and a missing Accept count as SSE, and several lines are one list", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		for _, yes := range []string{"", "*/*", "*", "text/*", "TEXT/Event-Stream", "text/event-stream;q=0.001", "application/json;q=0, */*;q=0.1"} {
			require.Equal(t, "primer@0", w.streams(w.get("Accept", yes)), "%q", yes)
		}
		require.Equal(t, "primer@0", w.streams(w.get("Accept", "application/json", "Accept", "text/event-stream")))
	}},
	{"a cursor of a request that runs brings the events after it, and on", func(t *testing.T) {
		for _, version := range []string{kit.Polling, kit.Legacy, kit.Batches, "2024-11-05"} {
			w := newWorld(t, rejointest.Config{Version: version})
			call, tool := w.call()
			require.NoError(t, tool.Progress(1, 0, ""))
			require.NoError(t, tool.Progress(2, 0, ""))
			before := w.c.Server().Stats()
			ids := call.IDs()
			call.PollFrom(ids[len(ids)-2])
			greet := "primer@1"
			if version != kit.Polling {
				greet = "comment"
			}
			require.Equal(t, "200 sse "+greet+" 2:progress open", kit.Last(call))
			kit.RequireHead(t, call.Header(), kit.StreamHead...)
			require.NoError(t, tool.Progress(3, 0, ""))
			require.Equal(t, "200 sse "+greet+" 2:progress 3:progress open", kit.Last(call))
			require.Equal(t, before.Resumed+1, w.c.Server().Stats().Resumed)
		}
	}},
	{"a cursor of a request that ended with events left brings them and the end, as often as asked", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		first := lastID(call)
		call.Cut()
		require.NoError(t, tool.Progress(2, 0, ""))
		tool.Returns("done")
		for range 3 {
			call.PollFrom(first)
			require.Equal(t, "200 sse primer@1 2:progress 3:result closed", kit.Last(call))
			kit.RequireHead(t, call.Header(), kit.StreamHead...)
		}
	}},
	{"a cursor of a request that ended with nothing left is told so with 204, and nothing comes of it", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}}})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		tool.Returns("done")
		result := lastID(call)
		call.PollFrom(call.IDs()[1])
		var primer string // at the position after the result: a client may have got only this of a connection
		for range 3 {
			w.accepts(w.cursor(result), http.StatusNoContent, "Content-Type", "text/event-stream")
		}
		cancelled, other := w.call()
		require.NoError(t, other.Progress(1, 0, ""))
		primer = cancelled.IDs()[0]
		cancelled.Cancel("")
		for _, id := range []string{primer, lastID(cancelled)} {
			w.accepts(w.cursor(id), http.StatusNoContent, "Content-Type", "text/event-stream")
		}
		kit.Elapse(2 * time.Minute)
		require.EqualValues(t, 1, w.c.Server().Stats().Streams)
		w.accepts(w.cursor(result), http.StatusNoContent, "Content-Type", "text/event-stream") // also when the stream has been dropped
		w.lives()
	}},
	{"a cursor whose next events were dropped brings an error for the request, and the end", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}}})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		cursor := lastID(call)
		call.Cut()
		tool.Returns("done")
		kit.Elapse(2 * time.Minute)
		stream, _, _ := strings.Cut(cursor, ".")
		for n := range 2 {
			body, res := kit.ReadAll(t, w.c.Do(w.cursor(cursor)))
			kit.RequireStream(t, res)
			require.Equal(t, "primer@1 2:error(-32000,2) expired", kit.EventsSummary(body))
			message, _, _ := strings.Cut(body[strings.Index(body, "data: {")+len("data: "):], "\n")
			requireError(t, message, "")
			require.Contains(t, body, "id: "+stream+".2\ndata: {", "it has the next event id")
			require.NotContains(t, body[strings.Index(body, stream+".2"):], "retry", "there is nothing to come back for")
			require.EqualValues(t, n+1, w.c.Server().Stats().Expired)
		}
		w.accepts(w.cursor(stream+".2"), http.StatusNoContent, "Content-Type", "text/event-stream")
		body, res := kit.ReadAll(t, w.c.Do(w.cursor(stream+".3"))) // this number was never sent, but the client keeps its session
		kit.RequireStream(t, res)
		require.Contains(t, body, `"data":{"reason":"expired"}`)
		w.lives()
	}},
	{"of a batch that was dropped there is one error for each request without an answer, with its own id", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches, Server: rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute, Mode: rejoin.ModeSSE}}})
		res := w.c.Do(w.request(http.MethodPost, "["+kit.CallBody("1", "{}")+","+kit.CallBody(`"1"`, "{}")+","+kit.CallBody("7", "{}")+"]"))
		tools := []*kit.ManualTool{w.next(), w.next(), w.next()}
		tools[0].Returns("done")
		kit.Elapse(time.Second)
		for _, tool := range tools[1:] {
			tool.Returns("done")
		}
		body, _ := kit.ReadAll(t, res)
		require.Equal(t, "comment 1:result 2:result 3:result", kit.EventsSummary(body))
		cursor, _, _ := strings.Cut(body[strings.Index(body, "id: ")+len("id: "):], "\n")
		answered := regexp.MustCompile(`"id":[^,]*`).FindAllString(body, -1)
		kit.Elapse(2 * time.Minute)
		got := kit.Get(t, w.c, "Last-Event-ID", cursor)
		first := strings.TrimPrefix(answered[0], `"id":`)
		for _, id := range []string{"1", `"1"`, "7"} {
			if id == first {
				require.NotContains(t, got, "("+"-32000,"+id+")", "its answer has the cursor")
				continue
			}
			require.Contains(t, got, "error(-32000,"+id+") expired")
		}
		require.Regexp(t, `^comment 2:error\S+ expired 3:error\S+ expired$`, got, "each with the next event id")
	}},
	{"a cursor of the standalone stream is served from the oldest event kept, and the gap is counted and logged", func(t *testing.T) {
		var logged bytes.Buffer
		store := eventstore.NewMemory(eventstore.MemoryConfig{BacklogBytes: 8 << 10})
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{Store: store, Logger: slog.New(slog.NewJSONHandler(&logged, nil))}})
		_, tool := w.call()
		listen := w.c.Listen()
		primer := lastID(listen)
		listen.Cut()
		for range 30 {
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", json.RawMessage(`{"x":"`+strings.Repeat("x", 1000)+`"}`)))
		}
		got := w.streams(w.cursor(primer))
		require.Regexp(t, `^primer@0 2[0-9]:x( \d\d:x)* 30:x$`, got)
		require.EqualValues(t, 1, w.c.Server().Stats().Expired)
		require.Equal(t, 1, strings.Count(logged.String(), "were dropped before its client came back"))
		require.Contains(t, logged.String(), `"first":1,"last":2`)
		require.NotContains(t, logged.String(), tool.Session().ID(), "a session's id is a secret")
	}},
	{"a cursor that this session never issued is refused in the same words, whatever it is", func(t *testing.T) {
		buffer := &kit.Buffering{}
		w := newWorld(t, rejointest.Config{Handler: buffer.Handler, Server: rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}}})
		gone, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		dropped := strings.TrimSuffix(lastID(gone), "1")
		tool.Returns("done")
		kit.Elapse(2 * time.Minute)
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		mine := strings.TrimSuffix(lastID(call), "1")
		listen := w.c.Listen()
		standalone, _, _ := strings.Cut(lastID(listen), ".")
		_, res := kit.Post(t, w.c, kit.Initialize, "Mcp-Session-Id", "")
		foreign := w.request(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"x"}`, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"), "Accept", "text/event-stream")
		theirs := w.c.Do(foreign)
		w.next()
		head := make([]byte, 100)
		_, err := theirs.Body.Read(head)
		require.NoError(t, err)
		id, _, _ := strings.Cut(strings.TrimPrefix(string(head), "id: "), "\n")
		bodies := map[string]bool{}
		for _, buffer.On = range []bool{false, true} {
			for _, cursor := range []string{
				"garbage", "17", "é", strings.Repeat("x", 10_000), mine + "18446744073709551616", mine + "01", mine + "-1",
				mine + "1 ;", mine, mine + "1.", standalone + ".01", standalone, dropped + "03", "AAAAAAAAAAAAAAAAAAAAAA.0", id, strings.ToUpper(mine) + "1",
			} {
				bodies[w.refuses(w.cursor(cursor), "400 error(-32600,null) unknown", "never sent such an event id")] = true
			}
		}
		require.Len(t, bodies, 1, "the same bytes for all")
		require.Equal(t, []int{1, 1}, []int{call.Open(), listen.Open()}, "nothing was taken over")
		buffer.On = false
		w.lives()
	}},
	{"without a cursor comes what was never written, and an empty cursor is none", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		_, tool := w.call()
		tell := func() {
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
		}
		tell()
		require.Equal(t, "primer@0 1:x", w.streams(w.get()))
		require.Equal(t, "primer@1", w.streams(w.get("Last-Event-ID", " ")))
		tell()
		require.Equal(t, "primer@1 2:x", w.streams(w.get("Last-Event-ID", " ", "Last-Event-ID", "")))
	}},
	{"without a cursor, where the standalone stream is off, comes 405 with Allow; a cursor is served", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{NoStandalone: true}})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		for range 3 {
			w.refuses(w.get(), "405 error(-32600,null)", "Config.NoStandalone", "Allow", "POST, DELETE")
		}
		w.refuses(w.get("Last-Event-ID", ""), "405 error(-32600,null)", "", "Allow", "POST, DELETE")
		require.Equal(t, "primer@1", w.streams(w.cursor(lastID(call))))
		w.lives()
	}},
	{"through a writer that cannot flush comes 405 with Allow; a cursor is served as a short poll", func(t *testing.T) {
		buffer := &kit.Buffering{}
		w := newWorld(t, rejointest.Config{Handler: buffer.Handler})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		listen := w.c.Listen()
		cursor, standalone := lastID(call), lastID(listen)
		buffer.On = true
		w.refuses(w.get(), "405 error(-32600,null)", "cannot flush", "Allow", "POST, DELETE")
		require.Equal(t, 1, listen.Open())
		require.NoError(t, tool.Progress(2, 0, ""))
		for id, want := range map[string]string{cursor: "primer@1 2:progress retry", standalone: "primer@0 retry"} {
			body, res := kit.ReadAll(t, w.c.Do(w.cursor(id)))
			kit.RequireStream(t, res)
			require.Equal(t, want, kit.EventsSummary(body))
		}
		tool.Returns("done")
		body, res := kit.ReadAll(t, w.c.Do(w.cursor(cursor)))
		kit.RequireStream(t, res)
		require.Equal(t, "primer@1 2:progress 3:result", kit.EventsSummary(body), "the end is the end")
		w.accepts(w.cursor(strings.TrimSuffix(cursor, "1")+"3"), http.StatusNoContent, "Content-Type", "text/event-stream")
	}},
	{"too many GETs wait up to a second and are told to come back later, but none is refused", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		cursor := lastID(call)
		slowed := 0
		for i := range 260 {
			req := w.get()
			if i%2 == 0 {
				req = w.cursor(cursor)
			}
			began := time.Now()
			res := w.c.Do(req)
			took := time.Since(began)
			kit.RequireStream(t, res)
			require.LessOrEqual(t, took, time.Second)
			head := make([]byte, 100)
			n, err := res.Body.Read(head)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			if took > 0 {
				slowed++
				require.NotContains(t, string(head[:n]), "retry: 1000\n")
			}
		}
		require.Greater(t, slowed, 50)
		w.refuses(w.cursor("garbage"), "400 error(-32600,null) unknown", "") // still refused
		tool.Returns("done")
		body, _ := kit.ReadAll(t, w.c.Do(w.cursor(cursor)))
		require.Equal(t, "primer@1 2:result", kit.EventsSummary(body))
	}},
	{"two different session ids or cursors are refused, and the same one twice is one", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		id, cursor := tool.Session().ID(), lastID(call)
		for _, other := range []string{call.IDs()[0], "garbage", ""} {
			w.refuses(w.get("Last-Event-ID", cursor, "Last-Event-ID", other), "400 error(-32600,null)", "Last-Event-ID")
			w.refuses(w.get("Last-Event-ID", other, "Last-Event-ID", cursor), "400 error(-32600,null)", "Last-Event-ID")
		}
		require.Equal(t, 1, call.Open())
		require.Equal(t, "primer@1", w.streams(w.get("Last-Event-ID", cursor, "Last-Event-ID", cursor, "Mcp-Session-Id", id, "Mcp-Session-Id", id)))
		for i, pair := range [][2]string{{id, "other"}, {"other", id}, {id, ""}, {id, strings.ToLower(id)}} {
			w.refuses(w.get("Mcp-Session-Id", pair[0], "Mcp-Session-Id", pair[1]), "400 error(-32600,null)", "Mcp-Session-Id")
			require.NoError(t, tool.Cause(), fmt.Sprint(i))
		}
	}},
}
