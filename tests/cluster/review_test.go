package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A process that closes lets its sessions go: the next request anywhere adopts them at once.
func TestCloseReleasesSessions(t *testing.T) {
	for _, instant := range []bool{true, false} {
		t.Run(fmt.Sprintf("instant=%v", instant), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{instant: instant})
				first, second := w.processes[0], w.processes[1]
				done := w.CallTool("x", nil)
				tool := first.next()
				require.NoError(t, tool.Progress(1, 0, ""))
				require.NoError(t, tool.CloseStream(0))
				tool.Returns("done")
				running := w.CallTool("x", nil)
				runningTool := first.next()
				require.NoError(t, runningTool.Progress(1, 0, ""))
				require.NoError(t, runningTool.CloseStream(0))
				first.Close()
				require.ErrorIs(t, runningTool.Cause(), rejoin.ErrShutdown)
				elapse(100 * time.Millisecond)
				w.use(1)
				require.Equal(t, `"done"`, string(done.Result()))
				require.JSONEq(t, `{"reason":"shutdown"}`, string(running.Err().Data))
				again := w.CallTool("x", nil)
				second.next().Returns("again")
				require.Equal(t, `"again"`, string(again.Result()))
				require.EqualValues(t, 1, second.Stats().Adopted)
				elapse(time.Minute)
			})
		})
	}
}

// What could not be restored at once is restored later.
func TestRestoringIsTriedAgain(t *testing.T) {
	for _, op := range []string{"put", "append", "restore"} {
		t.Run(op, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{})
				first := w.processes[0]
				call := w.CallTool("x", nil)
				tool := first.next()
				require.NoError(t, tool.Progress(1, 0, ""))
				require.NoError(t, tool.CloseStream(0))
				call.Poll() // what it has may leave the tail
				require.NoError(t, tool.CloseStream(0))
				tool.Returns("done")
				failures := 0
				first.link.SetScript(func(c clustertest.Call) clustertest.Fault {
					if c.Op == op && failures < 3 {
						failures++
						return clustertest.Fault{Before: errors.New("not now")}
					}
					return clustertest.Fault{}
				})
				w.engine.Forget()
				elapse(3 * lease)
				first.link.SetScript(nil)
				w.kill(0)
				w.use(1)
				require.Equal(t, `"done"`, string(call.Result()))
			})
		})
	}
}

// The app's function of the state may panic or hang: that costs the calls that need the state, and nothing else.
func TestAStateThatCannotBeHad(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		call := w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Session().SaveStateFunc(func() []byte { panic("no state") }))
		tool.Returns("lost")
		require.JSONEq(t, `{"reason":"store"}`, string(call.Err().Data))
		call = w.CallTool("x", nil)
		first.next().Returns("done")
		require.Equal(t, `"done"`, string(call.Result()), "it has changed nothing")
		w.engine.Forget()
		elapse(3 * lease)
		_, err := w.engine.Find(t.Context(), "test/x", cluster.Process{})
		require.ErrorIs(t, err, cluster.ErrUnknown)
		require.NoError(t, tool.Session().SaveState([]byte("ok")))
		elapse(3 * lease)
		w.kill(0)
		w.use(1)
		call = w.CallTool("x", nil)
		tool = w.processes[1].next()
		require.Equal(t, "ok", string(tool.Session().SavedState()))
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// Many calls answer while the directory does not: each waits for one attempt, not for those of all before it.
func TestAnswersDoNotQueueBehindAStateThatCannotBeSaved(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		const calls = 20
		var tools []*kit.ManualTool
		for range calls {
			w.CallTool("x", nil)
			tools = append(tools, first.next())
		}
		first.link.SetScript(func(c clustertest.Call) clustertest.Fault {
			if c.Op == "save" {
				return clustertest.Fault{Delay: time.Hour}
			}
			return clustertest.Fault{}
		})
		began := time.Now()
		var wait sync.WaitGroup
		for _, tool := range tools {
			require.NoError(t, tool.Session().SaveState([]byte("new")))
			wait.Go(func() {
				tool.Answer <- "done"
				<-tool.Ctx.Done()
			})
		}
		wait.Wait()
		require.LessOrEqual(t, time.Since(began), 2*time.Second, "twice StoreTimeout")
		first.link.SetScript(nil)
		elapse(10 * time.Second)
	})
}

// A store that cannot be read for a moment has not lost what it recorded.
func TestAReadThatFailsIsRepeated(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call := w.CallTool("x", nil)
		tool := w.processes[0].next()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.NoError(t, tool.CloseStream(0))
		require.NoError(t, tool.Progress(2, 0, ""))
		tool.Returns("done")
		w.kill(0)
		second := w.use(1)
		failures := 3
		second.link.SetScript(func(c clustertest.Call) clustertest.Fault {
			if c.Op == "read" && failures > 0 {
				failures--
				return clustertest.Fault{Before: errors.New("not now")}
			}
			return clustertest.Fault{}
		})
		require.Equal(t, `"done"`, string(call.Result()))
		require.Zero(t, failures)
		require.Len(t, call.Messages(), 3)
	})
}

// A session that another process has adopted and ended ends at its old owner too.
func TestAnOwnerFindsOutThatItsSessionWasEnded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		w.kill(0)
		w.use(1)
		w.Delete()
		first.link.SetLink(clustertest.Up)
		_ = tool.Progress(2, 0, "")
		require.ErrorIs(t, tool.Cause(), rejoin.ErrMoved, "at once")
		require.Zero(t, first.Stats().Sessions)
	})
}

// A process that starts again under the same Node and Self adopts its own sessions: their names are not those of its new ones.
func TestNamesOfAProcessThatStartsAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{config: func(c *rejoin.Config) { c.Node = "pod-0" }}
		w := newWorld(t, o)
		w.processes[0].link.SetLink(clustertest.Refused)
		again := o.start(t, w, "http://0")
		w.processes = append(w.processes, again)
		t.Cleanup(again.Close)
		synctest.Wait()
		_, refused := kit.Open(t, again.Server)
		require.NotContains(t, refused, "503")
		w.use(2)
		call := w.CallTool("x", nil)
		again.next().Returns("done")
		require.Equal(t, `"done"`, string(call.Result()), "adopted at once: the same address")
		seen := map[rejoin.SessionRef]bool{}
		for _, s := range kit.Sessions(again.Server) {
			require.False(t, seen[s.Ref], s.Ref)
			seen[s.Ref] = true
			require.Contains(t, string(s.Ref), "pod-0-")
		}
		require.Len(t, seen, 2)
	})
}

// The store is given no more than it may be given at once.
func TestTheStoreIsGivenSmallParts(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		most := 0
		first.link.SetScript(func(c clustertest.Call) clustertest.Fault {
			most = max(most, c.Events)
			return clustertest.Fault{}
		})
		call := w.CallTool("x", nil)
		tool := first.next()
		for i := range 1000 {
			require.NoError(t, tool.Progress(float64(i), 0, ""))
		}
		require.NoError(t, tool.CloseStream(0))
		tool.Returns("done")
		w.engine.Forget()
		elapse(lease)
		first.link.SetScript(nil)
		require.Equal(t, 128, most)
		w.kill(0)
		w.use(1)
		require.Equal(t, `"done"`, string(call.Result()))
		require.Len(t, call.Messages(), 1001)
	})
}
