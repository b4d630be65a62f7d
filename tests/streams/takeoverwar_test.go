package streams_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Two clients resume one stream as fast as the server allows, ten thousand times. Each is served in order, and never do two read. They are slowed down, and
// the tool notices nothing and is answered in the end.
func TestATakeoverWar(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const battles = 10_000 / min(kit.Fewer, 4)
		app, next := kit.ManualTools()
		s := kit.NewServer(t, app, rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{StreamAfter: time.Millisecond}})
		resting := len(kit.Goroutines())
		id := kit.OpenReady(t, s)
		first := kit.Serve(s, kit.InSession(t, id, `{"jsonrpc":"2.0","id":1,"method":"x"}`))
		tool := next()
		kit.Elapse(time.Second)
		cursor := kit.IDsIn(first)[0]
		base, began := kit.HeapAlloc(), time.Now()
		var fought, answered, strange atomic.Int64
		var clients sync.WaitGroup
		for range 2 {
			clients.Go(func() {
				at := 0 // messages that have come
				for cursor := cursor; fought.Add(1) <= battles; {
					w := kit.ServeNow(s, kit.Request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", cursor))
					body := w.Body.String()
					switch {
					case w.Status == http.StatusNoContent:
						return
					case w.Status != http.StatusOK, !strings.HasPrefix(body, "id: "):
						strange.Add(1)
						return
					}
					for block := range strings.SplitSeq(body, "\n\n") {
						name, data, _ := strings.Cut(block, "\ndata: ")
						if id, ok := strings.CutPrefix(strings.TrimPrefix(name, "event: message\n"), "id: "); ok {
							cursor, _, _ = strings.Cut(id, "\n")
						}
						if strings.HasPrefix(data, "{") {
							at++
							if _, pos, ok := kit.Position(cursor); !ok || int(pos) != at {
								strange.Add(1)
							}
						}
						if strings.Contains(data, `"result"`) {
							answered.Add(1)
							return
						}
					}
				}
			})
		}
		said := 0
		for fought.Load() < battles {
			require.NoError(t, tool.Notify("notifications/x", nil), "it is never told to wait")
			said++
			kit.Elapse(100 * time.Millisecond)
			synctest.Wait()
			if said%50 == 0 {
				require.LessOrEqual(t, s.Stats().Connections, int64(2), "one that reads, and one that is being let go")
				require.Len(t, kit.Sessions(s)[0].Streams, 2)
			}
		}
		require.GreaterOrEqual(t, time.Since(began), (battles-200)*10*time.Millisecond, "a hundred a second")
		tool.Returns("done")
		kit.Elapse(5 * time.Second)
		clients.Wait()
		require.Zero(t, strange.Load())
		require.NoError(t, context.Cause(t.Context()))
		w := kit.Serve(s, kit.Request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", cursor))
		require.True(t, strings.HasSuffix(w.Summary(), ":result ended"), "and who comes last has all of it")
		require.Len(t, kit.IDsIn(w), 1+said+1)
		kit.DeleteNow(t, s, id)
		kit.RequireFlat(t, base, 4<<20, "ten thousand battles")
		kit.RequireRested(t, resting)
	})
}
