package lifetime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// If all sessions have been used after initialize, a new session replaces the one that has been idle for longest, if that is at least five
// minutes, and no other.
func TestTheLongestIdleSessionMakesRoom(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const most = 20
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: most, KeepAlive: -1})
		var ids []string // in the order of their last use
		for range most {
			ids = append(ids, kit.OpenReady(t, s))
			kit.Elapse(time.Second)
		}
		for range 200 {
			i := rand.IntN(most)
			id := ids[i]
			ids = append(append(append([]string(nil), ids[:i]...), ids[i+1:]...), id)
			require.Equal(t, http.StatusAccepted, kit.Notify(t, s, id, "notifications/x"))
			kit.Elapse(time.Millisecond)
		}
		last := time.Now()
		kit.Elapse(5*time.Minute - time.Second)
		_, refused := kit.Open(t, s)
		require.Equal(t, full, refused, "%v after the last", time.Since(last))
		kit.Elapse(time.Second)
		for range most {
			gone := ids[0]
			fresh, refused := kit.Open(t, s)
			require.Empty(t, refused)
			require.Equal(t, http.StatusAccepted, kit.Notify(t, s, fresh, "notifications/initialized"))
			require.Equal(t, http.StatusNotFound, kit.Notify(t, s, gone, "notifications/x"))
			ids = append(ids[1:], fresh)
			require.EqualValues(t, most, s.Stats().Sessions)
		}
		_, refused = kit.Open(t, s)
		require.Equal(t, full, refused, "all others were opened just now")
	})
}

// A session with a running call, an unfetched result, a reader or an open question is never replaced. Its idle time begins when that has ended.
func TestASessionWithSomethingOpenMakesNoRoom(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, s *rejoin.Server, id string, next func() *kit.ManualTool) (end func()){
		"a call runs": func(t *testing.T, s *rejoin.Server, id string, next func() *kit.ManualTool) func() {
			w := kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			require.Equal(t, "open", w.Summary())
			return func() { tool.Returns("x"); synctest.Wait() }
		},
		"a call runs, and its client is away": func(t *testing.T, s *rejoin.Server, id string, next func() *kit.ManualTool) func() {
			w := kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			require.NoError(t, tool.CloseStream(time.Hour))
			require.Equal(t, "200 sse primer@0 retry ended", w.Summary())
			return func() {
				tool.Returns("x")
				synctest.Wait()
				kit.Serve(s, inGet(t, id, "Last-Event-ID", kit.IDsIn(w)[0])).Summary()
			}
		},
		"a result was not fetched": func(t *testing.T, s *rejoin.Server, id string, next func() *kit.ManualTool) func() {
			w := kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			require.NoError(t, tool.CloseStream(0))
			require.Equal(t, "200 sse primer@0 retry ended", w.Summary())
			tool.Returns("x")
			synctest.Wait()
			return func() {
				require.Equal(t, "200 sse primer@0 1:result ended", kit.Serve(s, inGet(t, id, "Last-Event-ID", kit.IDsIn(w)[0])).Summary())
			}
		},
		"a client listens": func(t *testing.T, s *rejoin.Server, id string, _ func() *kit.ManualTool) func() {
			ctx, cancel := context.WithCancel(t.Context())
			require.Equal(t, "200 sse primer@0 open", kit.Serve(s, inGet(t, id).WithContext(ctx)).Summary())
			return func() { cancel(); synctest.Wait() }
		},
		"a client has to answer": func(t *testing.T, s *rejoin.Server, id string, next func() *kit.ManualTool) func() {
			kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			cancel := tool.Session().AskFunc(context.Background(), "ping", nil, func(json.RawMessage, error) {})
			tool.Returns("x")
			synctest.Wait()
			return func() { cancel("enough") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				s := kit.NewServer(t, app, rejoin.Config{
					MaxSessions: 1, KeepAlive: -1, SessionIdleTTL: -1, Policy: rejoin.Policy{StreamAfter: -1, AbandonAfter: -1, Retain: -1},
				})
				id := kit.OpenReady(t, s)
				end := begin(t, s, id, next)
				for range 3 {
					kit.Elapse(20 * time.Minute)
					_, refused := kit.Open(t, s)
					require.Equal(t, full, refused)
				}
				end()
				kit.Elapse(5*time.Minute - time.Nanosecond)
				_, refused := kit.Open(t, s)
				require.Equal(t, full, refused, "it has been idle for less than five minutes")
				kit.Elapse(5 * time.Minute)
				_, refused = kit.Open(t, s)
				require.Empty(t, refused)
			})
		})
	}
}

