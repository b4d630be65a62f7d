package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The engine loses the last events of each log, as a replica does that is promoted before they have reached it. The processes' counts stand. The
// owner notices it by its next append.
func TestAnEngineThatLosesTheTailsOfLogs(t *testing.T) {
	for _, instant := range []bool{true, false} {
		for lost := 1; lost <= 3; lost++ {
			t.Run(fmt.Sprintf("instant=%v, lost=%d", instant, lost), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, h := newWatchedWorld(t, options{instant: instant})
					call, tool := startedCall(t, w)
					require.NoError(t, tool.Progress(2, 0, ""))
					require.NoError(t, tool.Progress(3, 0, ""))
					synctest.Wait()
					h.loseTails(lost)
					requireGoesOn(t, w, call, tool, 3)
					require.Zero(t, w.processes[0].log.Count("has lost data"), "nothing was told by the count")
				})
			})
		}
	}
}

// The lost tail is served all the while, from the owner's memory.
func TestALostTailIsServedByItsOwner(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		call, tool := startedCall(t, w)
		require.NoError(t, tool.CloseStream(0))
		require.NoError(t, tool.Progress(2, 0, ""))
		tool.Returns("done")
		h.loseTails(2)
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, "200 sse primer@1 2:progress 3:result closed", kit.Last(call))
	})
}

// The engine goes back to an earlier state: records, counts and logs are older than what it had acknowledged.
func TestAnEngineThatGoesBack(t *testing.T) {
	for _, notice := range []string{"append", "renewal"} {
		t.Run(notice, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, h := newWatchedWorld(t, options{app: savedStates})
				first := w.processes[0]
				call, tool := startedCall(t, w)
				require.NoError(t, tool.Session().SaveState([]byte("old")))
				elapse(lease)
				before := h.save()
				require.Equal(t, "old", string(h.record().State))
				require.NoError(t, tool.Session().SaveState([]byte("new")))
				require.NoError(t, tool.Progress(2, 0, ""))
				later := w.CallTool("x", nil)
				laterTool := first.next()
				require.NoError(t, laterTool.Progress(1, 0, ""))
				later.Cut()
				laterTool.Returns("later")
				elapse(lease)
				h.goBack(before)
				if notice == "append" {
					require.NoError(t, tool.Progress(3, 0, ""))
				} else {
					elapse(lease)
					require.Equal(t, "new", string(h.record().State))
					require.NoError(t, tool.Progress(3, 0, ""))
				}
				requireGoesOn(t, w, call, tool, 3)
				require.JSONEq(t, `"later"`, string(later.Result()))
				require.Equal(t, "new", string(h.record().State))
			})
		})
	}
}

// The engine goes back to the time before an adoption. The adopter still has everything, so it takes the session back.
func TestAnEngineThatGoesBackBehindAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		call, tool := startedCall(t, w)
		require.NoError(t, tool.CloseStream(0))
		tool.Returns("done")
		before := h.save()
		w.kill(0)
		second := w.use(1)
		running := w.CallTool("x", nil)
		runningTool := second.next()
		require.NoError(t, runningTool.Progress(1, 0, ""))
		synctest.Wait()
		require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(running))
		require.EqualValues(t, 2, h.record().Fence.Epoch)
		h.goBack(before)
		require.EqualValues(t, 1, h.record().Fence.Epoch)
		elapse(lease)
		require.NoError(t, runningTool.Cause())
		require.EqualValues(t, 2, h.record().Fence.Epoch)
		require.NoError(t, runningTool.CloseStream(0))
		runningTool.Returns("new")
		elapse(time.Second)
		w.kill(1)
		w.add(options{})
		w.use(2)
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.JSONEq(t, `"new"`, string(running.Result()), "the engine has it again")
	})
}

// The tail has no room for what a client has not fetched, and the engine loses it: the client is told, and no number means two events.
func TestATailThatIsTooSmall(t *testing.T) {
	for _, notice := range []string{"append", "renewal"} {
		for _, adopted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, adopted=%v", notice, adopted), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, h := newWatchedWorld(t, options{cluster: func(c *rejoin.Cluster) { c.TailBytes = 3000 }})
					call, tool := startedCall(t, w)
					require.NoError(t, tool.CloseStream(0))
					for n := range 6 {
						require.NoError(t, tool.Progress(float64(n+2), 0, strings.Repeat("x", 1000)))
					}
					synctest.Wait()
					w.engine.Forget()
					if notice == "renewal" {
						elapse(lease)
					}
					require.NoError(t, tool.Progress(8, 0, ""))
					synctest.Wait()
					l := h.read(h.all()[0])
					require.EqualValues(t, 8, l.state.Last, "numbers go on")
					require.Greater(t, l.state.First, uint64(2), "the oldest are lost")
					require.Less(t, l.state.First, uint64(8), "the newest are not")
					if adopted {
						w.kill(0)
						w.use(1)
					}
					require.Contains(t, []string{`{"reason":"expired"}`, `{"reason":"owner_lost"}`}, string(call.Err().Data))
					require.Len(t, call.Messages(), 2, "nothing after the gap")
				})
			})
		}
	}
}

// A client that has everything up to what the tail has goes on as if nothing had happened.
func TestASmallTailIsEnoughForAClientThatReads(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{cluster: func(c *rejoin.Cluster) { c.TailBytes = 3000 }})
		call, tool := startedCall(t, w)
		for n := range 6 {
			require.NoError(t, tool.Progress(float64(n+2), 0, strings.Repeat("x", 1000)))
		}
		synctest.Wait()
		w.engine.Forget()
		require.NoError(t, tool.Progress(8, 0, ""))
		require.NoError(t, tool.CloseStream(0))
		tool.Returns("done")
		w.kill(0)
		w.use(1)
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, kit.UpTo(9)[1:], kit.Progress(t, call.Messages()))
	})
}
