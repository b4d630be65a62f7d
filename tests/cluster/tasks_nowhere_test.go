package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A result that neither the store nor the process has any more is lost: its client is told so.
func TestAResultThatIsNowhereAnyMore(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := tasks()
		o.engine = eventstore.MemoryConfig{TotalBytes: 64 << 10, SessionBytes: -1}
		o.cluster = func(c *rejoin.Cluster) { c.TailBytes = 1 }
		w := newWorld(t, o)
		id, tool := w.task(t, 0)
		tool.Returns(map[string]any{"content": []any{}, "x": strings.Repeat("x", 40<<10)})
		for range 2 {
			for range 3 { // others need the room
				_, tool := w.task(t, 0)
				tool.Returns(map[string]any{"content": []any{}, "x": strings.Repeat("x", 40<<10)})
			}
			require.Equal(t, "failed expired", w.state(t, 0, id))
		}
		w.kill(0)
		require.Equal(t, "failed expired", w.state(t, 1, id))
	})
}
