package tasks_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A drain waits for each task to run and for its end to be fetched. Everything about tasks is served meanwhile, and nothing new begins.
func TestADrainWaitsForTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Policy: rejoin.Policy{AbandonAfter: -1}})
		first, tool := w.task()
		second, asking := w.task()
		cancelled, _ := w.task()
		during := w.open(w.call()) // it becomes a task while the server drains
		late := w.next()
		done := kit.Drain(t, w.Server(), 0)
		status, code := w.refused(w.call())
		require.Equal(t, []any{503, -32000.0}, []any{status, code})
		kit.Elapse(time.Hour)
		require.Empty(t, done)
		require.Equal(t, "working", w.get(first)["status"])
		tool.Returns(map[string]any{"content": []any{}})
		w.cancel(cancelled)
		asked := asking.Asks(asking.Ctx, "elicitation/create")
		w.update(second, `{"q1":{"action":"accept"}}`)
		requireAnswer(t, `{"action":"accept"}`, asked)
		asking.Returns(rejoin.Errorf(7, "no"))
		third := at(read(t, during)[0], "result", "taskId").(string)
		late.Returns(map[string]any{"content": []any{}})
		for _, id := range []string{first, second, third} {
			require.Empty(t, done, "not fetched yet")
			require.NotEmpty(t, w.get(id)["status"])
			synctest.Wait()
		}
		require.NoError(t, <-done)
		require.Equal(t, "failed", w.get(second)["status"], "it is still served")
	})
}

// A result that nobody fetches is waited for as long as it is kept.
func TestADrainWaitsForAResultUntilItExpires(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Tasks: rejoin.Tasks{TTL: time.Minute}})
		_, tool := w.task()
		done := kit.Drain(t, w.Server(), 0)
		tool.Returns(map[string]any{"content": []any{}})
		began := time.Now()
		require.NoError(t, <-done)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// A drain whose time is over counts what was left, and says so to the tasks that run. What has ended can still be fetched.
func TestADrainThatRunsOutOfTime(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		running, tool := w.task()
		asking, asks := w.task()
		completed, quick := w.task()
		asked := asks.Asks(asks.Ctx, "elicitation/create")
		quick.Returns(map[string]any{"content": []any{}})
		w.cancel(w.makeTask())
		w.next()
		require.Equal(t, &rejoin.DrainError{Running: 2, Unfetched: 1}, <-kit.Drain(t, w.Server(), time.Minute))
		require.ErrorIs(t, tool.Cause(), rejoin.ErrShutdown)
		require.ErrorIs(t, asks.Cause(), rejoin.ErrShutdown)
		require.Equal(t, rejoin.ErrShutdown, <-asked)
		for _, id := range []string{running, asking} {
			require.Equal(t, []any{"failed", -32000.0, "shutdown"}, failure(w.settled(id)))
			w.cancel(id)
			require.Equal(t, []any{"failed", -32000.0, "shutdown"}, failure(w.settled(id)))
		}
		require.Equal(t, "completed", w.get(completed)["status"])
		kit.Elapse(10 * time.Minute)
		w.requireUnknown(running)
		w.requireNothingLeft()
	})
}

// Close ends calls before the turn with an error, and tasks as failed, once.
func TestCloseEndsTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		res := w.open(w.listen([]string{id}, ""))
		call := w.open(w.call())
		early := w.next()
		for range 2 {
			w.Server().Close()
		}
		require.ErrorIs(t, tool.Cause(), rejoin.ErrShutdown)
		require.ErrorIs(t, early.Cause(), rejoin.ErrShutdown)
		kit.Elapse(time.Second)
		require.Equal(t, "too late", read(t, call)[0]["result"], "the tool's own last word")
		require.Equal(t, []any{"failed", -32000.0, "shutdown"}, failure(w.settled(id)))
		require.True(t, ended(res))
		require.ErrorIs(t, tool.Progress(1, 2, ""), rejoin.ErrEnded)
		synctest.Wait()
		require.Zero(t, w.Server().Stats().TasksRunning)
		require.Zero(t, w.Server().Stats().Connections)
	})
}

// MaxRuntime counts from the beginning of the call. Before the turn it is an error, after it a failed task, and both name the reason.
func TestMaxRuntimeOfACallThatBecomesATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		silent := rawApp(rawDiscover, func(c rawCall) { <-c.r.Context().Done() })
		w := beginWith(t, silent, configured(rejoin.Config{Policy: rejoin.Policy{MaxRuntime: 10 * time.Second, TaskAfter: 20 * time.Second}}))
		_, answer := w.do(w.call())
		require.Equal(t, "max_runtime", at(answer, "error", "data", "reason"))

		w = begin(t, rejoin.Config{Policy: rejoin.Policy{MaxRuntime: 10 * time.Second, TaskAfter: 4 * time.Second}})
		id, tool := w.task()
		kit.Elapse(6*time.Second - time.Nanosecond)
		require.NoError(t, tool.Cause())
		kit.Elapse(time.Nanosecond)
		require.ErrorIs(t, tool.Cause(), rejoin.ErrMaxRuntime)
		require.Equal(t, []any{"failed", -32000.0, "max_runtime"}, failure(w.settled(id)))
	})
}

