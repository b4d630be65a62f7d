package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// slow makes each append take d.
func slow(d time.Duration) func(clustertest.Call) clustertest.Fault {
	return func(c clustertest.Call) (f clustertest.Fault) {
		if c.Op == "append" {
			f.Delay = d
		}
		return f
	}
}

// A tool that sends faster than the engine takes it does not wait for each append: what it sends meanwhile is appended together, in order.
func TestABurstThroughASlowEngine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const events, took = 1000, 10 * time.Millisecond
		w := newWorld(t, options{})
		first := w.processes[0]
		first.link.SetScript(slow(took))
		call := w.CallTool("x", nil)
		tool := first.next()
		elapse(time.Second) // the stream is begun
		before, began := first.link.Count("append"), time.Now()
		for i := range events {
			require.NoError(t, tool.Progress(float64(i+1), 0, ""))
		}
		require.Less(t, time.Since(began), 12*took)
		require.Greater(t, time.Since(began), 5*took, "it is at most one batch ahead")
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.LessOrEqual(t, first.link.Count("append")-before, 12)
		progress := 0
		for _, m := range call.Messages() {
			if text := string(m); strings.Contains(text, "notifications/progress") {
				progress++
				require.Contains(t, text, fmt.Sprintf(`"progress":%d}`, progress))
			}
		}
		require.Equal(t, events, progress)
	})
}

// Otherwise a tool has what it has sent in the engine when its call returns.
func TestAToolThatDoesNotHurryWaitsForTheEngine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const took = 10 * time.Millisecond
		w := newWorld(t, options{})
		first := w.processes[0]
		first.link.SetScript(slow(took))
		call := w.CallTool("x", nil)
		tool := first.next()
		elapse(time.Second)
		for i := range 5 {
			began, before := time.Now(), first.link.Count("append")
			require.NoError(t, tool.Progress(float64(i+1), 0, ""))
			require.Equal(t, took, time.Since(began))
			require.Equal(t, 1, first.link.Count("append")-before)
			elapse(2 * took)
		}
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A sender does not wait for ever behind an append that the engine does not answer.
func TestABurstWhileTheEngineIsSilent(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		call := w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		synctest.Wait()
		first.link.SetLink(clustertest.Silent)
		began := time.Now()
		for i := range 500 {
			require.NoError(t, tool.Progress(float64(i+2), 0, ""))
		}
		require.LessOrEqual(t, time.Since(began), 3*time.Second)
		first.link.SetLink(clustertest.Up)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Len(t, call.Messages(), 502)
	})
}
