package engine

import (
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
)

// Tasks are the tasks of a server. Safe for concurrent use.
type Tasks struct {
	engine     *Engine
	max, share int
	standings  atomic.Int64 // the sum of all; one number, so that a task that ends is never seen as neither running nor unfetched

	mu      sync.RWMutex
	byID    map[string]*Task
	held    map[string]int // how many each principal has
	stopped bool
}

// standing is how a task counts for a drain.
type standing int64

const (
	standingNone      standing = 0
	standingUnfetched standing = 1
	standingRunning   standing = 1 << 32
)

// NewTasks makes the tasks of a server: at most limit, and at most share of one principal. Not positive: no limit.
func (e *Engine) NewTasks(limit, share int) *Tasks {
	return &Tasks{engine: e, max: limit, share: share, byID: map[string]*Task{}, held: map[string]int{}}
}

// Start makes a task. Nil: there are as many as there may be, or Stop was called. The task can be found at once; the client is to be told of
// it, or Discard called.
func (ts *Tasks) Start(host TaskHost, call TaskCall, principal string, cfg core.TaskConfig) *Task {
	return ts.StartOwned(host, call, principal, cfg, ts.NewID(), nil)
}

// NewID returns an id for a task. It contains the name of the process, and cannot be guessed.
func (ts *Tasks) NewID() string { return ts.engine.cfg.Node + "." + rand.Text() }

// StartOwned is Start in a cluster: the directory has the task already. owner may be nil.
func (ts *Tasks) StartOwned(host TaskHost, call TaskCall, principal string, cfg core.TaskConfig, id string, owner *Owner) *Task {
	t := &Task{tasks: ts, host: host, call: call, id: id, principal: principal, m: core.NewTask(cfg, time.Now())}
	if owner != nil {
		t.owned = &ownedTask{owner: owner}
	}
	if !ts.add(t, ts.max, ts.share) {
		return nil
	}
	t.tick() // sets the timer
	return t
}

// HasRoom reports whether there is room for a task of the principal.
func (ts *Tasks) HasRoom(principal string) bool {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.hasRoom(principal, ts.max, ts.share)
}

// HasRoomToAdopt reports whether there is room for a task of another process.
func (ts *Tasks) HasRoomToAdopt() bool {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.hasRoom("", ts.mayAdopt(), 0)
}

// mayAdopt is how many tasks there may be with those of other processes, whose clients cannot go anywhere else. Nor does it count, for these, how many
// their principals have.
func (ts *Tasks) mayAdopt() int { return ts.max + ts.max/2 }

func (ts *Tasks) hasRoom(principal string, limit, share int) bool {
	return !ts.stopped && (limit <= 0 || len(ts.byID) < limit) && (share <= 0 || ts.held[principal] < share)
}

// add reports whether there is room for the task.
func (ts *Tasks) add(t *Task, limit, share int) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if !ts.hasRoom(t.principal, limit, share) || ts.byID[t.id] != nil {
		return false
	}
	ts.byID[t.id] = t
	ts.held[t.principal]++
	ts.count(standingNone, t.standing()) // before Stop can see it
	return true
}

// All returns the tasks that are kept.
func (ts *Tasks) All() []*Task {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return ts.all()
}

func (ts *Tasks) all() []*Task {
	all := make([]*Task, 0, len(ts.byID))
	for _, t := range ts.byID {
		all = append(all, t)
	}
	return all
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

// PrincipalOf returns the principal of the task with that id. Not ok: there is none.
func (ts *Tasks) PrincipalOf(id string) (principal string, ok bool) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	t := ts.byID[id]
	if t == nil {
		return "", false
	}
	return t.principal, true
}

// Count returns how many tasks run, how many have ended with something that was not fetched, and how many are kept altogether.
func (ts *Tasks) Count() (running, unfetched, kept int) {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	sum := ts.standings.Load()
	return int(sum / int64(standingRunning)), int(sum % int64(standingRunning)), len(ts.byID)
}

// Stop ends all tasks, because the server ends, and lets none start. What has ended can still be fetched; in a cluster from another process.
func (ts *Tasks) Stop() {
	ts.mu.Lock()
	ts.stopped = true
	all := ts.all()
	ts.mu.Unlock()
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

// count notes a change of how a task counts for a drain.
func (ts *Tasks) count(from, to standing) {
	if from == to {
		return
	}
	ts.standings.Add(int64(to - from))
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

// Watch makes the watcher collect the changes of a task, beginning with the present state, until Stop. It has no effect on a task that is not
// kept any more. To watch a task twice is to watch it once.
func (w *TaskWatcher) Watch(t *Task) {
	var p taskPass
	t.mu.Lock()
	if _, watched := t.watchers[w]; !watched && !t.dropped {
		if t.watchers == nil {
			t.watchers = map[*TaskWatcher]struct{}{}
		}
		t.watchers[w] = struct{}{}
		t.step(&core.TaskIn{Op: core.TaskListen}, nil, &p)
		w.note(t)
	}
	t.mu.Unlock()
	t.finish(&p)
}

// Stop ends a Watch. Next does not return the task any more.
func (w *TaskWatcher) Stop(t *Task) {
	var p taskPass
	t.mu.Lock()
	if _, watched := t.watchers[w]; watched {
		delete(t.watchers, w)
		t.step(&core.TaskIn{Op: core.TaskUnlisten}, nil, &p)
	}
	w.forget(t)
	t.mu.Unlock()
	t.finish(&p)
}

// forget takes a task off the list.
func (w *TaskWatcher) forget(t *Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listed[t] {
		delete(w.listed, t)
		w.changed = slices.DeleteFunc(w.changed, func(c *Task) bool { return c == t })
	}
}

// Again makes Next return a task once more.
func (w *TaskWatcher) Again(t *Task) { w.note(t) }

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

// Next returns a task that has changed since Next last returned it; nil: none has. A task may not be kept any more when Next returns it.
func (w *TaskWatcher) Next() *Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changed) == 0 {
		return nil
	}
	t := w.changed[0]
	w.changed[0] = nil // the array may stay for long
	w.changed = w.changed[1:]
	delete(w.listed, t)
	return t
}
