package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Any process serves any request about a task.
func TestATaskIsFoundByAnyProcess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		elapse(3 * lease)
		id, tool := w.task(t, 0)
		require.NoError(t, tool.Progress(1, 2, "half"))
		for n := range 2 {
			require.Equal(t, "working half", w.state(t, n, id))
		}
		answer := tool.Asks(tool.Ctx, "elicitation/create")
		require.Equal(t, "input_required half", w.state(t, 1, id))
		w.about(t, 1, "tasks/update", id, `,"inputResponses":{"q1":{"action":"accept"}}`)
		require.JSONEq(t, `{"action":"accept"}`, fmt.Sprint(<-answer))
		tool.Returns(done(7))
		for n := range 2 {
			require.Equal(t, "completed map[n:7]", w.state(t, n, id))
		}
		require.EqualValues(t, 4, w.processes[1].Stats().Forwarded)
		require.Zero(t, w.processes[1].Stats().Tasks)
	})
}

// A cancellation through any process reaches the call.
func TestATaskIsCancelledThroughAnyProcess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		id, tool := w.task(t, 0)
		w.about(t, 1, "tasks/cancel", id, "")
		require.ErrorIs(t, tool.Cause(), rejoin.ErrCancelled)
		require.Equal(t, "cancelled", w.state(t, 1, id))
		w.kill(0)
		require.Equal(t, "cancelled", w.state(t, 1, id), "also after its owner is dead")
	})
}

// A client that listens hears of its tasks through any process.
func TestATaskIsListenedToThroughAnyProcess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		id, tool := w.task(t, 0)
		ctx, cancel := context.WithCancel(t.Context())
		listen := kit.Serve(w.processes[1].Server, modernRequest(t, "subscriptions/listen", "", `,"notifications":{"taskIds":["`+id+`"]}`).WithContext(ctx))
		require.NoError(t, tool.Progress(1, 2, "half"))
		tool.Returns(done(1))
		require.Regexp(t, `(?s)acknowledged.*"status":"working".*"status":"completed".*"statusMessage":"half"`, bodyOf(listen))
		finished := kit.Drain(t, w.processes[1].Server, time.Minute)
		elapse(time.Second)
		require.NoError(t, <-finished, "a process that drains lets it go")
		require.Contains(t, listen.Summary(), "ended")
		cancel()
	})
}

// What becomes of a task whose owner dies: what has ended is as it was, and what ran has failed.
func TestATaskIsAdopted(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(w *world, id string, tool *kit.ManualTool)
		want string
	}{
		"it runs":        {func(*world, string, *kit.ManualTool) {}, "failed owner_lost"},
		"it asks":        {func(_ *world, _ string, tool *kit.ManualTool) { tool.Asks(tool.Ctx, "elicitation/create") }, "failed owner_lost"},
		"it is complete": {func(_ *world, _ string, tool *kit.ManualTool) { tool.Returns(done(7)) }, "completed map[n:7]"},
		"it has failed": {func(_ *world, _ string, tool *kit.ManualTool) {
			tool.Returns(&rejoin.Error{Code: 5, Message: "no", Data: json.RawMessage(`{"reason":"mine"}`)})
		}, "failed mine"},
		"it is cancelled": {func(w *world, id string, _ *kit.ManualTool) { w.about(t, 0, "tasks/cancel", id, "") }, "cancelled"},
		"it is large": {func(_ *world, _ string, tool *kit.ManualTool) {
			tool.Returns(map[string]any{"content": []any{}, "structuredContent": map[string]any{"n": 8}, "x": strings.Repeat("x", 3<<20)})
		}, "completed map[n:8]"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, tasks())
				w.add(tasks())
				id, tool := w.task(t, 0)
				test.end(w, id, tool)
				elapse(time.Second)
				w.kill(0)
				require.Equal(t, test.want, w.state(t, 1, id))
				require.Equal(t, test.want, w.state(t, 2, id), "through another process")
				require.EqualValues(t, 1, w.processes[1].Stats().Adopted+w.processes[2].Stats().Adopted)
				w.kill(1)
				require.Equal(t, test.want, w.state(t, 2, id), "the second death")
				elapse(11 * time.Minute)
				require.Equal(t, unknownTask, w.state(t, 2, id))
				require.Zero(t, w.processes[2].Stats().Tasks)
			})
		})
	}
}

// To another user a task does not exist, wherever it is, and nothing is adopted for that user.
func TestATaskOfAnotherPrincipalIsNotAdopted(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, tasks())
		elapse(3 * lease)
		id, _ := w.task(t, 0)
		as := func(n int, user string) string {
			r := modernRequest(t, "tasks/get", id, `,"taskId":"`+id+`"`)
			r.Header.Set("X-User", user)
			return stateOf(t, kit.Serve(w.processes[n].Server, r))
		}
		require.Equal(t, unknownTask, as(0, "mallory"))
		require.Equal(t, unknownTask, as(1, "mallory"))
		w.kill(0)
		require.Equal(t, unknownTask, as(1, "mallory"))
		require.Zero(t, w.processes[1].Stats().Adopted)
		require.Equal(t, "failed owner_lost", as(1, ""))
	})
}
