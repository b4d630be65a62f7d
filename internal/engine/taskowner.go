package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// In a cluster a task has a record in the directory, as a session has. When it has ended, a log gets how: the first event is a taskEnding, the second
// the response, if there is one. Until the store has it, clients see a task that works: so what they have seen does not change if the owner dies. After an
// outage of ClusterConfig.Outage they see the end all the same. A process that takes the task over reads the log. If there is none, the call was lost with
// its owner.

// ownedTask is what a task of a cluster has in addition. Guarded by the task's mutex, but for owner.
type ownedTask struct {
	owner    *Owner
	settled  chan struct{} // closed when clients may see the end; nil: the task has not ended
	failed   bool          // the store has failed to take the end
	hidden   bool          // a client was shown a task that works, although it had ended
	stored   bool          // the store has the end
	writing  bool          // settle runs
	stopping bool          // the task is to be released when the store has the end
	parting  parting
	released [][]byte // the end as known had it when the task was released
}

// parting says how a process lets a task go.
type parting uint8

const (
	dropsTask    parting = iota // nothing of it is kept
	releasesTask                // other processes may take it over
	losesTask                   // another process has taken it over
)

// taskEnding is the first event of a task's log.
type taskEnding struct {
	Status   core.TaskStatus `json:"status"`
	Message  string          `json:"message,omitempty"`
	Replaced bool            `json:"replaced,omitempty"`
	Updated  time.Time       `json:"updated"`
	Ended    time.Time       `json:"ended"`
}

// Owner is what the task has in the directory; nil: outside a cluster.
func (t *Task) Owner() *Owner {
	if t.owned == nil {
		return nil
	}
	return t.owned.owner
}

// endOwned is End in a cluster. The task ends first, and then the store gets it, so that both always say the same.
func (t *Task) endOwned(status core.TaskStatus, message string, response []byte) {
	var p taskPass
	t.mu.Lock()
	if !t.dropped && !t.m.Status().Final() {
		t.response = response
	}
	t.step(&core.TaskIn{Op: core.TaskEnd, Status: status, Message: message}, nil, &p)
	t.orphan(core.Ended, &p) // the call has asked and not waited
	t.mu.Unlock()
	t.finish(&p)
}

// settle gives the store the end of the task.
func (t *Task) settle() {
	events, ok := t.ending()
	if !ok {
		return
	}
	err := t.writeEnd(events)
	log := t.logOf()
	if errors.Is(err, eventstore.ErrSequence) { // it has another end: that of a result that was lost since
		err = nil
	}
	t.mu.Lock()
	o, before := t.owned, t.standing()
	o.writing = false
	if err == nil && !t.dropped {
		o.stored = true
		// An error in place of a result stays here: the store may have refused it, and have the result again.
		if at, _ := t.m.Ending(); len(events) > 1 && log != nil && !at.Replaced {
			t.log, t.response = log, nil
		}
	}
	patience := t.tasks.engine.cfg.Cluster.Outage
	switch {
	case err == nil || patience <= 0:
		t.reveal()
	case !o.failed:
		o.failed = true
		time.AfterFunc(patience, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.reveal()
		})
	}
	stopping := o.stopping
	t.tasks.count(before, t.standing())
	t.mu.Unlock()
	t.tasks.engine.Notify() // a drain may release it now
	switch {
	case errors.Is(err, eventstore.ErrFenced), errors.Is(err, eventstore.ErrGone):
		t.Move()
	case err != nil:
		t.storeFailed(err)
		o.owner.Record.MarkLost() // which leads to Restore
	case stopping:
		t.HandOver()
	}
}

// reveal lets clients see how the task has ended. Under the lock.
func (t *Task) reveal() {
	select {
	case <-t.owned.settled:
		return
	default:
	}
	close(t.owned.settled)
	if t.owned.hidden {
		for w := range t.watchers {
			w.note(t)
		}
	}
}

// ending returns the events for the store. Not ok: there is nothing to do.
func (t *Task) ending() (events [][]byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owned.stored || t.owned.writing {
		return nil, false
	}
	events = t.known()
	t.owned.writing = events != nil
	return events, t.owned.writing
}

// known returns the events for the store as far as this process has them without a log. Nil: the task has not ended, or its response is in a log only.
// Under the lock.
func (t *Task) known() [][]byte {
	at, ended := t.m.Ending()
	if !ended || t.response == nil && at.Status != core.TaskCancelled {
		return nil
	}
	first, err := json.Marshal(taskEnding(at))
	switch {
	case err != nil: // not reached
		return nil
	case t.response == nil:
		return [][]byte{first}
	}
	return [][]byte{first, t.response}
}

