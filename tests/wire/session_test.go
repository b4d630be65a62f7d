package wire_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Sessions: who may use one, what opens one, and what ends one. The transports specification, "session management".
var sessionRows = []row{
	{"a session id that is missing, or two that differ, are refused with 400 on every verb", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches})
		call, tool := w.call()
		id := tool.Session().ID()
		for _, v := range sessionVerbs {
			want := "400 error(-32600," + v.id + ")"
			w.refuses(w.request(v.method, v.body, "Mcp-Session-Id", ""), want, "send initialize first")
			r := w.request(v.method, v.body)
			r.Header["Mcp-Session-Id"] = []string{""}
			w.refuses(r, want, "send initialize first")
			for _, other := range []string{"other", "", id + "x"} {
				w.refuses(w.request(v.method, v.body, "Mcp-Session-Id", id, "Mcp-Session-Id", other), want, "two different values of Mcp-Session-Id")
			}
		}
		w.refuses(w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", id, "Mcp-Session-Id", "other"), `400 error(-32600,"mine")`, "two different values")
		w.answers(w.request(http.MethodPost, kit.Ping, "Mcp-Session-Id", id, "Mcp-Session-Id", id))
		require.Equal(t, 1, call.Open())
		w.lives()
	}},
	{"a session that is unknown, ended or another's is refused with 404, a null id and the same bytes on every verb", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches, Header: http.Header{"X-User": {"ann"}}, Server: rejoin.Config{
			Principal: func(r *http.Request) string { return r.Header.Get("X-User") },
		}})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		_, res := kit.Post(t, w.c, kit.Initialize, "Mcp-Session-Id", "")
		ended := res.Header.Get("Mcp-Session-Id")
		w.accepts204(w.request(http.MethodDelete, "", "Mcp-Session-Id", ended))
		bodies := map[string]bool{}
		for _, v := range append(sessionVerbs,
			rowVerb{"a poll", http.MethodGet, "cursor", ""}, rowVerb{"a bad poll", http.MethodGet, "garbage", ""},
			rowVerb{"a cancellation", http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, ""}) {
			for _, who := range [][]string{{"Mcp-Session-Id", "nobody"}, {"Mcp-Session-Id", ended}, {"X-User", "bob"}, {"X-User", ""}, {"X-User", "Ann"}} {
				r := w.request(v.method, v.body, who...)
				if v.method == http.MethodGet && v.body != "" {
					r = w.get(append([]string{"Last-Event-ID", strings.Replace(v.body, "cursor", lastID(call), 1)}, who...)...)
				}
				bodies[w.refuses(r, "404 error(-32001,null)", "send initialize")] = true
			}
		}
		require.Len(t, bodies, 1)
		require.NoError(t, tool.Cause())
		require.Equal(t, 1, call.Open())
		w.lives()
	}},
	{"initialize with a dead or a foreign session id opens a new session", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{Principal: func(r *http.Request) string { return r.Header.Get("X-User") }}})
		_, tool := w.call()
		own := tool.Session().ID()
		for n, header := range [][]string{{"Mcp-Session-Id", "never-was"}, {"X-User", "bob"}, {"Mcp-Session-Id", "never-was", "Mcp-Session-Id", "never-was"}, {"Mcp-Session-Id", ""}} {
			body, res := kit.ReadAll(t, w.c.Do(w.request(http.MethodPost, kit.Initialize, header...)))
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, "result", kit.MessageSummary(body))
			id := res.Header.Get("Mcp-Session-Id")
			require.NotContains(t, []string{own, "never-was", ""}, id)
			kit.RequireHead(t, res.Header, "Content-Type", "application/json", "Mcp-Session-Id", id)
			require.EqualValues(t, n+2, w.c.Server().Stats().Sessions)
		}
		require.NoError(t, tool.Cause())
		w.lives()
	}},
	{"initialize with a live session id of one's own is refused with 400, and that session is untouched", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		call, tool := w.call()
		listen := w.c.Listen()
		w.refuses(w.request(http.MethodPost, kit.Initialize), `400 error(-32600,"mine")`, "DELETE")
		id := tool.Session().ID()
		w.refuses(w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", id, "Mcp-Session-Id", id), `400 error(-32600,"mine")`, "DELETE")
		require.Equal(t, []int{1, 1}, []int{call.Open(), listen.Open()})
		require.NoError(t, tool.Cause())
		w.lives()
	}},
	{"initialize that the app cannot serve is refused, and opens nothing", func(t *testing.T) {
		var fault error
		ended := 0
		app := &kit.Fake{OnEnded: func(error) { ended++ }}
		app.OnOpen = func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) { return app, fault }
		s := kit.NewServer(t, app, rejoin.Config{Logger: kit.QuietLogger()})
		for n, test := range []struct {
			fault      error
			want, says string
		}{
			{errors.New("secret"), `500 error(-32603,"mine") ended`, "could not open a session"},
			{&rejoin.Error{Code: -7, Message: "not you", Data: json.RawMessage(`{"reason":"mood"}`)}, `400 error(-7,"mine") mood ended`, "not you"},
		} {
			fault = test.fault
			res := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize))
			require.Equal(t, test.want, res.Summary())
			kit.RequireHead(t, res.Head, "Content-Type", "application/json")
			requireError(t, res.Body.String(), test.says)
			require.NotContains(t, res.Body.String(), "secret")
			require.Equal(t, rejoin.Stats{Refused: int64(n + 1)}, s.Stats())
		}
		require.Zero(t, ended, "the app never had one")
	}},
	{"only the answer to initialize names the session", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		w.answers(w.request(http.MethodPost, kit.Ping)) // answers checks the header
		w.accepts(w.request(http.MethodPost, aNotification), http.StatusAccepted)
		require.Equal(t, "primer@0", w.streams(w.get()))
		call := w.c.Start("unknown", nil)
		w.next().Returns(rejoin.Errorf(rejoin.CodeMethodNotFound, "no"))
		require.Equal(t, "200 error(-32601,2) answered", kit.Last(call))
		kit.RequireHead(t, call.Header(), "Content-Type", "application/json")
	}},
	{"a notification and a client's answer get 202, empty", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Version: kit.Batches})
		for _, body := range []string{
			aNotification, anAnswer, `{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, "[" + aNotification + "," + anAnswer + "]", "[" + aNotification + "]", "[" + anAnswer + "," + anAnswer + "]",
		} {
			w.accepts(w.request(http.MethodPost, body), http.StatusAccepted)
			w.accepts(w.request(http.MethodPost, body, "Last-Event-ID", "garbage", "Last-Event-ID", "x"), http.StatusAccepted)
		}
	}},
	{"DELETE gets 204 and ends all: streams, requests, log; again it gets 404", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		resting := len(kit.Goroutines())
		undecided, first := w.call()
		attached, second := w.call()
		require.NoError(t, second.Progress(1, 0, ""))
		parked, third := w.call()
		require.NoError(t, third.CloseStream(0))
		parked.WaitClosed()
		sealed, fourth := w.call()
		require.NoError(t, fourth.CloseStream(0))
		sealed.WaitClosed()
		fourth.Returns("done")
		listen := w.c.Listen()
		w.accepts204(w.request(http.MethodDelete, "", "Last-Event-ID", "garbage", "Last-Event-ID", lastID(attached)))
		require.Equal(t, "404 error(-32001,null) answered", kit.Last(undecided))
		kit.RequireHead(t, undecided.Header(), "Content-Type", "application/json")
		require.Equal(t, "200 sse primer@0 1:progress closed", kit.Last(attached))
		require.Equal(t, "200 sse primer@0 closed", kit.Last(listen))
		for _, tool := range []*kit.ManualTool{first, second, third} {
			require.ErrorIs(t, tool.Cause(), rejoin.ErrSessionEnded)
		}
		kit.Elapse(time.Second)
		stats := w.c.Server().Stats()
		require.Equal(t, [5]int64{}, [5]int64{stats.Sessions, stats.Streams, stats.Connections, stats.Parked, stats.StoredBytes})
		require.LessOrEqual(t, len(kit.Goroutines()), resting)
		for _, v := range sessionVerbs {
			w.refuses(w.request(v.method, v.body), "404 error(-32001,null)", "it has ended")
		}
		for _, call := range []*rejointest.Call{attached, parked, sealed, listen} {
			w.refuses(w.cursor(lastID(call)), "404 error(-32001,null)", "it has ended")
		}
	}},
	{"Last-Event-ID means nothing on a POST", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{})
		call, tool := w.call()
		require.NoError(t, tool.Progress(1, 0, ""))
		for _, cursor := range [][]string{{"Last-Event-ID", "garbage"}, {"Last-Event-ID", lastID(call)}, {"Last-Event-ID", "a", "Last-Event-ID", "b"}} {
			w.answers(w.request(http.MethodPost, kit.Ping, cursor...))
			w.accepts(w.request(http.MethodPost, aNotification, cursor...), http.StatusAccepted)
			body, _ := kit.ReadAll(t, w.c.Do(w.request(http.MethodPost, kit.Ping, append([]string{"Accept", "text/event-stream"}, cursor...)...)))
			require.Equal(t, "primer@0 1:result", kit.EventsSummary(body))
		}
		require.Equal(t, 1, call.Open())
	}},
	{"a session that only ever is refused ends when it is due", func(t *testing.T) {
		w := newWorld(t, rejointest.Config{Server: rejoin.Config{SessionIdleTTL: time.Minute}})
		for range 10 {
			w.refuses(w.cursor("garbage"), "400 error(-32600,null) unknown", "")
			w.refuses(w.request(http.MethodPost, "["+kit.Ping+"]"), "400 error(-32600,null)", "")
		}
		kit.Elapse(2 * time.Minute)
		require.Empty(t, kit.Sessions(w.c.Server()))
		require.Zero(t, w.c.Server().Stats().Sessions)
	}},
}

// accepts204 checks the answer to a DELETE that has ended a session.
func (w *rowWorld) accepts204(r *http.Request) {
	w.t.Helper()
	body, res := kit.ReadAll(w.t, w.c.Do(r))
	require.Equal(w.t, http.StatusNoContent, res.StatusCode, body)
	require.Empty(w.t, body)
	kit.RequireHead(w.t, res.Header)
}
