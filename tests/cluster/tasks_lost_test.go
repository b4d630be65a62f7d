package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// An engine that is away for longer than a lease ends no task of a living owner. A result that comes meanwhile is there when the engine is back.
func TestATaskDuringAnOutage(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		elapse(3 * lease)
		id, tool := w.task(t, 0)
		for _, p := range w.processes {
			p.link.SetLink(clustertest.Refused)
		}
		elapse(3 * lease)
		require.NoError(t, tool.Cause())
		tool.Returns(done(4))
		require.Equal(t, "503 -32000", w.state(t, 1, id))
		// A new call goes on as one that cannot become a task.
		res := kit.Serve(w.processes[0].Server, modernRequest(t, "tools/call", "x", `,"name":"x"`))
		plain := w.processes[0].next()
		elapse(5 * time.Second)
		plain.Returns(done(5))
		require.Contains(t, bodyOf(res), `"n":5`)
		for _, p := range w.processes {
			p.link.SetLink(clustertest.Up)
		}
		elapse(3 * lease)
		require.Equal(t, "completed map[n:4]", w.state(t, 1, id))
		w.kill(0)
		require.Equal(t, "completed map[n:4]", w.state(t, 1, id))
	})
}

// An engine that loses its data gets records and results again.
func TestTheEngineForgetsTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		elapse(3 * lease)
		ended, tool := w.task(t, 0)
		tool.Returns(done(1))
		running, tool := w.task(t, 0)
		w.engine.Forget()
		elapse(3 * lease)
		require.Equal(t, "working", w.state(t, 1, running))
		tool.Returns(done(2))
		w.kill(0)
		require.Equal(t, "completed map[n:1]", w.state(t, 1, ended))
		require.Equal(t, "completed map[n:2]", w.state(t, 1, running))
	})
}

// An owner that others took for dead finds out, cancels its call, and changes nothing of what its clients have been told.
func TestATaskOfAnOwnerThatWasAliveAfterAll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		id, tool := w.task(t, 0)
		w.kill(0)
		require.Equal(t, "failed owner_lost", w.state(t, 1, id))
		w.processes[0].link.SetLink(clustertest.Up)
		elapse(3 * lease)
		for n := range 2 {
			require.Equal(t, "failed owner_lost", w.state(t, n, id))
		}
		require.ErrorIs(t, tool.Cause(), rejoin.ErrMoved)
		require.Zero(t, w.processes[0].Stats().Tasks)
	})
}

// A client that was told how a task has ended is told the same later, in whichever order the call, the cancellation and the owner end.
func TestEndsOfATaskCross(t *testing.T) {
	for round := range 200 {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, tasks())
			w.add(tasks())
			id, tool := w.task(t, 0)
			told := make(chan *kit.Response, 1)
			for i, end := range []func(){
				func() {
					select {
					case tool.Answer <- done(round):
					case <-tool.Ctx.Done():
					}
				},
				func() { w.send(round%3, taskRequest(t, "tasks/cancel", id)) },
				func() { w.processes[0].link.SetLink(clustertest.Refused) },
				func() { w.processes[0].Close() },
				func() { <-kit.Drain(t, w.processes[0].Server, time.Second) },
				func() { told <- w.send((round+1)%3, taskRequest(t, "tasks/get", id)) },
			} {
				if ((round|1<<5)>>i)&1 == 1 {
					go end()
				}
			}
			elapse(2 * lease)
			first := stateOf(t, <-told)
			w.kill(0)
			last := w.state(t, 1+round%2, id)
			require.Regexp(t, "^(completed|failed|cancelled)", last)
			if !strings.HasPrefix(first, "working") && !strings.HasPrefix(first, "503") {
				require.Equal(t, first, last)
			}
			require.Equal(t, last, w.state(t, 1+(round+1)%2, id))
		})
	}
}

// The engine learns neither ids nor users of tasks.
func TestTheEngineLearnsNoTaskIDs(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		id, tool := w.task(t, 0)
		tool.Returns(done(1))
		found, err := w.engine.Find(t.Context(), kit.KeyOf(id), cluster.Process{})
		require.NoError(t, err)
		require.NotContains(t, string(found.Record.About), id)
		require.Equal(t, "completed map[n:1]", w.state(t, 0, id))
	})
}
