package cluster_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The engine loses what a process has adopted and never had itself. Clients are told, the session goes on, and no number means two events.
func TestAnAdoptedSessionThatTheEngineForgets(t *testing.T) {
	for _, noticed := range []bool{false, true} {
		t.Run(fmt.Sprintf("noticed=%v", noticed), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, h := newWatchedWorld(t, options{})
				result, tool := startedCall(t, w)
				result.Cut()
				require.NoError(t, tool.Progress(2, 0, ""))
				tool.Returns("done")
				running, _ := startedCall(t, w)
				running.Cut()
				w.kill(0)
				second := w.use(1)
				own := w.CallTool("x", nil)
				ownTool := second.next()
				require.NoError(t, ownTool.Progress(1, 0, ""))
				synctest.Wait()
				w.engine.Forget()
				if noticed {
					elapse(lease)
				}
				e := result.Err()
				require.Contains(t, []string{`{"reason":"store"}`, `{"reason":"expired"}`}, string(e.Data), "not for ever, and not as if it were unknown")
				require.Contains(t, []string{`{"reason":"store"}`, `{"reason":"expired"}`, `{"reason":"owner_lost"}`}, string(running.Err().Data))
				require.NoError(t, ownTool.Progress(2, 0, ""))
				require.NoError(t, ownTool.CloseStream(0))
				ownTool.Returns("own")
				require.JSONEq(t, `"own"`, string(own.Result()))
				elapse(lease)
				w.processes[1].link.SetLink(clustertest.Refused)
				third := w.add(options{})
				elapse(3 * lease)
				w.use(2)
				own.PollFrom(own.IDs()[0])
				require.JSONEq(t, `"own"`, string(own.Result()))
				require.Equal(t, "200 sse primer@0 1:progress 2:progress 3:result closed", kit.Last(own))
				require.EqualValues(t, 3, h.record().Fence.Epoch)
				call := w.CallTool("x", nil)
				third.next().Returns("third")
				require.JSONEq(t, `"third"`, string(call.Result()))
			})
		})
	}
}
