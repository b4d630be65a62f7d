package store_test

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
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The store is far too small for the load. No request fails for that: unfetched events of running calls stay, those of finished calls are evicted, and a
// client that polls for them is told that they are gone. Little memory is used.
func TestAStoreThatIsFarTooSmallFailsNoRequest(t *testing.T) {
	const clients, rounds, limit = 200, 50, 64 << 10
	for name, cfg := range map[string]eventstore.MemoryConfig{"in all": {TotalBytes: limit}, "for each session": {SessionBytes: limit, TotalBytes: clients * limit / 4}} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				store := eventstore.NewMemory(cfg)
				s := kit.NewServer(t, app, rejoin.Config{Store: store, Logger: kit.QuietLogger()})
				result := strings.Repeat("x", 4000)
				var ids []string
				for range clients {
					id, _ := kit.Open(t, s)
					ids = append(ids, id)
				}
				left := map[string]string{} // session and cursor of results that were not fetched
				long := kit.Serve(s, kit.InSession(t, ids[0], `{"jsonrpc":"2.0","id":"long","method":"x"}`))
				parked := next()
				require.NoError(t, parked.Notify("notifications/x", nil))
				require.NoError(t, parked.CloseStream(0))
				poll := func(id, cursor string) string {
					r := kit.Request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", cursor)
					return kit.Serve(s, r).Summary()
				}
				held, heap := int64(0), uint64(0)
				for round := range rounds {
					if round == rounds/2 {
						heap = kit.HeapAlloc()
					}
					for i, id := range ids {
						w := kit.Serve(s, kit.InSession(t, id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, round)))
						tool := next()
						switch (round + i) % 4 {
						case 0: // plain JSON
							tool.Returns(result)
							require.Equal(t, "200 result ended", w.Summary())
						case 1: // a stream that is read to its end
							require.NoError(t, tool.Notify("notifications/x", nil))
							tool.Returns(result)
							require.Equal(t, "200 sse primer@0 1:x 2:result ended", w.Summary())
						case 2: // a stream that is closed, and polled for its result
							require.NoError(t, tool.CloseStream(0))
							require.Equal(t, "200 sse primer@0 retry ended", w.Summary())
							tool.Returns(result)
							require.Equal(t, "200 sse primer@0 1:result ended", poll(id, kit.IDsIn(w)[0]))
						case 3: // a stream that is closed and not polled
							require.NoError(t, tool.CloseStream(0))
							require.Equal(t, "200 sse primer@0 retry ended", w.Summary())
							left[kit.IDsIn(w)[0]] = id
							tool.Returns(result)
						}
						bytes, _ := store.Usage()
						held = max(held, bytes)
					}
				}
				require.LessOrEqual(t, held, max(cfg.TotalBytes, limit)+5000, "a result is taken all the same")
				require.Less(t, int64(kit.HeapAlloc())-int64(heap), int64(8<<20), "what was asked for in half of the time are 10 MB of results")
				require.Positive(t, s.Stats().Evicted)
				gone := 0
				for cursor, id := range left {
					summary := poll(id, cursor)
					if strings.Contains(summary, "expired") {
						gone++
						require.Regexp(t, `^200 sse primer@0 1:error\(-32000,\d+\) expired ended$`, summary)
						continue
					}
					require.Equal(t, "200 sse primer@0 1:result ended", summary)
				}
				require.Greater(t, gone, len(left)/2)
				require.NoError(t, parked.Cause())
				parked.Returns("done")
				require.Equal(t, "200 sse primer@0 1:x 2:result ended", poll(ids[0], kit.IDsIn(long)[0]), "and a call that ran all the time has lost nothing")
			})
		})
	}
}

// Streams begin, are closed and resumed while the store is slow, and sessions are deleted at any time. In the end nothing is left: no goroutine, no
// connection, no timer that fires for another session.
func TestAThousandReconnectsToASlowStoreLeaveNothing(t *testing.T) {
	const sessions, cycles, latency = 200, 5, 20 * time.Millisecond
	for _, version := range []string{kit.Polling, kit.Legacy} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			store := eventstore.NewMemory(eventstore.MemoryConfig{})
			s := kit.NewServer(t, app, rejoin.Config{KeepAlive: time.Second, Logger: kit.QuietLogger(), Store: storetest.Faulty(store, func(string, int) error {
				kit.Elapse(latency)
				return nil
			})})
			resting := len(kit.Goroutines())
			var all []*kit.Response
			for i := range sessions {
				id := kit.Serve(s, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, kit.Polling, version, 1))).Head.Get("Mcp-Session-Id")
				send := func(method, body, cursor string) *kit.Response {
					r := kit.Request(t, method, body, "Mcp-Session-Id", id)
					if cursor != "" {
						r.Header.Set("Last-Event-ID", cursor)
					}
					w := kit.Serve(s, r)
					all = append(all, w)
					return w
				}
				at := time.Duration(i) * time.Millisecond % (3 * latency) // everything happens at a different moment
				call := send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"x"}`, "")
				tool := next()
				go func() { _ = tool.Notify("notifications/x", nil) }()
				kit.Elapse(2 * latency)
				cursor := kit.IDsIn(call)[0]
				for range cycles {
					send(http.MethodGet, "", "")
					go func() {
						_ = tool.Session().Notify(context.Background(), "notifications/x", nil)
						_ = tool.CloseStandaloneStream(0)
					}()
					kit.Elapse(at)
					_ = tool.CloseStream(0)
					go func() { _ = tool.Notify("notifications/x", nil) }()
					kit.Elapse(at / 2)
					w := send(http.MethodGet, "", cursor)
					if ids := kit.IDsIn(w); len(ids) > 0 {
						cursor = ids[len(ids)-1]
					}
				}
				if i%3 == 0 {
					go func() {
						select {
						case tool.Answer <- "done":
						case <-tool.Ctx.Done():
						}
					}()
				}
				kit.Elapse(at / 3)
				_, _, w := send(http.MethodGet, "", cursor), send(http.MethodGet, "", ""), send(http.MethodDelete, "", "")
				require.Equal(t, "204 ended", w.Summary())
				if i%3 != 0 {
					require.Error(t, context.Cause(tool.Ctx))
				}
			}
			kit.Elapse(time.Minute)
			before := make([]int, len(all))
			for i, w := range all {
				require.True(t, strings.HasSuffix(w.Summary(), " ended"), w.Summary())
				before[i] = w.Body.Len()
			}
			running := kit.Goroutines()
			require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
			kit.Elapse(time.Hour)
			for i, w := range all {
				require.Equal(t, before[i], w.Body.Len(), "nothing is written to what has ended")
			}
			stats := s.Stats()
			require.Zero(t, stats.Sessions+stats.Streams+stats.Parked+stats.Connections+stats.StoredBytes+stats.StoreFailed)
		})
	}
}
