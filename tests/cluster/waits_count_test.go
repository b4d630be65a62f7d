package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// What things cost: operations of the engine by name.
func TestRoundTrips(t *testing.T) {
	start := func(w *world) (*rejointest.Call, *kit.ManualTool) { return w.CallTool("x", nil), w.processes[0].next() }
	for name, c := range map[string]struct {
		do   func(t *testing.T, w *world)
		want map[string]int
	}{
		"initialize": {
			func(t *testing.T, w *world) {
				t.Helper()
				_, refused := kit.Open(t, w.processes[0].Server)
				require.Empty(t, refused)
			}, map[string]int{"put": 1},
		},
		"100 quick calls, pings and notifications": {
			func(t *testing.T, w *world) {
				t.Helper()
				for range 100 {
					call, tool := start(w)
					tool.Returns("done")
					require.True(t, call.JSON())
					w.Start("ping", nil).Result()
					w.Notify("notifications/x", nil)
				}
			}, map[string]int{},
		},
		"a call with one result that is a stream": {
			func(t *testing.T, w *world) {
				t.Helper()
				call, tool := start(w)
				elapse(10 * time.Second) // StreamAfter
				require.Equal(t, "200 sse primer@0 open", kit.Last(call))
				tool.Returns("done")
				call.Result()
			}, map[string]int{"append": 2}, // it is begun, and the result
		},
		"10 notifications": {
			func(t *testing.T, w *world) {
				t.Helper()
				call, tool := start(w)
				for i := range 10 {
					require.NoError(t, tool.Progress(float64(i), 0, ""))
				}
				tool.Returns("done")
				call.Result()
			}, map[string]int{"append": 11},
		},
		"a polled call": {
			func(t *testing.T, w *world) {
				t.Helper()
				call, tool := start(w)
				require.NoError(t, tool.Progress(1, 0, ""))
				synctest.Wait()
				require.NoError(t, tool.CloseStream(0))
				for range 5 {
					call.Poll()
					call.Cut()
				}
				tool.Returns("done")
				call.Result()
			}, map[string]int{"append": 2},
		},
		"a standalone stream with two messages": {
			func(t *testing.T, w *world) {
				t.Helper()
				call := w.Listen()
				_, tool := start(w)
				for range 2 {
					require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
				}
				require.Len(t, call.Messages(), 2)
				tool.Returns("done")
			}, map[string]int{"append": 3}, // it is begun
		},
		"DELETE": {
			func(t *testing.T, w *world) {
				t.Helper()
				w.Delete()
			}, map[string]int{"end": 1},
		},
		"DELETE with two logs": {
			func(t *testing.T, w *world) {
				t.Helper()
				_, tool := start(w)
				require.NoError(t, tool.Progress(1, 0, ""))
				_, tool = start(w)
				require.NoError(t, tool.Progress(1, 0, ""))
				w.Delete()
			}, map[string]int{"append": 2, "end": 1},
		},
	} {
		for _, instant := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, instant=%v", name, instant), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newWorld(t, options{instant: instant})
					before := w.processes[0].link.Calls()
					c.do(t, w)
					synctest.Wait()
					after := w.processes[0].link.Calls()
					for op, n := range before {
						if after[op] -= n; after[op] == 0 {
							delete(after, op)
						}
					}
					delete(after, "renew")
					require.Equal(t, c.want, after)
				})
			})
		}
	}
}

// The records of a living owner do not expire, used or not, and cost one Touch in a third of their life. Those of a dead one do.
func TestTheLifeOfARecord(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const idle = 10 * time.Minute
		ttl := 2*idle + lease
		w, h := newWatchedWorld(t, options{config: func(c *rejoin.Config) { c.SessionIdleTTL = idle }})
		first := w.processes[0]
		listening := w.Listen() // so that it is not idle
		require.Equal(t, "200 sse primer@0 open", kit.Last(listening))
		before := first.link.Count("touch")
		for range 100 {
			elapse(ttl / 10)
			require.NoError(t, h.err(h.all()[0].Session))
		}
		touched := first.link.Count("touch") - before
		require.LessOrEqual(t, touched, 31, "at most once per third")
		require.GreaterOrEqual(t, touched, 25)
		first.link.SetLink(clustertest.Refused)
		elapse(ttl - ttl/3)
		elapse(ttl / 3)
		require.ErrorIs(t, h.err(h.all()[0].Session), cluster.ErrUnknown)
	})
}

// Without SessionIdleTTL a record lives for a day after its owner has died.
func TestTheLifeOfARecordWithoutAnIdleTTL(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{config: func(c *rejoin.Config) { c.SessionIdleTTL = -1 }})
		first := w.processes[0]
		startedCall(t, w)
		elapse(72 * time.Hour)
		require.NoError(t, h.err(h.all()[0].Session))
		require.LessOrEqual(t, first.link.Count("touch"), 9)
		first.link.SetLink(clustertest.Refused)
		elapse(15 * time.Hour)
		require.NoError(t, h.err(h.all()[0].Session))
		elapse(9*time.Hour + time.Minute)
		require.ErrorIs(t, h.err(h.all()[0].Session), cluster.ErrUnknown)
	})
}

// A session that is over for idleness is over in the engine too.
func TestAnIdleSessionOfALivingOwner(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{config: func(c *rejoin.Config) { c.SessionIdleTTL = 10 * time.Minute }})
		call, tool := startedCall(t, w)
		tool.Returns("done")
		call.Result()
		elapse(9 * time.Minute)
		require.NoError(t, h.err(h.all()[0].Session))
		elapse(2 * time.Minute)
		require.ErrorIs(t, h.err(h.all()[0].Session), cluster.ErrEnded)
		require.Empty(t, kit.Sessions(w.processes[0].Server))
	})
}
