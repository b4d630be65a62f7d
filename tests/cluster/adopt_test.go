package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestAQuickCallOfAClusterCostsNoRoundTrip(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		before := first.link.Count()
		call := w.CallTool("x", nil)
		first.next().Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, "200 result answered", kit.Last(call))
		require.Equal(t, before, first.link.Count())
	})
}

func TestAStreamedCallOfACluster(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, options{policy: rejoin.Policy{CloseAfter: 2 * time.Second}, instant: instant})
			first := w.processes[0]
			call := w.CallTool("x", nil)
			tool := first.next()
			require.NoError(t, tool.Progress(1, 0, ""))
			elapse(5 * time.Second)
			require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
			tool.Returns("done")
			require.Equal(t, `"done"`, string(call.Result()))
		})
	}
}
