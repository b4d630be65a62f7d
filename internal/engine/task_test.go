package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// testCall is the call behind a task. It writes down what it is told.
type testCall struct {
	hook func() // runs in each method but Failure, without a lock

	mu    sync.Mutex
	heard []string
}

func (c *testCall) note(format string, args ...any) {
	c.mu.Lock()
	c.heard = append(c.heard, fmt.Sprintf(format, args...))
	c.mu.Unlock()
	if c.hook != nil {
		c.hook()
	}
}

// told returns what the call was told since told was last called.
func (c *testCall) told() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := strings.Join(c.heard, "; ")
	c.heard = nil
	return heard
}

var reasonNames = map[core.Reason]string{
	core.NoReason: "ok", core.Cancelled: "cancelled", core.Abandoned: "abandoned", core.Overran: "overran", core.Shutdown: "shutdown",
	core.Expired: "expired", core.StoreFailed: "store failed", core.Ended: "ended", core.OwnerLost: "owner lost", core.Terminated: "ended",
}

func (c *testCall) Cancel(why core.Reason) { c.note("cancel %s", reasonNames[why]) }

func (c *testCall) Resume(answers map[string][]byte) {
	var words []string
	for key, answer := range answers {
		words = append(words, key+"="+string(answer))
	}
	slices.Sort(words)
	c.note("resume %s", strings.Join(words, " "))
}

func (*testCall) Failure(why core.Reason) []byte { return []byte("error " + reasonNames[why]) }

func (c *testCall) Report(e Event) {
	switch e.Kind {
	case Panicked:
		c.note("panic in %s", e.Where)
	case StoreFailed:
		c.note("store: %v", e.Err)
	default:
		c.note("event %d", e.Kind)
	}
}

func (*testCall) Parted(*Task, bool) {}

// asks are questions that the call goes on by itself with; it writes down the answers.
func (c *testCall) asks(keys ...string) (qs []*TaskQuestion) {
	for _, key := range keys {
		qs = append(qs, &TaskQuestion{Key: key, Request: []byte(key), Answer: func(result []byte, why core.Reason) {
			c.note("%s: %s %s", key, result, reasonNames[why])
		}})
	}
	return qs
}

func ofRound(n uint32, keys ...string) (qs []*TaskQuestion) {
	for _, key := range keys {
		qs = append(qs, &TaskQuestion{Key: key, Request: []byte(key), Round: n})
	}
	return qs
}

func answer(kv ...string) map[string][]byte {
	results := map[string][]byte{}
	for i := 0; i < len(kv); i += 2 {
		results[kv[i]] = []byte(kv[i+1])
	}
	return results
}

func newMemory() *eventstore.Memory { return eventstore.NewMemory(eventstore.MemoryConfig{}) }

func newTestTasks(store eventstore.Store, limit, share int) *Tasks {
	return New(Config{Store: store, StoreTimeout: 10 * time.Second, Node: "n"}).NewTasks(limit, share)
}

var taskConfig = core.TaskConfig{TTL: time.Hour, AbandonAfter: 10 * time.Minute, MaxRuntime: 24 * time.Hour}

// show is a view as text: status, message, questions, response, and why there is none.
func show(t *Task) string {
	v, why := t.View()
	if why == core.Unknown {
		return "unknown"
	}
	words := []string{v.Status.String()}
	if v.Message != "" {
		words = append(words, v.Message)
	}
	for _, q := range v.Questions {
		words = append(words, "?"+q.Key)
	}
	if v.Response != nil {
		words = append(words, string(v.Response))
	}
	if why != core.NoReason {
		words = append(words, "("+reasonNames[why]+")")
	}
	return strings.Join(words, " ")
}

// requireCount checks the counters, and that they equal a recount.
func requireCount(t testing.TB, ts *Tasks, running, unfetched, kept int) {
	t.Helper()
	r, u, k := ts.Count()
	require.Equal(t, [3]int{running, unfetched, kept}, [3]int{r, u, k}, "running, unfetched, kept")
	r, u = 0, 0
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	held := map[string]int{}
	for id, task := range ts.byID {
		require.Equal(t, id, task.id)
		held[task.principal]++
		task.mu.Lock()
		switch {
		case task.dropped:
		case !task.m.Status().Final():
			r++
		case !task.m.Fetched():
			u++
		}
		task.mu.Unlock()
	}
	require.Equal(t, [2]int{running, unfetched}, [2]int{r, u}, "a recount: running, unfetched")
	require.Equal(t, held, ts.held)
}

