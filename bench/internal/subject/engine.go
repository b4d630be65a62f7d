package subject

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Engine counts the calls of the engine that a subject in a cluster makes. A subject that is in no cluster makes none.
type Engine struct{ calls, appends atomic.Int64 }

// Calls returns how many calls the engine has got, without those for the lease, which come with time and not with requests; and how many of
// them have appended to a log.
func (e *Engine) Calls() (all, appends int64) { return e.calls.Load(), e.appends.Load() }

// engine is a cluster's engine in memory. It counts its calls, and each takes some time. It is Instant unless it is remote.
type engine struct {
	*cluster.Memory
	*Engine

	remote bool
	wait   time.Duration
}

func (e *engine) Instant() bool { return !e.remote }

// call counts a call, and waits.
func (e *engine) call() {
	e.calls.Add(1)
	if e.wait > 0 {
		time.Sleep(e.wait)
	}
}

func (e *engine) Put(ctx context.Context, r *cluster.Record, ttl time.Duration) error {
	e.call()
	return e.Memory.Put(ctx, r, ttl)
}

func (e *engine) Find(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	e.call()
	return e.Memory.Find(ctx, session, by)
}

func (e *engine) Adopt(ctx context.Context, session string, from eventstore.Fence, to cluster.Member, ttl time.Duration) (*cluster.Record, []cluster.Stream, error) {
	e.call()
	return e.Memory.Adopt(ctx, session, from, to, ttl)
}

func (e *engine) Save(ctx context.Context, session string, fence eventstore.Fence, version uint64, state []byte) error {
	e.call()
	return e.Memory.Save(ctx, session, fence, version, state)
}

func (e *engine) Release(ctx context.Context, session string, fence eventstore.Fence) error {
	e.call()
	return e.Memory.Release(ctx, session, fence)
}

func (e *engine) End(ctx context.Context, session string, fence eventstore.Fence) error {
	e.call()
	return e.Memory.End(ctx, session, fence)
}

func (e *engine) DropSession(ctx context.Context, session string) error {
	e.call()
	return e.Memory.DropSession(ctx, session)
}

func (e *engine) Log(k eventstore.Key) eventstore.Log { return &engineLog{e.Memory.Log(k), e} }

// engineLog is a log of an engine. Mark does not count as a call.
type engineLog struct {
	eventstore.Log

	engine *engine
}

func (l *engineLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	l.engine.appends.Add(1)
	l.engine.call()
	return l.Log.Append(ctx, first, events, seal)
}

func (l *engineLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	l.engine.call()
	return l.Log.Restore(ctx, first, events, seal)
}

func (l *engineLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	l.engine.call()
	return l.Log.Read(ctx, after, buf, maxBytes)
}

func (l *engineLog) Drop(ctx context.Context) error {
	l.engine.call()
	return l.Log.Drop(ctx)
}

// Short does not count either.
func (l *engineLog) Short() bool {
	limited, ok := l.Log.(eventstore.Limited)
	return ok && limited.Short()
}
