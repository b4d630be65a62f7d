package engine

import (
	"errors"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/safe"
)

// This file has the calls of the event store for tasks. A task has a log from the end of its call, with one event: the response. No call is made
// under the lock, and each catches a panic.

// key names the log of a task. Its name is the id, which no session has.
func (t *Task) key() eventstore.Key {
	if t.owned != nil { // the engine must not learn who the task belongs to
		return eventstore.Key{Session: t.owned.owner.Key, Stream: taskStream, Fence: t.owned.owner.Fence}
	}
	return eventstore.Key{Session: t.id, Stream: taskStream, Principal: t.principal}
}

const taskStream = "task"

// logOf asks the store for the log; nil: it has panicked.
func (t *Task) logOf() (log eventstore.Log) {
	defer t.recovered("eventstore.Store.Log", func() { log = nil })
	return t.tasks.engine.cfg.Store.Log(t.key())
}

// record gives the response to the store. If it is not kept, the task must keep it itself, and the store may have it all the same, unless log is
// nil.
func (t *Task) record(response []byte) (log eventstore.Log, kept bool) {
	if log = t.logOf(); log == nil {
		return nil, false
	}
	ctx, cancel := t.tasks.engine.deadline()
	defer cancel()
	defer t.recovered("eventstore.Log.Append", func() { kept = false })
	err := log.Append(ctx, 1, [][]byte{response}, true)
	if err != nil {
		t.storeFailed(err)
	}
	return log, err == nil
}

// load returns the response, or why the store will never return it, or an error if it may do so later.
func (t *Task) load(log eventstore.Log) (response []byte, lost core.Reason, err error) {
	if t.owned != nil {
		return t.loadOwned()
	}
	ctx, cancel := t.tasks.engine.deadline()
	defer cancel()
	defer t.recovered("eventstore.Log.Read", func() { err = errStorePanic })
	var events [1]eventstore.Event
	n, state, err := log.Read(ctx, 0, events[:], maxReadBytes)
	switch {
	case err == nil && n == 1:
		return events[0].Data, core.NoReason, nil
	case err == nil && state.First > 1: // it has made room for others
		return nil, core.Expired, nil
	case err == nil, isLoss(err):
		return nil, core.StoreFailed, nil
	}
	t.storeFailed(err)
	return nil, core.NoReason, err
}

// mark tells the store that the response may go when it needs room.
func (t *Task) mark(log eventstore.Log) {
	defer t.recovered("eventstore.Log.Mark", func() {})
	if t.owned != nil {
		t.tail().Mark(eventstore.Mark{Written: 2, Acked: 2})
		log.Mark(eventstore.Mark{Written: 2})
		return
	}
	log.Mark(eventstore.Mark{Written: 1})
}

// dropLog forgets the response.
func (t *Task) dropLog() {
	ctx, cancel := t.tasks.engine.deadline()
	defer cancel()
	defer t.recovered("eventstore.Store.DropSession", func() { t.tasks.engine.Counters.StoreFailed.Add(1) })
	if err := t.tasks.engine.cfg.Store.DropSession(ctx, t.id); err != nil {
		t.tasks.engine.Counters.StoreFailed.Add(1)
	}
}

func (t *Task) storeFailed(err error) {
	if !errors.Is(err, eventstore.ErrFull) {
		t.tasks.engine.Counters.StoreFailed.Add(1)
		t.host.Report(Event{Kind: StoreFailed, Err: err})
	}
}

// recovered is deferred around code that is not ours.
func (t *Task) recovered(where string, then func()) {
	if v := recover(); v != nil {
		t.host.Report(Event{Kind: Panicked, Where: where, Value: v, Stack: safe.Stack()})
		then()
	}
}
