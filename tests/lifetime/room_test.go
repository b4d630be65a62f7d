package lifetime_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A request of a client after initialize protects its session from being replaced for five minutes, also if the client never sends initialized. A
// refused request does not.
func TestWhoHasComeBackNeverMakesRoom(t *testing.T) {
	post := func(body string) func(*testing.T, *rejoin.Server, string) string {
		return func(t *testing.T, s *rejoin.Server, id string) string {
			return kit.Serve(s, kit.InSession(t, id, body)).Summary()
		}
	}
	for name, test := range map[string]struct {
		do    func(t *testing.T, s *rejoin.Server, id string) string
		want  string
		stays bool
	}{
		"nothing":              {func(*testing.T, *rejoin.Server, string) string { return "" }, "", false},
		"a request":            {post(kit.CallBody("1", "{}")), "200 result ended", true},
		"a ping":               {post(kit.Ping), "200 result ended", true},
		"initialized":          {post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), "202 ended", true},
		"another notification": {post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`), "202 ended", true},
		"a cancellation":       {post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`), "202 ended", true},
		"an answer":            {post(`{"jsonrpc":"2.0","id":"x.1","result":{}}`), "202 ended", true},
		"an error":             {post(`{"jsonrpc":"2.0","id":"x.1","error":{"code":1,"message":"no"}}`), "202 ended", true},
		"a batch of requests":  {post("[" + kit.CallBody("1", "{}") + "]"), "200 [result] ended", true},
		"a batch without any":  {post(`[{"jsonrpc":"2.0","method":"notifications/x"}]`), "202 ended", true},
		"an unknown version": {func(t *testing.T, s *rejoin.Server, id string) string {
			return kit.Serve(s, kit.InSession(t, id, kit.Ping, "Mcp-Protocol-Version", "x")).Summary()
		}, `400 error(-32600,"mine") ended`, false},
		"a GET": {func(t *testing.T, s *rejoin.Server, id string) string { return listenFor(t, s, id) }, "200 sse comment", true},
		"a GET that is refused": {func(t *testing.T, s *rejoin.Server, id string) string {
			return kit.Serve(s, inGet(t, id, "Last-Event-ID", "AAAAAAAAAAAAAAAAAAAAAA.0")).Summary()
		}, "400 error(-32600,null) unknown ended", false},
		"no JSON": {post("{"), "400 error(-32700,null) ended", false},
		"another's request": {func(t *testing.T, s *rejoin.Server, id string) string {
			return kit.Serve(s, kit.InSession(t, id, kit.Ping, "X-User", "bob")).Summary()
		}, "404 error(-32001,null) ended", false},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: 1, Principal: kit.ByUser, KeepAlive: -1})
				w := kit.Serve(s, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, kit.Polling, kit.Batches, 1)))
				require.Equal(t, "200 result ended", w.Summary())
				id := w.Head.Get("Mcp-Session-Id")
				require.Equal(t, test.want, test.do(t, s, id))
				kit.Elapse(5*time.Minute - time.Nanosecond)
				_, refused := kit.Open(t, s)
				if test.stays {
					require.Equal(t, full, refused)
					require.Equal(t, "200 result ended", kit.Serve(s, kit.InSession(t, id, kit.Ping)).Summary())
					return
				}
				require.Empty(t, refused)
				require.Equal(t, "404 error(-32001,null) ended", kit.Serve(s, kit.InSession(t, id, kit.Ping)).Summary())
			})
		})
	}
}

// A session whose client has not come back is not replaced while its initialize is being answered, or while the app waits for an answer. The next
// one is replaced.
func TestABusySessionMakesNoRoom(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var answer func(json.RawMessage, error)
		answers := 0
		slow := make(chan struct{})
		app := &kit.Fake{}
		sessions := 0
		app.OnOpen = func(_ *http.Request, n *rejoin.Session) (rejoin.AppSession, error) {
			if sessions++; sessions == 2 {
				answer = func(json.RawMessage, error) { answers++ }
				n.AskFunc(t.Context(), "roots/list", nil, answer)
			}
			return app, nil
		}
		app.OnRequest = func(c *rejoin.Call) {
			if sessions == 1 {
				go func() { <-slow; kit.Accept(c) }()
				return
			}
			kit.Accept(c)
		}
		s := kit.NewServer(t, app, rejoin.Config{MaxSessions: 3, KeepAlive: -1, Policy: rejoin.Policy{MaxRuntime: -1}})
		initializing := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize))
		require.Equal(t, "open", initializing.Summary())
		asking, refused := kit.Open(t, s)
		require.Empty(t, refused)
		silent, refused := kit.Open(t, s)
		require.Empty(t, refused)
		kit.Elapse(time.Minute)
		last, refused := kit.Open(t, s)
		require.Empty(t, refused, "in place of the third")
		require.Equal(t, http.StatusNotFound, kit.Notify(t, s, silent, "notifications/x"))
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, last, "notifications/x"))
		_, refused = kit.Open(t, s)
		require.Equal(t, full, refused)
		close(slow)
		require.Equal(t, "200 result ended", initializing.Summary())
		require.Zero(t, answers)
		_, refused = kit.Open(t, s)
		require.Empty(t, refused, "in place of the first, which was answered, and never spoke")
		require.Equal(t, http.StatusNotFound, kit.Notify(t, s, initializing.Head.Get("Mcp-Session-Id"), "notifications/x"))
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, asking, "notifications/x"), "it waits for an answer")
	})
}

// Clients come back at the moment at which others replace their sessions. A session whose request was answered stays, and there are never too
// many.
func TestRoomIsMadeWhileClientsComeBack(t *testing.T) {
	const most = 50
	for range max(1, 40/kit.Fewer) {
		kit.Bubble(t, func(t *testing.T) {
			s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: most})
			var ids []string
			for range most {
				id, refused := kit.Open(t, s)
				require.Empty(t, refused)
				ids = append(ids, id)
			}
			kit.Elapse(time.Minute)
			var requests []*http.Request
			for i, id := range ids {
				r := kit.InSession(t, id, kit.CallBody(fmt.Sprint(i), "{}"))
				r.Header.Set("Accept", "application/json, text/event-stream")
				requests = append(requests, r)
			}
			statuses, stayed, opened := serveWithInitializes(t, s, ids, requests)
			for _, status := range statuses {
				require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, status)
			}
			require.Equal(t, int64(most), stayed+opened)
			require.EqualValues(t, most, s.Stats().Sessions)
		})
	}
}
