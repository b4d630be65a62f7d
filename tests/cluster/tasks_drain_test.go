package cluster_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A drain waits for what runs, and releases what has ended: nothing of a task is lost by a planned end.
func TestADrainReleasesTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		ended, tool := w.task(t, 0)
		tool.Returns(done(1))
		running, tool := w.task(t, 0)
		finished := kit.Drain(t, w.processes[0].Server, time.Hour)
		synctest.Wait()
		require.Empty(t, finished)
		require.EqualValues(t, 1, w.processes[0].Stats().Tasks)
		for n := range 2 {
			require.Equal(t, "completed map[n:1]", w.state(t, n, ended))
			require.Equal(t, "working", w.state(t, n, running))
		}
		tool.Returns(done(2))
		require.NoError(t, <-finished)
		for n := range 2 {
			require.Equal(t, "completed map[n:2]", w.state(t, n, running))
		}
		require.EqualValues(t, 2, w.processes[1].Stats().Adopted)
	})
}

// What runs at the end of the time of a drain has failed, and stays so.
func TestADrainOfTasksThatTakesTooLong(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		id, tool := w.task(t, 0)
		finished := kit.Drain(t, w.processes[0].Server, time.Minute)
		elapse(time.Minute)
		require.Equal(t, &rejoin.DrainError{Running: 1}, <-finished)
		require.ErrorIs(t, tool.Cause(), rejoin.ErrShutdown)
		require.Equal(t, "failed shutdown", w.state(t, 1, id))
	})
}

// Modern calls that come to a process that drains are served by another one.
func TestModernCallsDuringADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		w.task(t, 0)
		kit.Drain(t, w.processes[0].Server, time.Hour)
		res := kit.Serve(w.processes[0].Server, modernRequest(t, "tools/call", "x", `,"name":"x"`))
		tool := w.processes[1].next()
		tool.Returns(done(3))
		require.Contains(t, bodyOf(res), `"n":3`)
		res = kit.Serve(w.processes[0].Server, modernRequest(t, "server/discover", "", ""))
		require.Equal(t, http.StatusOK, res.Status)
		id, _ := w.taskThrough(t, 0, 1)
		require.Equal(t, "working", w.state(t, 0, id))
	})
}

// A call that is forwarded by a process that drains becomes a task before the time there is over, also where TaskAfter is longer.
func TestADeadlineOfAProcessThatDrains(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := tasks()
		o.policy.TaskAfter = time.Hour
		w := newWorld(t, o)
		w.run(t, 1)
		kit.Drain(t, w.processes[0].Server, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		res := kit.Serve(w.processes[0].Server, modernRequest(t, "tools/call", "x", `,"name":"x"`).WithContext(ctx))
		tool := w.processes[1].next()
		elapse(20 * time.Second)
		require.Contains(t, bodyOf(res), `"resultType":"task"`)
		require.NoError(t, tool.Cause())
	})
}
