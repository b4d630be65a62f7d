package lifetime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// openAs opens a session as a user, who then says that it is there.
func openAs(t *testing.T, s *rejoin.Server, user string) (id string, status int) {
	t.Helper()
	w := kit.ServeNow(s, kit.Request(t, http.MethodPost, kit.Initialize, "X-User", user))
	if id = w.Header().Get("Mcp-Session-Id"); id != "" {
		require.Equal(t, http.StatusAccepted, use(t, s, id, user))
	}
	return id, w.Status
}

// use sends a notification, and returns the status.
func use(t *testing.T, s *rejoin.Server, id, user string) int {
	t.Helper()
	return kit.ServeNow(s, kit.InSession(t, id, `{"jsonrpc":"2.0","method":"notifications/x"}`, "X-User", user)).Status
}

// Where all sessions have spoken, the one that has been idle for longest makes room, if it has been for five minutes, and no other.
func TestTheLongestIdleSessionMakesRoom(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const most = 20
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{MaxSessions: most, KeepAlive: -1})
		var ids []string // the one that was used last is the last
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

// One in which something is open never makes room, however long nothing has happened in it, and is idle only from then on.
func TestASessionWithSomethingOpenMakesNoRoom(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, s *rejoin.Server, id string, next func() *kit.Puppet) (end func()){
		"a call runs": func(t *testing.T, s *rejoin.Server, id string, next func() *kit.Puppet) func() {
			w := kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			require.Equal(t, "open", w.Story())
			return func() { tool.Returns("x"); synctest.Wait() }
		},
		"a call runs, and its client is away": func(t *testing.T, s *rejoin.Server, id string, next func() *kit.Puppet) func() {
			w := kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			require.NoError(t, tool.CloseStream(time.Hour))
			require.Equal(t, "200 sse primer@0 retry ended", w.Story())
			return func() {
				tool.Returns("x")
				synctest.Wait()
				kit.Serve(s, inGet(t, id, "Last-Event-ID", kit.IDsIn(w)[0])).Story()
			}
		},
		"a result was not fetched": func(t *testing.T, s *rejoin.Server, id string, next func() *kit.Puppet) func() {
			w := kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			require.NoError(t, tool.CloseStream(0))
			require.Equal(t, "200 sse primer@0 retry ended", w.Story())
			tool.Returns("x")
			synctest.Wait()
			return func() {
				require.Equal(t, "200 sse primer@0 1:result ended", kit.Serve(s, inGet(t, id, "Last-Event-ID", kit.IDsIn(w)[0])).Story())
			}
		},
		"a client listens": func(t *testing.T, s *rejoin.Server, id string, _ func() *kit.Puppet) func() {
			ctx, cancel := context.WithCancel(t.Context())
			require.Equal(t, "200 sse primer@0 open", kit.Serve(s, inGet(t, id).WithContext(ctx)).Story())
			return func() { cancel(); synctest.Wait() }
		},
		"a client has to answer": func(t *testing.T, s *rejoin.Server, id string, next func() *kit.Puppet) func() {
			kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			cancel := tool.Session().Ask(context.Background(), "ping", nil, func(json.RawMessage, error) {})
			tool.Returns("x")
			synctest.Wait()
			return func() { cancel("enough") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.Puppets()
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

// Those that never speak do not drive out those that do: they take half of the places at most, and each other's from then on.
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

// A principal may hold as many sessions as there are places left. So one that opens all it can takes no place from another, and what it
// opens beyond takes the place of its own.
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

// Idle sessions are used, ended and replaced at the same moment. Who was answered stays, and there are never too many.
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
			start := make(chan struct{})
			var opened, deleted atomic.Int64
			back := make([]int, most)
			for i, id := range ids {
				came, fresh := kit.InSession(t, id, kit.CallBody(fmt.Sprint(i), "{}")), kit.Request(t, http.MethodPost, kit.Initialize)
				if i%4 == 0 {
					came = kit.InSession(t, id, "")
					came.Method = http.MethodDelete
				}
				go func() {
					<-start
					if back[i] = kit.ServeNow(s, came).Status; back[i] == http.StatusNoContent {
						deleted.Add(1)
					}
				}()
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
				}
			}
			require.Equal(t, stayed+opened.Load(), s.Stats().Sessions)
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
