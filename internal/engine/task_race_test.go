package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
)

// TestBoundsOfTasksAreExact: as many tasks start at once as may, of one principal and of all, never one more, and never one less.
func TestBoundsOfTasksAreExact(t *testing.T) {
	const limit, share, principals, each = 10, 3, 8, 20
	store := newMemory()
	ts := newTestTasks(store, limit, share)
	for range 50 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		started := map[string][]*Task{}
		total := 0
		for p := range principals {
			name := fmt.Sprint(p)
			for range each {
				wg.Go(func() {
					if task := ts.Start(new(testCall), new(testCall), name, taskConfig); task != nil {
						mu.Lock()
						started[name] = append(started[name], task)
						total++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		require.Equal(t, limit, total)
		for _, of := range started {
			require.LessOrEqual(t, len(of), share)
		}
		requireCount(t, ts, limit, 0, limit)
		for _, of := range started {
			for _, task := range of {
				wg.Go(task.Discard)
				wg.Go(task.Discard)
			}
		}
		wg.Wait()
		requireEmpty(t, ts, store)
	}
	one := newTestTasks(store, 0, share)
	for i := range 10 {
		require.Equal(t, i < share, one.Start(new(testCall), new(testCall), "alice", taskConfig) != nil)
	}
	require.NotNil(t, one.Start(new(testCall), new(testCall), "bob", taskConfig))
	one.Stop()
}

// crossing is two things that happen to a task at once.
type crossing struct {
	name   string
	before func(*Task, *testCall)
	a, b   func(*Task, *testCall)
	check  func(t *testing.T, told, shows string)
}

// TestEndsOfTasksCross: whichever of two is first, all hear of it what they must, once.
func TestEndsOfTasksCross(t *testing.T) {
	asks := func(task *Task, c *testCall) { task.Ask(c.asks("q")) }
	rounds := func(task *Task, _ *testCall) { task.Ask(ofRound(1, "a", "b")) }
	reply := func(task *Task, _ *testCall) { task.Answer(answer("q", "yes", "a", "A", "b", "B")) }
	end := func(task *Task, _ *testCall) { task.End(core.TaskCompleted, "", []byte("result")) }
	cancel := func(task *Task, _ *testCall) { task.Cancel() }
	stop := func(task *Task, _ *testCall) { task.Stop() }
	discard := func(task *Task, _ *testCall) { task.Discard() }
	withdraw := func(task *Task, _ *testCall) { task.Withdraw("q") }
	oneOf := func(what ...string) func(*testing.T, string, string) {
		return func(t *testing.T, told, shows string) { require.Contains(t, what, told+" | "+shows) }
	}
	for _, c := range []crossing{
		{"answer, withdraw", asks, reply, withdraw, oneOf("q: yes ok | working", " | working")},
		{"answer, answer", asks, reply, reply, oneOf("q: yes ok | working")},
		{"answers of a round", rounds, reply, reply, oneOf("resume a=A b=B | working")},
		{"parts of a round", rounds, func(task *Task, _ *testCall) { task.Answer(answer("a", "A")) },
			func(task *Task, _ *testCall) { task.Answer(answer("b", "B")) }, oneOf("resume a=A b=B | working")},
		{"answer, cancel", asks, reply, cancel, oneOf("q: yes ok; cancel cancelled | cancelled", "cancel cancelled; q: yes ok | cancelled",
			"cancel cancelled; q:  cancelled | cancelled")},
		{"round, cancel", rounds, reply, cancel, oneOf("resume a=A b=B; cancel cancelled | cancelled", "cancel cancelled; resume a=A b=B | cancelled",
			"cancel cancelled | cancelled")},
		{"answer, end", asks, reply, end, oneOf("q: yes ok | completed result", "q:  ended | completed result")},
		{"end, cancel", nil, end, cancel, oneOf(" | completed result", "cancel cancelled | cancelled")},
		{"end, stop", nil, end, stop, oneOf(" | completed result", "cancel shutdown | failed error shutdown")},
		{"end, discard", nil, end, discard, oneOf(" | unknown", "cancel cancelled | unknown")},
		{"cancel, stop", asks, cancel, stop, oneOf("cancel cancelled; q:  cancelled | cancelled", "cancel shutdown; q:  shutdown | failed error shutdown")},
		{"ask, stop", nil, asks, stop, oneOf("cancel shutdown; q:  shutdown | failed error shutdown", "cancel shutdown | failed error shutdown")},
		{"ask, cancel", nil, asks, cancel, oneOf("cancel cancelled; q:  cancelled | cancelled", "cancel cancelled | cancelled")},
		{"ask, end", nil, asks, end, oneOf("q:  ended | completed result", " | completed result")},
		{"ask, view", nil, asks, func(task *Task, _ *testCall) { show(task) }, oneOf(" | input_required ?q")},
		{"end, view", nil, end, func(task *Task, _ *testCall) {
			if v, why := task.View(); why != core.NoReason || v.Status == core.TaskCompleted && string(v.Response) != "result" {
				panic("a view of a task that is completed has its result")
			}
		}, oneOf(" | completed result")},
		{"discard, find and watch", nil, discard, func(task *Task, _ *testCall) {
			w := NewTaskWatcher()
			if found := task.tasks.Find(task.ID(), task.principal); found != nil {
				w.Watch(found)
				show(found)
				w.Stop(found)
			}
		}, oneOf("cancel cancelled | unknown")},
		{"discard, watch", nil, discard, func(task *Task, _ *testCall) { NewTaskWatcher().Watch(task) }, oneOf("cancel cancelled | unknown")},
		{"fetched, discard", end, func(task *Task, _ *testCall) { task.Fetched() }, discard, oneOf(" | unknown")},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := newMemory()
			ts := newTestTasks(store, 0, 0)
			for range 150 {
				call := new(testCall)
				task := ts.Start(call, call, "alice", taskConfig)
				if c.before != nil {
					c.before(task, call)
				}
				var ready, done sync.WaitGroup
				ready.Add(2)
				for _, f := range []func(*Task, *testCall){c.a, c.b} {
					done.Go(func() {
						ready.Done()
						ready.Wait()
						f(task, call)
					})
				}
				done.Wait()
				shows := show(task)
				c.check(t, call.told(), shows)
				r, u, k := ts.Count()
				require.Equal(t, shows == "unknown", k == 0)
				requireCount(t, ts, r, u, k)
				task.Discard()
				requireEmpty(t, ts, store)
			}
		})
	}
}

// TestATaskExpiresDuringItsView: the client gets the result, or is told that there is no such task.
func TestATaskExpiresDuringItsView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestTasks(newMemory(), 0, 0)
		seen := map[string]int{}
		for range 200 {
			task := ts.Start(new(testCall), new(testCall), "", taskConfig)
			task.End(core.TaskCompleted, "", []byte("result"))
			<-time.After(taskConfig.TTL) // the timer fires as this goroutine wakes
			seen[show(task)]++
			synctest.Wait()
		}
		require.Subset(t, []string{"completed result", "unknown"}, keysOf(seen))
		requireCount(t, ts, 0, 0, 0)
	})
}

