package engine

import (
	"context"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// lateLog is the log of a store whose Log has panicked. It is asked for again at each append.
type lateLog struct {
	store eventstore.Store
	key   eventstore.Key
	log   eventstore.Log // nil: the store has not given one yet
}

func (l *lateLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	return l.found().Append(ctx, first, events, seal)
}

func (l *lateLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	return l.found().Restore(ctx, first, events, seal)
}

// found asks the store for the log if it has not given one yet. It may panic again: the caller catches that.
func (l *lateLog) found() eventstore.Log {
	if l.log == nil {
		l.log = l.store.Log(l.key)
	}
	return l.log
}

// Read is not called before there is a log: until then localLog has all events.
func (l *lateLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	return l.log.Read(ctx, after, buf, maxBytes)
}

func (l *lateLog) Mark(m eventstore.Mark) {
	if l.log != nil {
		l.log.Mark(m)
	}
}

func (l *lateLog) Drop(ctx context.Context) error {
	if l.log == nil {
		return nil
	}
	return l.log.Drop(ctx)
}
