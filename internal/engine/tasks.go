package engine

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
)

// Tasks are the tasks of a server. Safe for concurrent use.
type Tasks struct {
	engine             *Engine
	max, share         int
	running, unfetched atomic.Int64

	mu   sync.RWMutex
	byID map[string]*Task
	held map[string]int // how many each principal has
}

// NewTasks makes the tasks of a server: at most limit, and at most share of one principal. Not positive: no limit.
func (e *Engine) NewTasks(limit, share int) *Tasks {
	return &Tasks{engine: e, max: limit, share: share, byID: map[string]*Task{}, held: map[string]int{}}
}

// Start makes a task. Nil: there are as many as there may be. The task can be found at once; the client is to be told of it, or Discard called.
func (ts *Tasks) Start(host TaskHost, principal string, cfg core.TaskConfig) *Task {
	t := &Task{tasks: ts, host: host, id: ts.engine.cfg.Node + "." + rand.Text(), principal: principal, created: time.Now()}
	t.m = core.NewTask(cfg, t.created)
	t.log = t.logOf()
	ts.mu.Lock()
	full := ts.max > 0 && len(ts.byID) >= ts.max || ts.share > 0 && ts.held[principal] >= ts.share
	if !full {
		ts.byID[t.id] = t
		ts.held[principal]++
	}
	ts.mu.Unlock()
	if full {
		return nil
	}
	ts.count(standing{}, standing{running: 1})
	t.tick() // sets the timer
	return t
}

// Find returns the task with that id if it belongs to the principal, else nil.
func (ts *Tasks) Find(id, principal string) *Task {
	ts.mu.RLock()
	t := ts.byID[id]
	ts.mu.RUnlock()
	if t == nil || t.principal != principal {
		return nil
	}
	return t
}

// Count returns how many tasks run, how many have ended with something that was not fetched, and how many are kept altogether.
func (ts *Tasks) Count() (running, unfetched, kept int) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return int(ts.running.Load()), int(ts.unfetched.Load()), len(ts.byID)
}

// Stop ends all tasks, because the server ends. What has ended can still be fetched.
func (ts *Tasks) Stop() {
	ts.mu.RLock()
	all := make([]*Task, 0, len(ts.byID))
	for _, t := range ts.byID {
		all = append(all, t)
	}
	ts.mu.RUnlock()
	for _, t := range all {
		t.Stop()
	}
}

func (ts *Tasks) remove(t *Task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byID[t.id] != t {
		return
	}
	delete(ts.byID, t.id)
	if ts.held[t.principal]--; ts.held[t.principal] == 0 {
		delete(ts.held, t.principal)
	}
}

// count notes how a task counts for a drain.
func (ts *Tasks) count(from, to standing) {
	if from == to {
		return
	}
	ts.running.Add(to.running - from.running)
	ts.unfetched.Add(to.unfetched - from.unfetched)
	ts.engine.Notify()
}

// TaskWatcher collects which of several tasks have changed. Make it with NewTaskWatcher.
type TaskWatcher struct {
	wake chan struct{}

	mu      sync.Mutex
	changed []*Task
	listed  map[*Task]bool
}

// NewTaskWatcher makes a watcher of no task.
func NewTaskWatcher() *TaskWatcher {
	return &TaskWatcher{wake: make(chan struct{}, 1), listed: map[*Task]bool{}}
}

// Watch makes the watcher collect the changes of a task, beginning with the present state. Stop ends it.
func (w *TaskWatcher) Watch(t *Task) {
	t.mu.Lock()
	watches := !t.dropped
	if watches {
		if t.watchers == nil {
			t.watchers = map[*TaskWatcher]struct{}{}
		}
		t.watchers[w] = struct{}{}
	}
	t.mu.Unlock()
	if watches {
		t.do(core.TaskIn{Op: core.TaskListen}, nil)
		w.note(t)
	}
}

// Stop ends a Watch.
func (w *TaskWatcher) Stop(t *Task) {
	t.mu.Lock()
	_, watched := t.watchers[w]
	delete(t.watchers, w)
	t.mu.Unlock()
	if watched {
		t.do(core.TaskIn{Op: core.TaskUnlisten}, nil)
	}
}

// note lists a task. It may be called under the task's lock.
func (w *TaskWatcher) note(t *Task) {
	w.mu.Lock()
	if !w.listed[t] {
		w.listed[t] = true
		w.changed = append(w.changed, t)
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Changed receives when Next may have something.
func (w *TaskWatcher) Changed() <-chan struct{} { return w.wake }

// Next returns a task that has changed since Next last returned it; nil: none has.
func (w *TaskWatcher) Next() *Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changed) == 0 {
		return nil
	}
	t := w.changed[0]
	w.changed = w.changed[1:]
	delete(w.listed, t)
	return t
}