// requireEmpty checks that nothing is left of any task.
func requireEmpty(t testing.TB, ts *Tasks, store *eventstore.Memory) {
	t.Helper()
	requireCount(t, ts, 0, 0, 0)
	bytes, _ := store.Usage()
	require.Zero(t, bytes, "nothing is left in the store")
}

func TestATaskLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		ts := newTestTasks(store, 0, 0)
		call := new(testCall)
		task := ts.Start(call, call, "alice", taskConfig)
		require.Regexp(t, `^n\.[A-Z2-7]{26}$`, task.ID())
		require.Same(t, task, ts.Find(task.ID(), "alice"))
		require.Nil(t, ts.Find(task.ID(), "bob"), "it belongs to its principal")
		require.Nil(t, ts.Find(task.ID(), ""))
		require.Nil(t, ts.Find(task.ID()+"A", "alice"))
		requireCount(t, ts, 1, 0, 1)
		require.Equal(t, "working", show(task))
		task.Note("half")
		require.Equal(t, "working half", show(task))

		require.True(t, task.Ask(call.asks("q1", "q2")))
		require.True(t, task.Ask(ofRound(1, "r1.a", "r1.b")))
		require.Equal(t, "input_required half ?q1 ?q2 ?r1.a ?r1.b", show(task))
		task.Answer(answer("q1", "yes", "r1.b", "B", "unknown", "x"))
		require.Equal(t, "q1: yes ok", call.told())
		require.Equal(t, "input_required half ?q2 ?r1.a", show(task))
		task.Answer(answer("q1", "again", "r1.b", "again"))
		require.Empty(t, call.told())
		task.Answer(answer("r1.a", "A"))
		require.Equal(t, "resume r1.a=A r1.b=B", call.told(), "the round has its answers, and no others")
		require.Equal(t, "input_required half ?q2", show(task))
		task.Withdraw("q2")
		task.Withdraw("q2")
		task.Answer(answer("q2", "late"))
		require.Empty(t, call.told(), "nobody awaits what was withdrawn")
		require.True(t, task.Ask(ofRound(2, "r2.a")))
		task.Answer(answer("r2.a", "A2"))
		require.Equal(t, "resume r2.a=A2", call.told())
		require.Equal(t, "working half", show(task))

		requireCount(t, ts, 1, 0, 1)
		require.False(t, task.Final())
		task.Ask(call.asks("q3"))
		task.End(core.TaskCompleted, "done", []byte("result"))
		require.True(t, task.Final())
		require.Equal(t, "q3:  ended", call.told(), "it has asked and not waited")
		require.Equal(t, "completed done result", show(task))
		require.Equal(t, "completed done result", show(task), "as often as the client likes")
		require.False(t, task.Ask(call.asks("q4")))
		task.Note("late")
		task.Cancel()
		task.End(core.TaskFailed, "", []byte("other"))
		require.Equal(t, "completed done result", show(task))
		requireCount(t, ts, 0, 1, 1)
		task.Fetched()
		task.Fetched()
		requireCount(t, ts, 0, 0, 1)

		<-time.After(taskConfig.TTL - 1)
		synctest.Wait()
		require.Equal(t, "completed done result", show(task))
		<-time.After(1)
		synctest.Wait()
		require.Equal(t, "unknown", show(task))
		require.Nil(t, ts.Find(task.ID(), "alice"))
		require.False(t, task.Ask(call.asks("q5")))
		task.Answer(answer("q5", "x"))
		task.End(core.TaskCompleted, "", []byte("late"))
		task.Fetched()
		task.Discard()
		require.Empty(t, call.told())
		requireEmpty(t, ts, store)
	})
}