func keysOf(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// TestADrainSeesEachTask: from its start until its end was fetched a task counts as one of both, at each moment.
func TestADrainSeesEachTask(t *testing.T) {
	ts := newTestTasks(newMemory(), 0, 0)
	kept := ts.Start(new(testCall), new(testCall), "", taskConfig)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			running, unfetched, _ := ts.Count()
			if running < 0 || unfetched < 0 || running+unfetched < 1 {
				t.Errorf("a drain would end: %d running, %d unfetched", running, unfetched)
				return
			}
		}
	})
	for range 10000 {
		kept.End(core.TaskCompleted, "", []byte("result"))
		next := ts.Start(new(testCall), new(testCall), "", taskConfig)
		kept.Fetched()
		kept.Discard()
		kept = next
	}
	stop.Store(true)
	wg.Wait()
	kept.Discard()
	requireCount(t, ts, 0, 0, 0)
}

// TestADrainNeverHangs: one that waits for Changed is woken when the last task that it waits for has gone.
func TestADrainNeverHangs(t *testing.T) {
	for range 50 {
		ts := newTestTasks(newMemory(), 0, 0)
		ts.engine.Drain()
		var tasks []*Task
		for range 8 {
			tasks = append(tasks, ts.Start(new(testCall), new(testCall), "", taskConfig))
		}
		var wg sync.WaitGroup
		for i, task := range tasks {
			wg.Go(func() {
				switch i % 4 {
				case 0:
					task.End(core.TaskCompleted, "", []byte("result"))
					task.Fetched()
				case 1:
					task.Cancel()
				case 2:
					task.Stop()
					task.Discard()
				case 3:
					task.Discard()
				}
			})
		}
		limit := time.After(time.Minute)
		for {
			running, unfetched, _ := ts.Count()
			if running+unfetched == 0 {
				break
			}
			select {
			case <-ts.engine.Changed():
			case <-limit:
				require.Fail(t, "the drain hangs", "%d running, %d unfetched", running, unfetched)
			}
		}
		wg.Wait()
		for _, task := range tasks {
			task.Discard()
		}
		requireCount(t, ts, 0, 0, 0)
	}
}

