package wire_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const inFlight = "a request with this id is in flight"

var retryLater = []string{"Retry-After", "1"}

// Work: which requests are accepted, and how they are refused if there is no room or no time for them.
var workRows = []row{
	{"an id in flight is refused with 400, also in another spelling; 1 and \"1\" differ", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		for _, id := range []string{"1", `"1"`, "1.5", `"x"`} {
			begun := w.c.Do(w.request(http.MethodPost, kit.CallBody(id, "{}"), "Accept", "text/event-stream"))
			kit.RequireStream(t, begun)
			tool := w.next()
			w.refuses(w.request(http.MethodPost, kit.CallBody(id, "{}")), "400 error(-32600,"+id+")", inFlight)
			w.refuses(w.request(http.MethodPost, kit.CallBody(id, "{}"), "Accept", "application/json"), "400 error(-32600,"+id+")", inFlight)
			require.NoError(t, tool.Cause())
		}
		for _, id := range []string{"1.0", "10e-1", `"\u0031"`, "1.50", `"\u0078"`} { // these are other spellings of ids in flight
			w.refuses(w.request(http.MethodPost, kit.CallBody(id, "{}")), "400 error(-32600,"+id+")", inFlight)
		}
		require.EqualValues(t, 5, w.c.Server().Stats().Streams)
		w.lives()
	}},
	{"a parked id is in flight; one that was answered, cancelled, or that nobody can read is not", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{Policy: rejoin.Policy{StreamAfter: -1}}})
		same := func() *http.Request { return w.request(http.MethodPost, kit.CallBody(`"same"`, "{}")) }
		_, tool := w.call()
		id := tool.Session().ID()
		begin := func() (*kit.Response, *kit.ManualTool) {
			r := same()
			r.Header.Set("Mcp-Session-Id", id)
			begun := kit.Serve(w.c.Server(), r)
			require.Equal(t, "open", begun.Summary())
			return begun, w.next()
		}
		_, parked := begin()
		require.NoError(t, parked.Progress(1, 0, ""))
		require.NoError(t, parked.CloseStream(0))
		w.refuses(same(), `400 error(-32600,"same")`, inFlight)
		parked.Returns("done") // sealed: answered and not fetched
		_, cancelled := begin()
		w.refuses(same(), `400 error(-32600,"same")`, inFlight)
		w.c.Notify("notifications/cancelled", map[string]any{"requestId": "same"})
		require.ErrorIs(t, cancelled.Cause(), rejoin.ErrCancelled)
		answered, tool := begin()
		tool.Returns("done")
		require.Equal(t, "200 result ended", answered.Summary())

		stranded := w.c.Start("x", nil) // its client disconnects before it gets an id
		tool = w.next()
		w.refuses(w.request(http.MethodPost, kit.CallBody(string(stranded.ID()), "{}")), fmt.Sprintf("400 error(-32600,%s)", stranded.ID()), inFlight)
		stranded.Cut()
		require.NoError(t, tool.Cause())
		r := w.request(http.MethodPost, kit.CallBody(string(stranded.ID()), "{}"))
		r.Header.Set("Mcp-Session-Id", id)
		begun := kit.Serve(w.c.Server(), r)
		require.Equal(t, "open", begun.Summary())
		w.next().Returns("done")
		require.Equal(t, "200 result ended", begun.Summary())
		require.NoError(t, tool.Cause(), "the first goes on")
	}},
	{"batches exist only in sessions of 2025-03-26", func(t *testing.T) {
		for _, version := range []string{kit.Polling, kit.Legacy, "2024-11-05"} {
			w := newWorld(t, rejointest.Config{Version: version})
			for _, body := range []string{"[" + kit.Ping + "]", "[" + aNotification + "]", "[" + anAnswer + "]", "[]", "[" + aNotification + "," + kit.Ping + "]"} {
				w.refuses(w.request(http.MethodPost, body), "400 error(-32600,null)", "")
				w.refuses(w.request(http.MethodPost, body, "Mcp-Protocol-Version", kit.Batches), "400 error(-32600,null)", "") // the header changes nothing
			}
			w.lives()
		}
	}},
	{"a batch is answered whole, as an array or as a stream", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches})
		body, res := kit.ReadAll(t, w.c.Do(w.request(http.MethodPost, "["+kit.Ping+`,{"jsonrpc":"2.0","id":2,"method":"ping"},`+aNotification+"]")))
		require.JSONEq(t, `[{"jsonrpc":"2.0","id":"mine","result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]`, body)
		kit.RequireHead(t, res.Header, "Content-Type", "application/json")
		body, res = kit.ReadAll(t, w.c.Do(w.request(http.MethodPost, "["+kit.Ping+`,{"jsonrpc":"2.0","id":2,"method":"ping"}]`, "Accept", "text/event-stream")))
		kit.RequireStream(t, res)
		require.Equal(t, "comment 1:result 2:result", kit.EventsSummary(body))
	}},
	{"a faulty batch is refused with 400 as a whole, and starts nothing", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches, Server: rejoin.Config{MaxConcurrent: 3}})
		stays, tool := w.call()
		ten := kit.CallBody("10", "{}")
		for body, want := range map[string]string{
			"[]":                                   "null",
			"[ ]":                                  "null",
			"[" + ten + "," + kit.Initialize + "]": "null",
			"[" + kit.Initialize + "]":             "null",
			"[" + ten + "," + anAnswer + "]":       "null",
			"[" + ten + ",[" + kit.Ping + "]]":     "null",
			"[" + ten + ",1]":                      "null",
			"[" + ten + "," + aNotification + "," + ten + "]":                     "10",
			"[" + aNotification + "," + ten + "," + kit.CallBody("2", "{}") + "]": "10",
			"[" + kit.ModernPing + "]":                                            "null",
		} {
			w.refuses(w.request(http.MethodPost, body), "400 error(-32600,"+want+")", "")
		}
		w.refuses(w.request(http.MethodPost, "["+ten+","), "400 error(-32700,null)", "")
		w.refuses(w.request(http.MethodPost, "["+ten+","+kit.CallBody("11", "{}")+","+kit.CallBody("12", "{}")+"]"), "429 error(-32000,10)", "Config.MaxConcurrent", retryLater...)
		w.refuses(w.request(http.MethodPost, "["+aNotification+","+ten+"]", "Accept", "text/html"), "406 error(-32600,10)", "Accept")
		w.refuses(w.request(http.MethodPost, "["+ten+"]", "Content-Type", "text/plain"), "415 error(-32600,null)", "")
		require.Equal(t, 1, stays.Open())
		require.NoError(t, tool.Cause())
		tool.Returns("done")
		w.lives()
	}},
	{"while draining new work is refused with 503 and Retry-After; what belongs to the old is served", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Polling})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		answered, other := w.call()
		require.NoError(t, other.Progress(1, 0, ""))
		other.Returns("done")
		listen := w.c.Listen()
		kit.Drain(t, w.c.Server(), 0)
		for _, session := range [][]string{nil, {"Mcp-Session-Id", ""}, {"Mcp-Session-Id", "dead"}} {
			w.refuses(w.request(http.MethodPost, kit.Initialize, session...), `503 error(-32000,"mine")`, "shutting down", retryLater...)
		}
		w.refuses(w.request(http.MethodPost, kit.Ping), `503 error(-32000,"mine")`, "shutting down", retryLater...)
		w.refuses(w.get(), "503 error(-32000,null)", "shutting down", retryLater...)
		w.refuses(w.get("Last-Event-ID", ""), "503 error(-32000,null)", "shutting down", retryLater...)
		for _, body := range []string{aNotification, anAnswer} {
			w.accepts(w.request(http.MethodPost, body), http.StatusAccepted)
		}
		require.Equal(t, "primer@1", w.streams(w.cursor(lastID(call))))
		require.Equal(t, "primer@0 retry", w.streams(w.cursor(lastID(listen))))
		w.accepts(w.cursor(lastID(answered)), http.StatusNoContent, "Content-Type", "text/event-stream")
		w.refuses(w.cursor("garbage"), "400 error(-32600,null) unknown", "")
		w.refuses(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", "nobody"), "404 error(-32001,null)", "")
		w.refuses(w.request(http.MethodPost, kit.Ping, "Content-Type", ""), `415 error(-32600,"mine")`, "")
		w.accepts204(w.request(http.MethodDelete, ""))
	}},
	{"while draining a batch with a request is refused with 503, and one without is taken", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches})
		_, tool := w.call()
		kit.Drain(t, w.c.Server(), 0)
		w.refuses(w.request(http.MethodPost, "["+aNotification+","+kit.Ping+"]"), `503 error(-32000,"mine")`, "shutting down", retryLater...)
		w.accepts(w.request(http.MethodPost, "["+aNotification+","+anAnswer+"]"), http.StatusAccepted)
		require.NoError(t, tool.Cause())
	}},
	{"beyond MaxSessions initialize is refused with 503 and Retry-After, unless one makes room", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{MaxSessions: 3}})
		var silent []string
		for range 2 {
			_, res := kit.Post(t, w.c, kit.Initialize, "Mcp-Session-Id", "")
			silent = append(silent, res.Header.Get("Mcp-Session-Id"))
			kit.Elapse(time.Second)
		}
		fresh := w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", "")
		w.refuses(w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", ""), `503 error(-32000,"mine")`, "Config.MaxSessions", retryLater...)
		kit.Elapse(28*time.Second - time.Nanosecond)
		w.refuses(w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", ""), `503 error(-32000,"mine")`, "Config.MaxSessions", retryLater...)
		kit.Elapse(time.Nanosecond) // now the older of the two sessions that never sent initialized has had its 30 s
		body, res := kit.ReadAll(t, w.c.Do(fresh))
		require.Equal(t, "200 result", fmt.Sprint(res.StatusCode, " ", kit.MessageSummary(body)))
		require.EqualValues(t, 3, w.c.Server().Stats().Sessions)
		w.refuses(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", silent[0]), "404 error(-32001,null)", "")
		w.answers(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", silent[1]))
		w.lives() // this session has sent initialized, and is the oldest
	}},
	{"beyond MaxConcurrent a request is refused with 429 and Retry-After, until one is answered", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{MaxConcurrent: 2}})
		parked, tool := w.call()
		require.NoError(t, tool.CloseStream(0))
		parked.WaitClosed()
		w.call()
		for range 3 {
			w.refuses(w.request(http.MethodPost, kit.CallBody(`"mine"`, `{}`)), `429 error(-32000,"mine")`, "Config.MaxConcurrent", retryLater...)
		}
		w.answers(w.request(http.MethodPost, kit.Ping))
		w.accepts(w.request(http.MethodPost, aNotification), http.StatusAccepted)
		require.Equal(t, "primer@0", w.streams(w.get()))
		tool.Returns("done")
		w.lives()
	}},
}