// writeEnd gives the store the events, and the record before, if the engine has lost that.
func (t *Task) writeEnd(events [][]byte) error {
	ctx := context.Background()
	if tail := t.tail(); tail.Restore(ctx, 1, events, true) != nil { // it has no room, or the task is being restored
		_ = tail.Drop(ctx)
	}
	record := t.owned.owner.Record
	for tries := 0; ; tries++ {
		err := t.giveEnd(events)
		_, behind := errors.AsType[*eventstore.BehindError](err)
		switch {
		case tries == maxRestores:
			return err
		case behind:
			err = record.Restore()
		case errors.Is(err, eventstore.ErrFenced):
			if record.Regain() != nil {
				return err
			}
			err = nil
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// giveEnd calls the store. If it panics it has failed.
func (t *Task) giveEnd(events [][]byte) (err error) {
	log := t.logOf()
	if log == nil {
		return errStorePanic
	}
	ctx, cancel := t.tasks.engine.deadline()
	defer cancel()
	defer t.recovered("eventstore.Log.Restore", func() { err = errStorePanic })
	if n := fitting(events); n < len(events) {
		if err = log.Restore(ctx, 1, events[:n], false); err == nil {
			err = log.Append(ctx, uint64(n)+1, events[n:], true) //nolint:gosec // not negative
		}
		return err
	}
	return log.Restore(ctx, 1, events, true)
}

// tail is the log in which this process keeps the end in addition to the store.
func (t *Task) tail() eventstore.Log { return t.tasks.engine.cfg.Cluster.Tail.Log(t.key()) }

// awaitSettled waits a little until clients may see the end of a task that has ended.
func (t *Task) awaitSettled() {
	if t.owned == nil {
		return
	}
	t.mu.Lock()
	settled := t.owned.settled
	t.mu.Unlock()
	if settled == nil {
		return
	}
	select {
	case <-settled:
		return
	default:
	}
	timer := time.NewTimer(settlePatience)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	}
}

// settlePatience is how long a client that asks waits for the store.
const settlePatience = time.Second

// hides reports whether clients must not see the end of the task yet. Under the lock.
func (t *Task) hides() bool {
	if t.owned == nil || t.owned.settled == nil || t.dropped {
		return false
	}
	select {
	case <-t.owned.settled:
		return false
	default:
		return true
	}
}

// loadOwned is load in a cluster.
func (t *Task) loadOwned() (response []byte, lost core.Reason, err error) {
	var events [1]eventstore.Event
	if n, _, err := t.tail().Read(context.Background(), 1, events[:], 0); err == nil && n == 1 {
		return events[0].Data, core.NoReason, nil
	}
	log := t.logOf()
	if log == nil {
		return nil, core.NoReason, errStorePanic
	}
	ctx, cancel := t.tasks.engine.deadline()
	defer cancel()
	defer t.recovered("eventstore.Log.Read", func() { err = errStorePanic })
	n, state, err := log.Read(ctx, 1, events[:], maxReadBytes)
	switch {
	case err == nil && n == 1:
		return events[0].Data, core.NoReason, nil
	case err == nil && state.First > 2: // it has made room for others
		return nil, core.Expired, nil
	case err == nil, isLoss(err):
		return nil, core.StoreFailed, nil
	}
	t.storeFailed(err)
	return nil, core.NoReason, err
}

// Restore gives the engine what it is missing of the task. lost: it may have lost what it had. What fails is tried again.
func (t *Task) Restore(lost bool) {
	t.mu.Lock()
	stored := t.owned.stored
	t.mu.Unlock()
	if stored && lost && t.refill() != nil {
		t.owned.owner.Record.MarkLost()
	}
	if !stored {
		t.settle()
	}
}

// refill gives the store the end as this process still has it.
func (t *Task) refill() error {
	events, state, err := readAll(t.tail())
	if err != nil || state.First > 1 || len(events) == 0 { // it had no room
		t.mu.Lock()
		if events = t.known(); events == nil {
			events = t.owned.released
		}
		t.mu.Unlock()
	}
	if len(events) == 0 {
		return nil // this process does not have it any more
	}
	if err = t.giveEnd(events); errors.Is(err, eventstore.ErrSequence) { // the store has not lost it
		return nil
	}
	return err
}

// HandOver releases a task that has ended, and reports whether it is not kept any more.
func (t *Task) HandOver() (done bool) {
	var p taskPass
	t.mu.Lock()
	if t.owned.stored && !t.dropped {
		t.owned.parting, t.owned.released = releasesTask, t.known()
		t.step(&core.TaskIn{Op: core.TaskMove}, nil, &p)
	}
	done = t.dropped
	t.mu.Unlock()
	t.finish(&p)
	return done
}

// Move ends the task in this process: another one has it.
func (t *Task) Move() {
	var p taskPass
	t.mu.Lock()
	if !t.dropped {
		t.owned.parting = losesTask
		t.step(&core.TaskIn{Op: core.TaskMove}, nil, &p)
	}
	t.mu.Unlock()
	t.finish(&p)
}

// part lets the task go. The host knows before the task cannot be found any more, and it cannot be found any more before the directory is told, which may
// take long: a request that found it would look again and again.
func (t *Task) part() {
	if t.owned.parting != losesTask {
		t.host.Parted(t, t.owned.parting == dropsTask)
	}
	t.tasks.remove(t)
	record := t.owned.owner.Record
	drop := func(error) {
		_ = t.tasks.engine.cfg.Cluster.Tail.DropSession(context.Background(), t.owned.owner.Key) // it never waits
	}
	switch t.owned.parting {
	case dropsTask:
		drop(nil)
		t.tasks.engine.aside(func() {
			if record.End() != nil {
				t.tasks.engine.Counters.StoreFailed.Add(1)
			}
		})
	case releasesTask:
		t.tasks.engine.aside(func() { record.Release(t.refill, drop) })
	case losesTask:
		record.Forget()
		drop(nil)
	}
}
