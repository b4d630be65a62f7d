package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Owner is what a session's engine needs to know of its session's record in the directory of a cluster.
type Owner struct {
	Key    string           // names the session in the store
	Fence  eventstore.Fence // of this process
	Record interface {
		// Restore writes the record again: the engine has lost it.
		Restore() error
		// Regain takes the session back, if the engine has forgotten that this process has adopted it. It returns nil if this process owns it.
		Regain() error
		// MarkLost says that the engine is still missing something of the session. The logs are restored again later.
		MarkLost()
		// End deletes the record and the logs. It may be called more than once.
		End() error
		// Release lets other processes adopt the session. If the engine has lost the record, it writes that again, and then calls refill to give the
		// store the logs. As long as the engine does not answer, it tries again. done is called at last, from any goroutine.
		Release(refill func() error, done func(error))
		// Forget says that another process owns the session.
		Forget()
	}
}

// outlives reports whether the session goes on in another process after it has ended in this one for that reason.
func (s *Session) outlives(why core.Reason) bool { return s.owner != nil && why == core.Shutdown }

// waitForAppends waits a little until no event is on its way to the store.
func (s *Session) waitForAppends() {
	for wait := minOutageWait / 10; s.isAppending() && wait < maxOutageWait; wait *= 2 {
		time.Sleep(wait)
	}
}

// isAppending reports whether an event is on its way to the store.
func (s *Session) isAppending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st != nil && st.appending {
			return true
		}
	}
	return false
}

// ClusterConfig is what sessions with an Owner need.
type ClusterConfig struct {
	Outage time.Duration      // how long an event waits for a store that does not answer
	Tail   *eventstore.Memory // keeps what this process has written
}

// ownLog is the log of a stream in the store that a cluster shares. What this process appends it also keeps in memory (the tail), as far as there is
// room. It reads from there, and gives a store that has lost data what it still has.
type ownLog struct {
	s    *Session
	st   *stream
	base eventstore.Log
	tail eventstore.Log
}

// Append appends to the store, and then to the tail.
func (l *ownLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	err := l.base.Append(ctx, first, events, seal)
	for range maxRestores {
		behind, ok := errors.AsType[*eventstore.BehindError](err)
		if !ok {
			break
		}
		if err = l.restore(behind.Last, first-1); errors.Is(err, errNotKept) {
			return behind
		}
		if err == nil {
			err = l.base.Append(ctx, first, events, seal)
		}
	}
	if err == nil {
		l.keep(first, events, seal)
	}
	return l.judge(err)
}

// judge returns the error as the engine is to take it. The store has proof that a log is gone that was not dropped here: another process has
// adopted the session, and ended it.
func (l *ownLog) judge(err error) error {
	if errors.Is(err, eventstore.ErrGone) && !l.s.isDropped(l.st) {
		return fmt.Errorf("%w: %w", eventstore.ErrFenced, err)
	}
	return err
}

// maxRestores is how often an append restores a store that loses data again and again.
const maxRestores = 3

// errNotKept says that the tail does not have what the store has lost.
var errNotKept = errors.New("this process does not have what the store has lost")

// keep appends to the tail. If the tail has no room for what it has already and the new events, it goes on with these. The tail needs no context:
// it never waits.
func (l *ownLog) keep(first uint64, events [][]byte, seal bool) {
	ctx := context.Background()
	if l.tail.Append(ctx, first, events, seal) == nil || len(events) == 0 {
		return
	}
	if l.tail.Restore(ctx, first, events, seal) != nil {
		_ = l.tail.Restore(ctx, first+uint64(len(events)), nil, false) // it has nothing, and knows where the log is
	}
}

// restore gives the store what it has lost, up to event last. It has the events up to stored; 0: perhaps it has lost the whole session. Its
// errors: errNotKept, and *eventstore.BehindError if the store has lost more meanwhile.
func (l *ownLog) restore(stored, last uint64) error {
	if stored == 0 {
		if err := l.s.owner.Record.Restore(); err != nil {
			return err
		}
	}
	events, state, err := readAll(l.tail)
	switch {
	case err != nil:
		return err
	case state.Last != last: // this process did not write it
		return errNotKept
	}
	return l.give(state, events, state.First > stored+1)
}

// refill gives the store again all that the tail has, because the store may have lost some of it.
func (l *ownLog) refill() error {
	events, state, err := readAll(l.tail)
	if err != nil {
		return err
	}
	if len(events) > 0 || state.Last == 0 {
		err = l.give(state, events, false)
		if _, behind := errors.AsType[*eventstore.BehindError](err); !behind {
			return l.judge(err)
		}
	}
	return l.judge(l.give(state, events, true))
}

// give gives the store the events of the tail, in parts that a store can take at once. anew: the log begins with them.
func (l *ownLog) give(state eventstore.State, events [][]byte, anew bool) error {
	for first := state.First; ; anew = false {
		n := fitting(events)
		part, seal := events[:n], state.Sealed && n == len(events)
		ctx, cancel := l.s.engine.deadline()
		var err error
		if anew {
			err = l.base.Restore(ctx, first, part, seal)
		} else {
			err = l.base.Append(ctx, first, part, seal)
		}
		cancel()
		first, events = first+uint64(n), events[n:] //nolint:gosec // not negative
		if err != nil || len(events) == 0 {
			return err
		}
	}
}

const (
	maxBatch      = 128     // events that a store is given at once
	maxBatchBytes = 1 << 20 // and their bytes, unless one event is larger
)

// fitting returns how many of the events a store is given at once.
func fitting(events [][]byte) int {
	size := 0
	for i, data := range events {
		if size += len(data); i == maxBatch || i > 0 && size > maxBatchBytes {
			return i
		}
	}
	return len(events)
}

// readAll reads what a log in memory has.
func readAll(log eventstore.Log) (events [][]byte, state eventstore.State, err error) {
	ctx := context.Background()
	var window [64]eventstore.Event
	_, state, err = log.Read(ctx, 0, nil, 0)
	for after := state.First - 1; err == nil && after < state.Last; {
		var n int
		n, _, err = log.Read(ctx, after, window[:], 0)
		if n == 0 {
			break
		}
		for _, e := range window[:n] {
			events = append(events, e.Data)
		}
		after = window[n-1].Seq
	}
	return events, state, err
}

// Read reads from the tail, and what the tail does not have from the store.
func (l *ownLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	n, state, err := l.tail.Read(ctx, after, buf, maxBytes)
	if err == nil && state.Last > 0 && (after >= state.Last || n > 0 && state.First <= after+1) {
		return n, state, nil
	}
	n, state, err = l.base.Read(ctx, after, buf, maxBytes)
	return n, state, l.judge(err)
}

// Restore is not used: restore does it.
func (l *ownLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	return l.base.Restore(ctx, first, events, seal)
}

func (l *ownLog) Mark(m eventstore.Mark) {
	l.tail.Mark(m)
	l.base.Mark(m)
}

func (l *ownLog) Drop(ctx context.Context) error {
	_ = l.tail.Drop(ctx) // it never waits
	return l.base.Drop(ctx)
}

// Short asks the store: a tail without room keeps less.
func (l *ownLog) Short() bool {
	limited, ok := l.base.(eventstore.Limited)
	return ok && limited.Short()
}
