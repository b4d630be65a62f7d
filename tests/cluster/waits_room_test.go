package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// requireIncreasing requires that the values of progress are in order, and returns the last one.
func requireIncreasing(t *testing.T, values []int) int {
	t.Helper()
	for i := range values[1:] {
		require.Less(t, values[i], values[i+1])
	}
	return values[len(values)-1]
}

// A batch that the engine has no room for: each of its events is recorded or refused on its own, and the numbers have no gaps. lost: the answers to
// some appends are lost besides.
func TestABatchThatThereIsNoRoomFor(t *testing.T) {
	for _, lost := range []bool{false, true} {
		kit.Bubble(t, func(t *testing.T) {
			w, h := newWatchedWorld(t, options{engine: eventstore.MemoryConfig{SessionBytes: 30_000}})
			first := w.processes[0]
			call, tool := startedCall(t, w)
			require.NoError(t, tool.CloseStream(0))
			first.link.SetScript(func(c clustertest.Call) clustertest.Fault {
				f := clustertest.Fault{Delay: 10 * time.Millisecond}
				if lost && c.Op == "append" && c.N%3 == 0 {
					f.After = errors.New("lost")
				}
				return f
			})
			busy(t, tool, 2)
			for i := range 60 { // one large one, then a small one, so that some fit where others do not
				require.NoError(t, tool.Progress(float64(i+3), 0, strings.Repeat("x", 2000*(1-i%2))))
			}
			elapse(20 * time.Second)
			full := first.log.Count("no room")
			stored := h.read(h.all()[0]).state
			require.EqualValues(t, 1, stored.First)
			require.Greater(t, stored.Last, uint64(10))
			require.Less(t, stored.Last, uint64(62))
			require.Positive(t, full)
			require.ErrorIs(t, tool.Progress(100, 0, strings.Repeat("x", 25_000)), rejoin.ErrFull)
			first.link.SetScript(nil)
			call.Poll()
			require.Len(t, call.Messages(), int(stored.Last))
			require.Len(t, call.IDs(), int(stored.Last)+2, "a number for each, and two primers")
			last := requireIncreasing(t, kit.Progress(t, call.Messages()))
			require.NoError(t, tool.CloseStream(0))
			call.Poll() // it has them, so there is room
			require.NoError(t, tool.Progress(float64(last+1000), 0, strings.Repeat("x", 20_000)))
			tool.Returns(strings.Repeat("y", 40_000))
			require.Len(t, call.Result(), 40_002, "a response has always room")
			requireIncreasing(t, kit.Progress(t, call.Messages()))
			ids := call.IDs()
			require.Equal(t, int(stored.Last)+2, kit.Atoi(t, kit.ShortID(ids[len(ids)-1])), "no gaps")
		})
	}
}

// An engine that is full and away: what has waited is recorded or refused on its own when it is back.
func TestAFullEngineAfterAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{2 * time.Second, time.Minute} {
		kit.Bubble(t, func(t *testing.T) {
			w, h := newWatchedWorld(t, options{
				engine: eventstore.MemoryConfig{SessionBytes: 30_000}, cluster: func(c *rejoin.Cluster) { c.Outage = outage },
			})
			first := w.processes[0]
			call, tool := startedCall(t, w)
			first.link.SetLink(clustertest.Refused)
			for i := range 60 {
				require.NoError(t, tool.Progress(float64(i+2), 0, strings.Repeat("x", 1000)))
			}
			elapse(5 * time.Second)
			first.link.SetLink(clustertest.Up)
			elapse(2 * lease)
			tool.Returns("done")
			require.JSONEq(t, `"done"`, string(call.Result()))
			if outage < 5*time.Second {
				require.Equal(t, kit.UpTo(62)[1:], kit.Progress(t, call.Messages()), "its reader got them without ids")
				return
			}
			ids, n := call.IDs(), len(call.Messages())
			require.Equal(t, n, kit.Atoi(t, kit.ShortID(ids[len(ids)-1])), "no gaps")
			require.Greater(t, n, 20)
			require.Positive(t, first.log.Count("no room"))
			require.True(t, h.read(h.all()[0]).state.Sealed)
			requireIncreasing(t, kit.Progress(t, call.Messages()))
		})
	}
}