// MaxRuntime and TaskAfter at one instant: whichever comes first, the reason is told.
func TestMaxRuntimeAtTheTurn(t *testing.T) {
	for range 100 {
		kit.Bubble(t, func(t *testing.T) {
			w := beginWith(t, rawApp(rawDiscover, func(c rawCall) { <-c.r.Context().Done() }),
				configured(rejoin.Config{Logger: kit.QuietLogger(), Policy: rejoin.Policy{MaxRuntime: time.Second, TaskAfter: time.Second}}))
			_, answer := w.do(w.call())
			if id, made := at(answer, "result", "taskId").(string); made {
				kit.Elapse(time.Nanosecond)
				answer = w.settled(id)
			}
			require.Equal(t, "max_runtime", at(answer, "error", "data", "reason"), "%v", answer)
		})
	}
}

// A task whose client does not come back is cancelled, and its client learns why if it does come back. Each request about it counts.
func TestAnAbandonedTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Policy: rejoin.Policy{AbandonAfter: time.Minute}})
		id, tool := w.task()
		asked := tool.Asks(tool.Ctx, "elicitation/create")
		for _, ask := range []func(){func() { w.get(id) }, func() { w.update(id, `{}`) }, func() { w.get(id) }} {
			kit.Elapse(time.Minute - time.Nanosecond)
			ask()
		}
		kit.Elapse(time.Minute)
		require.Equal(t, rejoin.ErrAbandoned, <-asked)
		require.ErrorIs(t, tool.Cause(), rejoin.ErrAbandoned)
		require.Equal(t, []any{"failed", -32000.0, "abandoned"}, failure(w.settled(id)))
		require.NoError(t, <-kit.Drain(t, w.Server(), time.Second))
	})
}

// SetPolicy changes what holds for the call, before the turn and after it. MaxRuntime counts from the beginning of the call in both.
func TestSetPolicyOfATask(t *testing.T) {
	for name, before := range map[string]bool{"before the turn": true, "in the task": false} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := begin(t, rejoin.Config{Policy: rejoin.Policy{AbandonAfter: time.Hour, TaskAfter: 30 * time.Second}})
				made := func(p rejoin.Policy) *kit.ManualTool {
					res := w.open(w.call())
					tool := w.next()
					if before {
						require.NoError(t, tool.SetPolicy(p))
					}
					kit.Elapse(30 * time.Second)
					require.Equal(t, "task", at(read(t, res)[0], "result", "resultType"))
					if !before {
						require.NoError(t, tool.SetPolicy(p))
					}
					return tool
				}
				tool := made(rejoin.Policy{MaxRuntime: time.Minute})
				kit.Elapse(30*time.Second - time.Nanosecond)
				require.NoError(t, tool.Cause())
				kit.Elapse(time.Nanosecond)
				require.ErrorIs(t, tool.Cause(), rejoin.ErrMaxRuntime)
				tool = made(rejoin.Policy{AbandonAfter: time.Minute})
				kit.Elapse(time.Minute)
				require.ErrorIs(t, tool.Cause(), rejoin.ErrAbandoned)
				tool = made(rejoin.Policy{AbandonAfter: -1})
				kit.Elapse(100 * time.Hour)
				require.NoError(t, tool.Cause())
				require.NoError(t, tool.SetPolicy(rejoin.Policy{MaxRuntime: time.Second}))
				require.ErrorIs(t, tool.Cause(), rejoin.ErrMaxRuntime, "it is over by far")
			})
		})
	}
}

// PolicyFor sees the calls of the modern era with all that is known of them, and decides the turn of each.
func TestPolicyForOfModernCalls(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var seen []rejoin.RequestInfo
		w := begin(t, rejoin.Config{
			Policy: rejoin.Policy{CloseAfter: 20 * time.Second, TaskAfter: 5 * time.Second},
			PolicyFor: func(r rejoin.RequestInfo, p rejoin.Policy) rejoin.Policy {
				if r.HTTP.Header.Get("Mcp-Method") == "" {
					return p
				}
				require.Equal(t, 5*time.Second, p.TaskAfter)
				require.Equal(t, 10*time.Minute, p.AbandonAfter)
				require.Equal(t, "yes", r.HTTP.Header.Get("X-Mine"))
				r.HTTP = nil
				seen = append(seen, r)
				switch r.Name {
				case "at once":
					p.TaskAfter = time.Nanosecond
				case "never":
					p.TaskAfter = -1
				case "zero":
					p.TaskAfter = 0
				}
				return p
			},
		})
		call := func(name string) *http.Request {
			return w.request("tools/call", name, `,"name":"`+name+`"`, "X-Mine", "yes")
		}
		for name, want := range map[string]time.Duration{"at once": time.Nanosecond, "zero": 20 * time.Second, "x": 5 * time.Second} {
			began := time.Now()
			require.Equal(t, "task", w.result(call(name))["resultType"])
			require.Equal(t, want, time.Since(began), name)
			w.next()
		}
		res := w.open(call("never"))
		tool := w.next()
		kit.Elapse(time.Hour)
		require.False(t, ended(res))
		require.NoError(t, tool.CloseStream(0), "never by itself")
		require.True(t, ended(res))
		w.caps = "{}"
		res = w.open(call("x"))
		w.next().Returns(map[string]any{})
		require.True(t, ended(res))
		require.Len(t, seen, 5)
		require.Equal(t, "tools/call", seen[4].Method)
		require.False(t, seen[4].Tasks)
		require.True(t, seen[3].Tasks)
		require.False(t, seen[3].Polls)
		require.Equal(t, "2026-07-28", seen[3].Client.Protocol)
	})
}
