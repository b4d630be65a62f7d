package engine

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
)

func TestAWatcherSeesEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestTasks(newMemory(), 0, 0)
		a, b := ts.Start(new(testCall), new(testCall), "", taskConfig), ts.Start(new(testCall), new(testCall), "", taskConfig)
		a.Note("a1")
		w := NewTaskWatcher()
		require.Nil(t, w.Next())
		w.Watch(a)
		w.Watch(b)
		require.Len(t, w.Changed(), 1)
		<-w.Changed()
		require.Same(t, a, w.Next(), "the present state comes at once")
		require.Same(t, b, w.Next())
		require.Nil(t, w.Next())
		require.Empty(t, w.Changed())

		a.Note("a1")
		a.Answer(answer("unknown", "x"))
		show(a)
		require.Empty(t, w.Changed(), "nothing has changed")

		for i := range 100 {
			b.Note(fmt.Sprint(i))
			a.Note(fmt.Sprint(i))
		}
		<-w.Changed()
		require.Same(t, b, w.Next(), "in the order of their changes")
		require.Equal(t, "working 99", show(b), "and as one")
		b.Note("more")
		require.Same(t, a, w.Next())
		require.Same(t, b, w.Next())
		require.Nil(t, w.Next())

		a.Ask(new(testCall).asks("q"))
		require.Same(t, a, w.Next())
		a.Withdraw("q")
		require.Same(t, a, w.Next())
		a.End(core.TaskCompleted, "", []byte("result"))
		require.Same(t, a, w.Next())
		a.Fetched()
		require.Nil(t, w.Next())

		b.Note("not seen")
		w.Stop(b)
		require.Nil(t, w.Next(), "it collects nothing of what it does not watch any more")
		b.Note("more")
		w.Stop(b)
		require.Nil(t, w.Next())
		w.Stop(a)
		b.Discard()
		w.Watch(b)
		require.Nil(t, w.Next(), "it is not kept any more")
		a.Discard()
	})
}

// TestATaskMayBeWatchedTwice: a client may list a task twice, and two listens may have it.
func TestATaskMayBeWatchedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestTasks(newMemory(), 0, 0)
		call := new(testCall)
		task := ts.Start(call, call, "", taskConfig)
		one, two := NewTaskWatcher(), NewTaskWatcher()
		one.Watch(task)
		one.Watch(task)
		two.Watch(task)
		require.Same(t, task, one.Next())
		require.Nil(t, one.Next())
		one.Stop(task)
		<-time.After(time.Hour)
		synctest.Wait()
		require.False(t, task.Final(), "the other listens")
		two.Stop(task)
		one.Stop(task)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, "cancel abandoned", call.told(), "nobody listens")
		task.Discard()
	})
}

// TestAWatcherKeepsNoTask that it has handed out, nor one that it does not watch any more.
func TestAWatcherKeepsNoTask(t *testing.T) {
	ts := newTestTasks(newMemory(), 0, 0)
	w := NewTaskWatcher()
	start := func() weak.Pointer[Task] {
		task := ts.Start(new(testCall), new(testCall), "", taskConfig)
		w.Watch(task)
		p := weak.Make(task)
		if w.Next() != task {
			t.Error("the present state")
		}
		task.Note("more")
		w.Stop(task)
		task.Discard()
		return p
	}
	var left []weak.Pointer[Task]
	for range 1000 { // the runtime removes stopped timers, which refer to tasks, only when they are a good part of all timers
		left = append(left, start())
	}
	for i := range left {
		requireCollected(t, left[i], "task %d", i)
	}
	runtime.KeepAlive(w)
}

// requireCollected checks that nothing refers to a task any more, no timer either. Stacks of goroutines that have just ended may, for a moment.
func requireCollected(t testing.TB, p weak.Pointer[Task], what string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		if p.Value() == nil {
			return
		}
		runtime.Gosched() // on a busy machine such a goroutine may not have run yet
	}
	require.Fail(t, "it is still there", what, args)
}

// TestAWatcherMissesNothing: whatever happens at once, the last state that a watcher is told of is the last one.
func TestAWatcherMissesNothing(t *testing.T) {
	ts := newTestTasks(newMemory(), 0, 0)
	for round := range 100 {
		const tasks, notes = 4, 50
		w := NewTaskWatcher()
		var wg sync.WaitGroup
		for i := range tasks {
			task := ts.Start(new(testCall), new(testCall), "", taskConfig)
			wg.Go(func() { w.Watch(task) })
			wg.Go(func() {
				for n := range notes {
					task.Note(fmt.Sprint(n))
					if n == i*10 {
						task.Ask(new(testCall).asks("q"))
						runtime.Gosched()
					}
				}
				task.End(core.TaskCompleted, "end", []byte("result"))
			})
		}
		last := map[*Task]string{}
		ended := 0
		limit := time.After(time.Minute)
		for ended < tasks {
			select {
			case <-w.Changed():
			case <-limit:
				require.Fail(t, "a change was missed", "round %d: %v", round, last)
			}
			for task := w.Next(); task != nil; task = w.Next() {
				last[task] = show(task)
				if last[task] == "completed end result" {
					ended++
					w.Stop(task)
				}
			}
		}
		wg.Wait()
		for task := range last {
			require.Equal(t, "completed end result", last[task])
			w.Stop(task)
			task.Discard()
		}
	}
	requireCount(t, ts, 0, 0, 0)
}
