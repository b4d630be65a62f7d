package lifetime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const full = `503 error(-32000,"mine") ended`

// inGet is a GET of a session, to be served without a network.
func inGet(t *testing.T, session string, header ...string) *http.Request {
	t.Helper()
	return kit.Request(t, http.MethodGet, "", append([]string{"Accept", "text/event-stream", "Mcp-Session-Id", session}, header...)...)
}

// Whatever a client does after initialize keeps its session from making room for another for five minutes, also when it never sends
// initialized. What is refused is nothing that it did.
func TestWhoHasComeBackNeverMakesRoom(t *testing.T) {
	post := func(body string) func(*testing.T, *rejoin.Server, string) string {
		return func(t *testing.T, s *rejoin.Server, id string) string {
			return kit.Serve(s, kit.InSession(t, id, body)).Story()
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
			return kit.Serve(s, kit.InSession(t, id, kit.Ping, "Mcp-Protocol-Version", "x")).Story()
		}, `400 error(-32600,"mine") ended`, false},
		"a GET": {func(t *testing.T, s *rejoin.Server, id string) string { return listenFor(t, s, id) }, "200 sse comment", true},
		"a GET that is refused": {func(t *testing.T, s *rejoin.Server, id string) string {
			return kit.Serve(s, inGet(t, id, "Last-Event-ID", "AAAAAAAAAAAAAAAAAAAAAA.0")).Story()
		}, "400 error(-32600,null) unknown ended", false},
		"no JSON": {post("{"), "400 error(-32700,null) ended", false},
		"another's request": {func(t *testing.T, s *rejoin.Server, id string) string {
			return kit.Serve(s, kit.InSession(t, id, kit.Ping, "X-User", "bob")).Story()
		}, "404 error(-32001,null) ended", false},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: 1, Principal: kit.ByUser, KeepAlive: -1})
				w := kit.Serve(s, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, kit.Polling, kit.Batches, 1)))
				require.Equal(t, "200 result ended", w.Story())
				id := w.Head.Get("Mcp-Session-Id")
				require.Equal(t, test.want, test.do(t, s, id))
				kit.Elapse(5*time.Minute - time.Nanosecond)
				_, refused := kit.Open(t, s)
				if test.stays {
					require.Equal(t, full, refused)
					require.Equal(t, "200 result ended", kit.Serve(s, kit.InSession(t, id, kit.Ping)).Story())
					return
				}
				require.Empty(t, refused)
				require.Equal(t, "404 error(-32001,null) ended", kit.Serve(s, kit.InSession(t, id, kit.Ping)).Story())
			})
		})
	}
}

// listenFor opens the standalone stream for a while.
func listenFor(t *testing.T, s *rejoin.Server, id string) string {
	t.Helper()
	r := inGet(t, id)
	ctx, cancel := context.WithCancel(t.Context())
	w := kit.Serve(s, r.WithContext(ctx))
	story := strings.TrimSuffix(w.Story(), " open")
	cancel()
	synctest.Wait()
	return story
}

// One in which something happens makes no room either, although its client has not come back: its initialize is still being answered, or
// the app has asked something. The next one does.
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
				n.Ask(t.Context(), "roots/list", nil, answer)
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
		require.Equal(t, "open", initializing.Story())
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
		require.Equal(t, "200 result ended", initializing.Story())
		require.Zero(t, answers)
		_, refused = kit.Open(t, s)
		require.Empty(t, refused, "in place of the first, which was answered, and never spoke")
		require.Equal(t, http.StatusNotFound, kit.Notify(t, s, initializing.Head.Get("Mcp-Session-Id"), "notifications/x"))
		require.Equal(t, http.StatusAccepted, kit.Notify(t, s, asking, "notifications/x"), "it waits for an answer")
	})
}

// Clients come back in the moment in which others take their room. Who was answered stays, and there are never too many.
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
			start := make(chan struct{})
			var opened atomic.Int64
			back := make([]int, most)
			for i, id := range ids {
				came := kit.InSession(t, id, kit.CallBody(fmt.Sprint(i), "{}"))
				came.Header.Set("Accept", "application/json, text/event-stream")
				fresh := kit.Request(t, http.MethodPost, kit.Initialize)
				go func() { <-start; back[i] = kit.ServeNow(s, came).Status }()
				go func() {
					<-start
					if kit.ServeNow(s, fresh).Status == http.StatusOK {
						opened.Add(1)
					}
				}()
			}
			close(start)
			synctest.Wait()
			stayed := int64(0)
			for i, id := range ids {
				if back[i] == http.StatusOK {
					stayed++
					require.Equal(t, http.StatusAccepted, kit.Notify(t, s, id, "notifications/x"), "it was answered")
					continue
				}
				require.Equal(t, http.StatusNotFound, back[i])
			}
			require.Equal(t, int64(most), stayed+opened.Load())
			require.EqualValues(t, most, s.Stats().Sessions)
		})
	}
}