// Sessions that are never used after initialize do not replace those that are: they get at most half of the places, and then replace each other.
func TestAFloodOfInitializeTakesNoPlaceOfOthers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const most = 200
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: most, KeepAlive: -1, SessionIdleTTL: -1})
		var honest []string
		for range 50 {
			honest = append(honest, kit.OpenReady(t, s))
		}
		for range 60 {
			for range most {
				kit.OpenNow(t, s, kit.Initialize)
			}
			kit.Elapse(10 * time.Second)
		}
		for _, id := range honest {
			require.Equal(t, http.StatusAccepted, kit.Notify(t, s, id, "notifications/x"), "it was idle for ten minutes, and stays")
		}
	})
}

// A principal may have as many sessions as there are places left. So a principal that opens as many as it can takes no place from another, and
// further sessions replace its own.
func TestAPrincipalTakesNoPlaceOfOthers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const most = 100
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: most, Principal: kit.ByUser, KeepAlive: -1, SessionIdleTTL: -1})
		held := map[string]int{}
		fill := func(user string) {
			for range 2 * most {
				if _, status := openAs(t, s, user); status == http.StatusOK {
					held[user]++
				} else {
					require.Equal(t, http.StatusServiceUnavailable, status)
				}
			}
		}
		first, status := openAs(t, s, "ann")
		require.Equal(t, http.StatusOK, status)
		for _, user := range []string{"mallory", "mallet", "eve"} {
			fill(user)
		}
		require.Equal(t, map[string]int{"mallory": 50, "mallet": 25, "eve": 12}, held, "half of what is left, each")
		for i := range 12 {
			_, status := openAs(t, s, fmt.Sprint("user", i))
			require.Equal(t, http.StatusOK, status, "who has none gets one")
		}
		require.EqualValues(t, most, s.Stats().Sessions)
		_, status = openAs(t, s, "bob")
		require.Equal(t, http.StatusServiceUnavailable, status, "all places are taken by those who use them")
		kit.Elapse(10 * time.Minute)
		require.Equal(t, http.StatusAccepted, use(t, s, first, "ann"))
		fill("mallory")
		require.Equal(t, 50+50, held["mallory"], "in place of its own, which were idle")
		require.EqualValues(t, most, s.Stats().Sessions)
		require.Equal(t, http.StatusAccepted, use(t, s, first, "ann"))
		_, status = openAs(t, s, "bob")
		require.Equal(t, http.StatusOK, status, "in place of the longest idle one")
		require.Equal(t, http.StatusAccepted, use(t, s, first, "ann"))
		s.Close()
		_, status = openAs(t, s, "ann")
		require.Equal(t, http.StatusServiceUnavailable, status)
	})
}

// Idle sessions are used, deleted and replaced at the same moment. A session whose request was answered stays, and there are never too many.
func TestIdleSessionsMakeRoomWhileTheyAreUsed(t *testing.T) {
	const most = 40
	for range max(2, 40/kit.Fewer) {
		kit.Bubble(t, func(t *testing.T) {
			s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: most, KeepAlive: -1})
			var ids []string
			for range most {
				ids = append(ids, kit.OpenReady(t, s))
			}
			kit.Elapse(10 * time.Minute)
			var requests []*http.Request
			for i, id := range ids {
				r := kit.InSession(t, id, kit.CallBody(fmt.Sprint(i), "{}"))
				if i%4 == 0 {
					r = kit.InSession(t, id, "")
					r.Method = http.MethodDelete
				}
				requests = append(requests, r)
			}
			_, stayed, opened := serveWithInitializes(t, s, ids, requests)
			require.Equal(t, stayed+opened, s.Stats().Sessions)
			require.LessOrEqual(t, s.Stats().Sessions, int64(most))
			for s.Stats().Sessions < most {
				_, refused := kit.Open(t, s)
				require.Empty(t, refused)
			}
			_, refused := kit.Open(t, s)
			require.Equal(t, full, refused)
		})
	}
}
