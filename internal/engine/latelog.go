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

func (l *lateLog) Append(ctx context.Context, seq uint64, data []byte, seal bool) error {
	if l.log == nil {
		l.log = l.store.Log(l.key) // it may panic again: appendTo catches that
	}
	return l.log.Append(ctx, seq, data, seal)
}

// Read is not called before there is a log: until then localLog has all events.
func (l *lateLog) Read(ctx context.Context, after uint64, buf []eventstore.Event) (int, eventstore.State, error) {
	return l.log.Read(ctx, after, buf)
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
