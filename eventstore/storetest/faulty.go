package storetest

import (
	"context"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Faulty returns a store around s whose operations fail, block or are slow as script says.
//
// script is called before each operation, with the name of the operation ("append", "read", "restore", "drop" or "dropsession") and its number:
// the store's first operation of that name is 1. If script returns an error, the operation returns that error and does nothing. If
// script returns nil, s performs the operation. A nil script lets everything pass.
//
// script may block or sleep for any time. If the operation's context ends meanwhile, the operation returns the context's error and
// does nothing, while script still runs. For that script runs in a goroutine of its own whenever the context can end. So it must be
// safe for concurrent use, must not call t.FailNow, and must return before the test ends (inside a synctest bubble, before the bubble
// ends). If the context had ended before the call, script is not called, but the operation is counted.
//
// Mark and Close go straight to s. The store is a Wrapper around s, and not Instant: its operations may wait.
func Faulty(s eventstore.Store, script func(op string, n int) error) eventstore.Store {
	return &faulty{Store: s, script: script}
}

type faulty struct {
	eventstore.Store
	script                                        func(op string, n int) error
	appends, reads, restores, drops, sessionDrops atomic.Int64
}

var _ eventstore.Wrapper = (*faulty)(nil)

func (f *faulty) ask(ctx context.Context, op string, count *atomic.Int64) error {
	n := int(count.Add(1))
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.script == nil {
		return nil
	}
	if ctx.Done() == nil {
		return f.script(op, n)
	}
	answer := make(chan error, 1) // buffered: the receiver may have left
	go func() { answer <- f.script(op, n) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *faulty) Log(k eventstore.Key) eventstore.Log {
	return &faultyLog{Log: f.Store.Log(k), store: f}
}

func (f *faulty) DropSession(ctx context.Context, session string) error {
	if err := f.ask(ctx, "dropsession", &f.sessionDrops); err != nil {
		return err
	}
	return f.Store.DropSession(ctx, session)
}

func (f *faulty) Unwrap() eventstore.Store { return f.Store }

type faultyLog struct {
	eventstore.Log
	store *faulty
}

func (l *faultyLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if err := l.store.ask(ctx, "append", &l.store.appends); err != nil {
		return err
	}
	return l.Log.Append(ctx, first, events, seal)
}

func (l *faultyLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	if err := l.store.ask(ctx, "read", &l.store.reads); err != nil {
		return 0, eventstore.State{}, err
	}
	return l.Log.Read(ctx, after, buf, maxBytes)
}

func (l *faultyLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if err := l.store.ask(ctx, "restore", &l.store.restores); err != nil {
		return err
	}
	return l.Log.Restore(ctx, first, events, seal)
}

func (l *faultyLog) Drop(ctx context.Context) error {
	if err := l.store.ask(ctx, "drop", &l.store.drops); err != nil {
		return err
	}
	return l.Log.Drop(ctx)
}
