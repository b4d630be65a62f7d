package cluster_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A process that comes back after its lease has run out finds out which of its sessions others have adopted, also those that are idle or whose
// tools say nothing. It never serves one of them.
func TestAnOwnerThatComesBackAsksWhichSessionsItOwns(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		call := w.CallTool("x", nil)
		tool := first.next()
		kept, refused := kit.Open(t, first.Server)
		require.NotEmpty(t, kept, refused)
		call.Cut()
		w.kill(0)
		w.use(1)
		w.Start("ping", nil).Result()
		require.NoError(t, tool.Ctx.Err(), "it does not know yet")
		first.link.SetLink(clustertest.Up)
		var asked atomic.Int32
		first.link.SetScript(func(c clustertest.Call) clustertest.Fault { // the requests come before it has asked by itself
			if c.Op == "save" && asked.Add(1) <= 2 {
				return clustertest.Fault{Delay: 100 * time.Millisecond}
			}
			return clustertest.Fault{}
		})
		w.use(0)
		forwarded := int64(0)
		for deadline := time.Now().Add(lease); time.Now().Before(deadline); elapse(10 * time.Millisecond) {
			ping := w.Start("ping", nil)
			elapse(110 * time.Millisecond)
			if ping.Status() != http.StatusServiceUnavailable { // it knows by now, and forwards
				require.Equal(t, http.StatusOK, ping.Status(), ping)
				forwarded++
			}
			require.Equal(t, forwarded, first.Stats().Forwarded, ping)
		}
		require.NotZero(t, forwarded)
		require.GreaterOrEqual(t, asked.Load(), int32(2))
		require.ErrorIs(t, tool.Cause(), rejoin.ErrMoved)
		require.EqualValues(t, 1, first.Stats().Sessions, "the session that nobody has adopted")
		require.Equal(t, http.StatusAccepted, kit.Notify(t, first.Server, kept, "notifications/initialized"))
		require.EqualValues(t, 1, first.Stats().Moved)
	})
}
