package rejoin_test

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
)

// Two clients resume one stream against each other, as fast as they are let, ten thousand times. Each is served in order; never do two read;
// they are slowed down, and the tool, which notices nothing, is answered in the end.
func TestATakeoverWar(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const battles = 10_000 / min(fewer, 4)
		app, next := puppets()
		s := newServer(t, app, rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{StreamAfter: time.Millisecond}})
		resting := len(goroutines())
		id := spoken(t, s)
		first := serve(s, inSession(t, id, `{"jsonrpc":"2.0","id":1,"method":"x"}`))
		tool := next()
		elapse(time.Second)
		cursor := idsIn(first)[0]
		base, began := heapAlloc(), time.Now()
		var fought, answered, strange atomic.Int64
		var clients sync.WaitGroup
		for range 2 {
			clients.Go(func() {
				at := 0 // messages it has
				for cursor := cursor; fought.Add(1) <= battles; {
					w := straight(s, request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", cursor))
					body := w.body.String()
					switch {
					case w.status == http.StatusNoContent:
						return
					case w.status != http.StatusOK, !strings.HasPrefix(body, "id: "):
						strange.Add(1)
						return
					}
					for block := range strings.SplitSeq(body, "\n\n") {
						name, data, _ := strings.Cut(block, "\ndata: ")
						if id, ok := strings.CutPrefix(name, "id: "); ok {
							cursor, _, _ = strings.Cut(id, "\n")
						}
						if strings.HasPrefix(data, "{") {
							at++
							if _, pos, ok := position(cursor); !ok || int(pos) != at {
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
			elapse(100 * time.Millisecond)
			synctest.Wait()
			if said%50 == 0 {
				require.LessOrEqual(t, s.Stats().Connections, int64(2), "one that reads, and one that is being let go")
				require.Len(t, sessions(s)[0].Streams, 2)
			}
		}
		require.GreaterOrEqual(t, time.Since(began), (battles-200)*10*time.Millisecond, "a hundred a second")
		tool.returns("done")
		elapse(5 * time.Second)
		clients.Wait()
		require.Zero(t, strange.Load())
		require.NoError(t, context.Cause(t.Context()))
		w := serve(s, request(t, http.MethodGet, "", "Mcp-Session-Id", id, "Last-Event-ID", cursor))
		require.True(t, strings.HasSuffix(w.story(), ":result ended"), "and who comes last has all of it")
		require.Len(t, idsIn(w), 1+said+1)
		endStraight(t, s, id)
		flat(t, base, 4<<20, "ten thousand battles")
		rested(t, resting)
	})
}