// TestNoTaskStartsAfterAStop: one that starts at the same time is stopped, or does not start.
func TestNoTaskStartsAfterAStop(t *testing.T) {
	for range 200 {
		ts := newTestTasks(newMemory(), 0, 0)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { ts.Start(new(testCall), new(testCall), "", taskConfig) })
		}
		wg.Go(ts.Stop)
		wg.Wait()
		running, _, _ := ts.Count()
		require.Zero(t, running)
		require.Nil(t, ts.Start(new(testCall), new(testCall), "", taskConfig))
		for _, task := range ts.byID {
			task.Discard()
		}
		requireCount(t, ts, 0, 0, 0)
	}
}

// TestNothingIsLeftOfTasks: whatever many tasks went through at once, nothing refers to them in the end.
func TestNothingIsLeftOfTasks(t *testing.T) {
	const rounds, tasks, hands = 5, 40, 4
	store := newMemory()
	ts := newTestTasks(store, 0, 0)
	before := runtime.NumGoroutine()
	watcher := NewTaskWatcher()
	var left []weak.Pointer[Task]
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range tasks {
			call := new(testCall)
			task := ts.Start(call, call, fmt.Sprint(i%3), taskConfig)
			left = append(left, weak.Make(task))
			for hand := range hands {
				r := rand.New(rand.NewPCG(uint64(round), uint64(i*hands+hand)))
				wg.Go(func() {
					for range 50 {
						happen(r, task, call, watcher, hand)
					}
				})
			}
		}
		for range 2 { // and a listen that reads
			wg.Go(func() {
				for range 500 {
					if task := watcher.Next(); task != nil {
						show(task)
					}
					runtime.Gosched()
				}
			})
		}
		wg.Wait()
		r, u, k := ts.Count()
		requireCount(t, ts, r, u, k)
		ts.mu.RLock()
		var all []*Task
		for _, task := range ts.byID {
			all = append(all, task)
		}
		ts.mu.RUnlock()
		for _, task := range all {
			watcher.Stop(task)
			task.Discard()
		}
		requireEmpty(t, ts, store)
	}
	for watcher.Next() != nil { // those that were dropped while they were watched
	}
	for i := range left {
		requireCollected(t, left[i], "task %d", i)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+2)
	runtime.KeepAlive(watcher)
}

// happen does one thing to a task.
func happen(r *rand.Rand, task *Task, call *testCall, w *TaskWatcher, hand int) {
	key := fmt.Sprintf("h%d.%d", hand, r.IntN(1<<30))
	switch r.IntN(60) {
	case 0:
		task.End(core.TaskCompleted, "", []byte("result"))
	case 1:
		task.Fetched()
	case 2:
		if r.IntN(20) == 0 {
			task.Cancel()
		}
	case 3:
		if r.IntN(40) == 0 {
			task.Discard()
		}
	case 4, 5, 6, 7:
		task.Ask(call.asks(key))
		if r.IntN(2) == 0 {
			task.Withdraw(key)
		}
	case 8, 9, 10:
		w.Watch(task)
	case 11, 12:
		w.Stop(task)
	case 13, 14, 15, 16, 17, 18:
		v, why := task.View()
		if why == core.NoReason && v.Status == core.TaskCompleted && string(v.Response) != "result" {
			panic("a completed task has its result")
		}
		for _, q := range v.Questions {
			task.Answer(answer(q.Key, "yes"))
		}
	case 19:
		task.Adjust(core.TaskConfig{AbandonAfter: time.Duration(1+r.IntN(100)) * time.Minute})
	default:
		task.Note(key)
	}
}