// TestWhatEndsATasksCall: each end tells the call why, once, and those that wait for an answer.
func TestWhatEndsATasksCall(t *testing.T) {
	for name, c := range map[string]struct {
		end       func(*Tasks, *Task)
		why       string
		shows     string
		unfetched int
	}{
		"cancel":  {func(_ *Tasks, t *Task) { t.Cancel() }, "cancelled", "cancelled", 0},
		"stop":    {func(_ *Tasks, t *Task) { t.Stop() }, "shutdown", "failed error shutdown", 1},
		"all":     {func(ts *Tasks, _ *Task) { ts.Stop() }, "shutdown", "failed error shutdown", 1},
		"discard": {func(_ *Tasks, t *Task) { t.Discard() }, "cancelled", "unknown", 0},
		"abandon": {func(*Tasks, *Task) { <-time.After(10 * time.Minute) }, "abandoned", "failed error abandoned", 0},
		"overrun": {func(_ *Tasks, t *Task) {
			t.Adjust(core.TaskConfig{AbandonAfter: -1})
			<-time.After(24 * time.Hour)
		}, "overran", "failed error overran", 1},
		"adjust": {func(_ *Tasks, t *Task) {
			<-time.After(time.Minute)
			t.Adjust(core.TaskConfig{MaxRuntime: time.Second})
		}, "overran", "failed error overran", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemory()
				ts := newTestTasks(store, 0, 0)
				call := new(testCall)
				task := ts.Start(call, call, "alice", taskConfig)
				task.Ask(call.asks("q"))
				task.Ask(ofRound(1, "r1.a", "r1.b"))
				task.Answer(answer("r1.a", "A"))
				c.end(ts, task)
				synctest.Wait()
				require.Equal(t, "cancel "+c.why+"; q:  "+c.why, call.told())
				require.Equal(t, c.shows, show(task))
				task.Answer(answer("q", "late", "r1.b", "late"))
				task.End(core.TaskCompleted, "late", []byte("late"))
				task.Cancel()
				task.Stop()
				require.Equal(t, c.shows, show(task), "final is final")
				require.Empty(t, call.told())
				if name != "discard" {
					requireCount(t, ts, 0, c.unfetched, 1)
					<-time.After(taskConfig.TTL)
					synctest.Wait()
				}
				requireEmpty(t, ts, store)
			})
		})
	}
}

// TestATaskIsAbandonedOnlyIfItsClientIsSilent: each get, update and listen is a sign of life.
func TestATaskIsAbandonedOnlyIfItsClientIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestTasks(newMemory(), 0, 0)
		call := new(testCall)
		task := ts.Start(call, call, "", taskConfig)
		w := NewTaskWatcher()
		for range 3 {
			<-time.After(9 * time.Minute)
			show(task)
			<-time.After(9 * time.Minute)
			task.Answer(nil)
			<-time.After(9 * time.Minute)
			w.Watch(task)
			<-time.After(time.Hour)
			w.Stop(task)
		}
		<-time.After(10*time.Minute - 1)
		synctest.Wait()
		require.False(t, task.Final())
		<-time.After(1)
		synctest.Wait()
		require.True(t, task.Final())
		require.Equal(t, "cancel abandoned", call.told())
		task.Discard()
	})
}

// TestATasksCallbacksHoldNoLock: the call may use its task, and all others, in each of its methods.
func TestATasksCallbacksHoldNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		ts := newTestTasks(&brokenStore{Store: store}, 0, 0)
		var task *Task
		call := new(testCall)
		inside, asked := 0, 0
		call.hook = func() {
			if inside > 0 || task == nil { // not in what the hook itself causes
				return
			}
			inside++
			defer func() { inside-- }()
			task.Note(fmt.Sprint(time.Now()))
			asked++
			task.Ask([]*TaskQuestion{{Key: fmt.Sprintf("hook%d", asked), Answer: func([]byte, core.Reason) {}}})
			task.Withdraw("q")
			task.Answer(answer("x", "y"))
			task.Final()
			task.View()
			task.Fetched()
			task.Adjust(core.TaskConfig{})
			ts.Find(task.ID(), "")
			ts.Count()
			NewTaskWatcher().Watch(task)
			other := ts.Start(new(testCall), new(testCall), "", taskConfig)
			if other != nil {
				other.Discard()
			}
		}
		for name, end := range map[string]func(){
			"cancel": func() { task.Cancel() }, "stop": func() { task.Stop() }, "discard": func() { task.Discard() },
			"end":     func() { task.End(core.TaskCompleted, "", []byte("result")) },
			"overrun": func() { <-time.After(25 * time.Hour) },
			"answer": func() {
				task.Ask(ofRound(1, "r1.a"))
				task.Answer(answer("q", "yes", "r1.a", "A"))
				task.Cancel()
			},
		} {
			task = nil
			task = ts.Start(call, call, "", taskConfig)
			task.Ask(call.asks("q"))
			end()
			synctest.Wait()
			require.NotEmpty(t, call.told(), name)
			task.Discard()
			synctest.Wait()
		}
		requireEmpty(t, ts, store)
	})
}

var errBroken = errors.New("broken")

// brokenStore fails each append, so that the call gets reports.
type brokenStore struct{ eventstore.Store }

func (s *brokenStore) Log(k eventstore.Key) eventstore.Log { return brokenLog{s.Store.Log(k)} }

type brokenLog struct{ eventstore.Log }

func (brokenLog) Append(context.Context, uint64, [][]byte, bool) error { return errBroken }
