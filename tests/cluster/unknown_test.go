package cluster_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// An engine that has lost its data does not know any session until the owners have written their records again. Until then no session is unknown,
// neither to a process that has noticed the loss already nor to one that has started since then.
func TestASessionIsNotUnknownWhileItsOwnerRestoresIt(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		id := kit.OpenReady(t, w.processes[0].Server)
		elapse(time.Second)
		w.add(options{})                 // it renews a second after the first
		elapse(14500 * time.Millisecond) // the first renews at whole multiples of 3 s
		w.engine.Forget()
		elapse(time.Second)
		w.add(options{})
		for range 300 {
			for n := range w.processes {
				require.NotEqual(t, http.StatusNotFound, kit.Notify(t, w.processes[n].Server, id, "notifications/x"), "process %d", n)
			}
			elapse(100 * time.Millisecond)
		}
		require.Equal(t, http.StatusNotFound, kit.Notify(t, w.processes[3].Server, "unknown", "notifications/x"), "at last it is sure")
	})
}

// A record that could not be written again at once is written a little later.
func TestARestoredRecordIsTriedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		id := kit.OpenReady(t, w.processes[0].Server)
		var puts atomic.Int32
		w.processes[0].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "put" && puts.Add(1) < 4 {
				f.Before = errors.New("lost on its way")
			}
			return f
		})
		elapse(lease)
		w.engine.Forget()
		elapse(lease)
		require.Greater(t, puts.Load(), int32(4))
		require.Equal(t, http.StatusAccepted, kit.Notify(t, w.processes[1].Server, id, "notifications/x"), "it is known")
		elapse(2 * lease)
		require.Equal(t, http.StatusAccepted, kit.Notify(t, w.processes[1].Server, id, "notifications/x"), "it is known")
	})
}
