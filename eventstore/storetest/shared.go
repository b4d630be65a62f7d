package storetest

import (
	"runtime"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

func sharedIsTold(e *exam) {
	if got := e.store.Shared(); got != e.Shared {
		e.Fatalf("Shared() is %v, Features.Shared is %v", got, e.Shared)
	}
}

func elsewhere(e *exam) {
	there := e.Again(e.TB)
	defer e.close(there)
	key := eventstore.Key{Session: "s", Stream: "a", Epoch: 1}
	mine, theirs := e.store.Log(key), there.Log(key)
	wake := make(chan struct{}, 1)
	stop := theirs.Watch(wake)
	defer stop()

	e.append(mine, "a", 1, 3, false)
	// Hints may be lost, so a reader looks by itself; whether one comes or not, a read finds what was appended.
	for e.state(theirs).Last < 3 {
		select {
		case <-wake:
		default:
		}
		runtime.Gosched()
	}
	e.holds(theirs, "a", 1, 3, false, "through another process")
	e.append(theirs, "a", 3, 3, false)
	e.append(theirs, "a", 4, 5, true)
	e.holds(mine, "a", 1, 5, true, "what another process appended")
	e.wantError(mine.Append(e.ctx, 6, text("a", 6), false), eventstore.ErrSealed, "append to what another process sealed")
	stop()
	stop()

	e.nilError(theirs.Drop(e.ctx), "drop through another process")
	e.gone(mine, 6, "after another process dropped the log")
	b := e.store.Log(eventstore.Key{Session: "s", Stream: "b", Epoch: 1})
	e.append(b, "b", 1, 2, false)
	e.nilError(there.DropSession(e.ctx, "s"), "drop a session through another process")
	e.gone(b, 3, "after another process dropped the session")
}

func fence(e *exam) {
	there := e.Again(e.TB)
	defer e.close(there)
	old := e.store.Log(eventstore.Key{Session: "s", Stream: "a", Epoch: 1})
	e.append(old, "a", 1, 2, false)
	owner := there.Log(eventstore.Key{Session: "s", Stream: "a", Epoch: 2})
	e.append(owner, "a", 3, 3, false)
	for _, seal := range []bool{false, true} {
		err := old.Append(e.ctx, 4, text("a", 4), seal)
		e.wantError(err, eventstore.ErrFenced, "append with an epoch that is over, seal %v", seal)
	}
	second := e.store.Log(eventstore.Key{Session: "s", Stream: "b", Epoch: 1})
	e.wantError(second.Append(e.ctx, 1, text("b", 1), false), eventstore.ErrFenced, "begin a log with an epoch that is over")
	other := e.store.Log(eventstore.Key{Session: "s2", Stream: "a", Epoch: 1})
	e.append(other, "s2", 1, 1, false)

	e.append(owner, "a", 4, 4, true)
	e.holds(old, "a", 1, 4, true, "who lost the session may still read")
}
