package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// batchSizes notes how many events each append through a link had.
type batchSizes struct {
	mu  sync.Mutex
	all []int
}

// slow makes appends take 10 ms, and notes them.
func (b *batchSizes) slow(c clustertest.Call) clustertest.Fault {
	if c.Op != "append" {
		return clustertest.Fault{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, c.Events)
	return clustertest.Fault{Delay: 10 * time.Millisecond}
}

// busy makes an append of a call's stream last for 10 ms. What is sent in the meantime waits.
func busy(t *testing.T, tool *kit.ManualTool, value int) {
	t.Helper()
	go func() { _ = tool.Progress(float64(value), 0, "") }()
	synctest.Wait()
}

// 100 senders of one stream: each one's messages are in its order.
func TestTheOrderOf100Senders(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		call, tool := startedCall(t, w)
		var b batchSizes
		w.processes[0].link.SetScript(b.slow)
		var wait sync.WaitGroup
		for sender := range 100 {
			wait.Go(func() {
				for i := range 20 {
					if err := tool.Notify("notifications/x", map[string]any{"of": []int{sender, i}}); err != nil {
						t.Error(err)
					}
					kit.Elapse(time.Millisecond)
				}
			})
		}
		wait.Wait()
		elapse(time.Minute)
		next := map[string]int{}
		require.Len(t, call.Messages(), 2001)
		for _, raw := range call.Messages()[1:] {
			var sender, i int
			at := strings.Index(string(raw), `[`)
			_, err := fmt.Sscanf(string(raw)[at:], "[%d,%d]", &sender, &i)
			require.NoError(t, err)
			require.Equal(t, next[fmt.Sprint(sender)], i)
			next[fmt.Sprint(sender)]++
		}
		require.EqualValues(t, 2001, h.read(h.all()[0]).state.Last)
		require.Less(t, len(b.all), 100, "together")
		for _, n := range b.all {
			require.LessOrEqual(t, n, 128)
		}
	})
}

// A batch has at most 128 events and 256 KiB.
func TestTheLimitsOfABatch(t *testing.T) {
	for name, c := range map[string]struct {
		events, bytes int
		want          []int
	}{
		"events":           {300, 10, []int{1, 128, 128, 44}},
		"bytes":            {10, 60 << 10, []int{1, 4, 4, 2}},
		"one larger event": {3, 300 << 10, []int{1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{})
				call, tool := startedCall(t, w)
				var b batchSizes
				w.processes[0].link.SetScript(b.slow)
				busy(t, tool, 2)
				for i := range c.events {
					require.NoError(t, tool.Progress(float64(i+3), 0, strings.Repeat("x", c.bytes)))
				}
				elapse(time.Second)
				require.Equal(t, kit.UpTo(c.events + 3)[1:], kit.Progress(t, call.Messages()))
				sum := 0
				for _, n := range b.all {
					sum += n
				}
				require.Equal(t, c.events+1, sum)
				require.Len(t, b.all, len(c.want), b.all)
				for i := range c.want {
					require.Equal(t, c.want[i], b.all[i], "%v", b.all)
				}
			})
		})
	}
}

// A response is not part of a batch: it comes behind the notifications that were sent before it, in an append of its own.
func TestAResponseBehindABatch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := startedCall(t, w)
		var b batchSizes
		w.processes[0].link.SetScript(b.slow)
		busy(t, tool, 2)
		for i := range 5 {
			require.NoError(t, tool.Progress(float64(i+3), 0, ""))
		}
		tool.Returns("done")
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(8)[1:], kit.Progress(t, call.Messages()))
		require.Equal(t, []int{1, 5, 1}, b.all)
		require.Contains(t, kit.Last(call), "7:progress 8:result closed")
	})
}

// The answer to the append of a batch is lost: each event is recorded and delivered once.
func TestABatchWhoseAnswerWasLost(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		call, tool := startedCall(t, w)
		var lost atomic.Int64
		w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
			f := clustertest.Fault{Delay: 10 * time.Millisecond}
			if c.Op == "append" && c.Events > 1 && lost.Add(1) <= 2 {
				f.After = errors.New("lost")
			}
			return f
		})
		busy(t, tool, 2)
		for i := range 50 {
			require.NoError(t, tool.Progress(float64(i+3), 0, ""))
		}
		elapse(time.Second)
		require.GreaterOrEqual(t, lost.Load(), int64(3))
		require.Equal(t, kit.UpTo(53)[1:], kit.Progress(t, call.Messages()))
		require.Len(t, call.IDs(), 53)
		requireRecorded(t, h, call, 52)
	})
}

// Another process adopts the session between two batches: nothing of what follows is recorded, the tool's context ends, and the client is told to
// come back.
func TestABatchThatIsFenced(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		call, tool := startedCall(t, w)
		var b batchSizes
		w.processes[0].link.SetScript(b.slow)
		busy(t, tool, 2)
		for i := range 300 { // it waits until the first batch is taken
			require.NoError(t, tool.Progress(float64(i+3), 0, ""))
		}
		elapse(5 * time.Millisecond) // in the second batch
		require.Equal(t, []int{1, 128, 128}, b.all)
		r := h.record()
		_, streams, err := w.engine.Adopt(t.Context(), r.Session, r.Fence, another, time.Hour)
		require.NoError(t, err)
		require.EqualValues(t, 130, streams[0].Last)
		elapse(time.Second)
		require.ErrorIs(t, tool.Cause(), rejoin.ErrMoved)
		require.ErrorIs(t, tool.Progress(1000, 0, ""), rejoin.ErrSessionEnded)
		require.Equal(t, kit.UpTo(131)[1:], kit.Progress(t, call.Messages()), "what was recorded")
		require.Contains(t, kit.Last(call), "130:progress retry closed")
		require.EqualValues(t, 130, h.read(h.all()[0]).state.Last)
		require.Empty(t, kit.Sessions(w.processes[0].Server))
	})
}

// A store that panics in the append of a batch has failed: the events are delivered without ids, and later have ids again.
func TestAStoreThatPanicsInABatch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var panics atomic.Bool
		w, h := newWatchedWorld(t, options{
			config:  func(c *rejoin.Config) { c.Store = &panicking{c.Store.(*noted), &panics} },
			cluster: func(c *rejoin.Cluster) { c.Outage = 2 * time.Second },
		})
		call, tool := startedCall(t, w)
		var b batchSizes
		w.processes[0].link.SetScript(b.slow)
		busy(t, tool, 2)
		for i := range 50 {
			require.NoError(t, tool.Progress(float64(i+3), 0, ""))
		}
		panics.Store(true)
		elapse(time.Second)
		require.Len(t, call.Messages(), 2, "it is an outage")
		elapse(2 * time.Second)
		require.Equal(t, kit.UpTo(53)[1:], kit.Progress(t, call.Messages()))
		require.Positive(t, w.processes[0].log.Count("panic"))
		panics.Store(false)
		elapse(maxHealing)
		require.Contains(t, kit.Last(call), "-:progress primer@52 open")
		requireRecorded(t, h, call, 52)
		requireGoesOn(t, w, call, tool, 52)
	})
}
