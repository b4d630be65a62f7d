package engine

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// AdoptedTask is a task as the directory of a cluster has it, whose last owner is lost.
type AdoptedTask struct {
	ID, Principal string
	Created       time.Time
	Config        core.TaskConfig
	Owner         *Owner
	Streams       []AdoptedStream
}

// Adopt makes a task that another process had: as it has ended there, or else failed with core.OwnerLost. It returns ErrNoRoom if the limit is reached
// or Stop was called, and the store's error if the store does not answer.
func (ts *Tasks) Adopt(host TaskHost, from *AdoptedTask) (*Task, error) {
	t := &Task{tasks: ts, host: host, id: from.ID, principal: from.Principal, owned: &ownedTask{owner: from.Owner}}
	at, last, err := t.readEnd(from.Streams)
	if err != nil {
		return nil, err
	}
	if at == nil {
		t.m = core.NewTask(from.Config, from.Created)
		t.m.Step(time.Now(), &core.TaskIn{Op: core.TaskOrphan}, nil)
		t.response, t.owned.settled = host.Failure(core.OwnerLost), make(chan struct{})
	} else {
		t.m = core.RestoreTask(from.Config, from.Created, core.TaskEnding(*at))
		t.owned.stored, t.owned.settled = true, closed
		if last > 1 {
			t.log = t.logOf()
		}
	}
	if !ts.add(t, ts.mayAdopt(), 0) {
		return nil, ErrNoRoom
	}
	t.tick()
	if at == nil {
		t.settle()
	}
	return t, nil
}

// ErrNoRoom says that no task can be adopted now.
var ErrNoRoom = errors.New("there is no room for the task")

// closed is a channel that is closed.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// readEnd reads how the task has ended, and the number of the last event. Nil: it has not.
func (t *Task) readEnd(streams []AdoptedStream) (at *taskEnding, last uint64, err error) {
	for i := range streams {
		if s := &streams[i]; s.Name != taskStream || !s.Sealed {
			continue
		}
		var events [1]eventstore.Event
		n, state, err := t.readFirst(events[:])
		at = &taskEnding{Status: core.TaskFailed, Replaced: true, Ended: time.Now()} // of an end that the store has removed to make room
		switch {
		case err != nil:
			return nil, 0, err
		case n == 1 && events[0].Seq == 1 && json.Unmarshal(events[0].Data, at) == nil:
			return at, state.Last, nil
		}
		t.response = t.host.Failure(core.Expired)
		return at, 0, nil
	}
	return nil, 0, nil
}

func (t *Task) readFirst(buf []eventstore.Event) (n int, state eventstore.State, err error) {
	log := t.logOf()
	if log == nil {
		return 0, state, errStorePanic
	}
	ctx, cancel := t.tasks.engine.deadline()
	defer cancel()
	defer t.recovered("eventstore.Log.Read", func() { err = errStorePanic })
	return log.Read(ctx, 0, buf, maxReadBytes)
}
