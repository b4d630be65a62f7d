package rejoin_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
)

// Where the store is far too small for what is asked of it, no request fails for that: what nobody has fetched yet of a call that runs stays,
// what is finished makes room, and who comes for that later is told that it is gone. What is held stays small.
func TestAStoreThatIsFarTooSmallFailsNoRequest(t *testing.T) {
	const clients, rounds, limit = 200, 50, 64 << 10
	for name, cfg := range map[string]eventstore.MemoryConfig{"in all": {TotalBytes: limit}, "for each session": {SessionBytes: limit, TotalBytes: clients * limit / 4}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				app, next := puppets()
				store := eventstore.NewMemory(cfg)
				s := newServer(t, app, rejoin.Config{Store: store, Logger: quietLogger()})
				result := strings.Repeat("x", 4000)
				var ids []string
				for range clients {
					id, _ := opens(t, s)
					ids = append(ids, id)
				}
				left := map[string]string{} // session and cursor of results that nobody came for
				long := serve(s, inSession(t, ids[0], `{"jsonrpc":"2.0","id":"long","method":"x"}`))
				parked := next()
				require.NoError(t, parked.Notify("notifications/x", nil))
				require.NoError(t, parked.CloseStream(0))
				poll := func(id, cursor string) string {
					r := request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", cursor)
					return serve(s, r).story()
				}
				held, heap := int64(0), uint64(0)
				for round := range rounds {
					if round == rounds/2 {
						heap = heapAlloc()
					}
					for i, id := range ids {
						w := serve(s, inSession(t, id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, round)))
						tool := next()
						switch (round + i) % 4 {
						case 0: // plain
							tool.returns(result)
							require.Equal(t, "200 result ended", w.story())
						case 1: // a stream that is read to its end
							require.NoError(t, tool.Notify("notifications/x", nil))
							tool.returns(result)
							require.Equal(t, "200 sse primer@0 1:x 2:result ended", w.story())
						case 2: // one that is let go, and comes for its result
							require.NoError(t, tool.CloseStream(0))
							require.Equal(t, "200 sse primer@0 retry ended", w.story())
							tool.returns(result)
							require.Equal(t, "200 sse primer@0 1:result ended", poll(id, idsIn(w)[0]))
						case 3: // and one that does not
							require.NoError(t, tool.CloseStream(0))
							require.Equal(t, "200 sse primer@0 retry ended", w.story())
							left[idsIn(w)[0]] = id
							tool.returns(result)
						}
						bytes, _ := store.Usage()
						held = max(held, bytes)
					}
				}
				require.LessOrEqual(t, held, max(cfg.TotalBytes, limit)+5000, "a result is taken all the same")
				require.Less(t, int64(heapAlloc())-int64(heap), int64(8<<20), "what was asked for in half of the time are 10 MB of results")
				require.Positive(t, s.Stats().Evicted)
				gone := 0
				for cursor, id := range left {
					story := poll(id, cursor)
					if strings.Contains(story, "expired") {
						gone++
						require.Regexp(t, `^200 sse primer@0 1:error\(-32000,\d+\) expired ended$`, story)
						continue
					}
					require.Equal(t, "200 sse primer@0 1:result ended", story)
				}
				require.Greater(t, gone, len(left)/2)
				require.NoError(t, parked.cause())
				parked.returns("done")
				require.Equal(t, "200 sse primer@0 1:x 2:result ended", poll(ids[0], idsIn(long)[0]), "and a call that ran all the time has lost nothing")
			})
		})
	}
}

// Streams are opened, let go and resumed while the store takes its time, and sessions are deleted in the middle of whatever is under way. When
// all is over nothing is left: no goroutine, no connection, no timer that fires for somebody else.
func TestAThousandReconnectsToASlowStoreLeaveNothing(t *testing.T) {
	const sessions, cycles, latency = 200, 5, 20 * time.Millisecond
	for _, version := range []string{polling, legacy} {
		bubble(t, func(t *testing.T) {
			app, next := puppets()
			store := eventstore.NewMemory(eventstore.MemoryConfig{})
			s := newServer(t, app, rejoin.Config{KeepAlive: time.Second, Logger: quietLogger(), Store: storetest.Faulty(store, func(string, int) error {
				elapse(latency)
				return nil
			})})
			resting := len(goroutines())
			var all []*response
			for i := range sessions {
				id := serve(s, request(t, http.MethodPost, strings.Replace(initialize, polling, version, 1))).header.Get("Mcp-Session-Id")
				send := func(method, body, cursor string) *response {
					r := request(t, method, body, "Mcp-Session-Id", id)
					if cursor != "" {
						r.Header.Set("Last-Event-ID", cursor)
					}
					w := serve(s, r)
					all = append(all, w)
					return w
				}
				at := time.Duration(i) * time.Millisecond % (3 * latency) // everything happens at another moment
				call := send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"x"}`, "")
				tool := next()
				go func() { _ = tool.Notify("notifications/x", nil) }()
				elapse(2 * latency)
				cursor := idsIn(call)[0]
				for range cycles {
					send(http.MethodGet, "", "")
					go func() {
						_ = tool.Session().Notify(context.Background(), "notifications/x", nil)
						_ = tool.CloseStandaloneStream(0)
					}()
					elapse(at)
					_ = tool.CloseStream(0)
					go func() { _ = tool.Notify("notifications/x", nil) }()
					elapse(at / 2)
					w := send(http.MethodGet, "", cursor)
					if ids := idsIn(w); len(ids) > 0 {
						cursor = ids[len(ids)-1]
					}
				}
				if i%3 == 0 {
					go func() {
						select {
						case tool.answer <- "done":
						case <-tool.ctx.Done():
						}
					}()
				}
				elapse(at / 3)
				_, _, w := send(http.MethodGet, "", cursor), send(http.MethodGet, "", ""), send(http.MethodDelete, "", "")
				require.Equal(t, "204 ended", w.story())
				if i%3 != 0 {
					require.Error(t, context.Cause(tool.ctx))
				}
			}
			elapse(time.Minute)
			before := make([]int, len(all))
			for i, w := range all {
				require.True(t, strings.HasSuffix(w.story(), " ended"), w.story())
				before[i] = w.body.Len()
			}
			running := goroutines()
			require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
			elapse(time.Hour)
			for i, w := range all {
				require.Equal(t, before[i], w.body.Len(), "nothing is written to what has ended")
			}
			stats := s.Stats()
			require.Zero(t, stats.Sessions+stats.Streams+stats.Parked+stats.Connections+stats.StoredBytes+stats.StoreFailed)
		})
	}
}
