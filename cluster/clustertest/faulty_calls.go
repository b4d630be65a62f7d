package clustertest

import (
	"context"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// run is call for an operation that returns only an error.
func (f *Faulty) run(ctx context.Context, c Call, do func(ctx context.Context) error) error {
	_, err := call(f, ctx, c, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// Join implements cluster.Directory.
func (f *Faulty) Join(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.Member, error) {
	var refused error // of the engine: what stands there comes with it
	joined, err := call(f, ctx, Call{Op: "join"}, func(ctx context.Context) (joined cluster.Member, _ error) {
		joined, refused = f.directory.Join(ctx, m, lease)
		return joined, nil
	})
	if err != nil {
		return joined, err
	}
	return joined, refused
}

// Renew implements cluster.Directory.
func (f *Faulty) Renew(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.View, error) {
	return call(f, ctx, Call{Op: "renew"}, func(ctx context.Context) (cluster.View, error) { return f.directory.Renew(ctx, m, lease) })
}

// Leave implements cluster.Directory.
func (f *Faulty) Leave(ctx context.Context, m cluster.Member) error {
	return f.run(ctx, Call{Op: "leave"}, func(ctx context.Context) error { return f.directory.Leave(ctx, m) })
}

// Put implements cluster.Directory.
func (f *Faulty) Put(ctx context.Context, r *cluster.Record, ttl time.Duration) error {
	return f.run(ctx, Call{Op: "put", Session: r.Session}, func(ctx context.Context) error { return f.directory.Put(ctx, r, ttl) })
}

// Find implements cluster.Directory.
func (f *Faulty) Find(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	var refused error // of the engine: what was found counts with it
	found, err := call(f, ctx, Call{Op: "find", Session: session}, func(ctx context.Context) (found cluster.Found, _ error) {
		found, refused = f.directory.Find(ctx, session, by)
		return found, nil
	})
	if err != nil {
		return found, err
	}
	return found, refused
}

// Adopt implements cluster.Directory.
func (f *Faulty) Adopt(
	ctx context.Context, session string, from eventstore.Fence, to cluster.Member, ttl time.Duration,
) (r *cluster.Record, streams []cluster.Stream, err error) {
	type adopted struct {
		r       *cluster.Record
		streams []cluster.Stream
	}
	a, err := call(f, ctx, Call{Op: "adopt", Session: session}, func(ctx context.Context) (adopted, error) {
		r, streams, err := f.directory.Adopt(ctx, session, from, to, ttl)
		return adopted{r, streams}, err
	})
	return a.r, a.streams, err
}

// Save implements cluster.Directory.
func (f *Faulty) Save(ctx context.Context, session string, fence eventstore.Fence, version uint64, state []byte) error {
	return f.run(ctx, Call{Op: "save", Session: session}, func(ctx context.Context) error {
		return f.directory.Save(ctx, session, fence, version, state)
	})
}

// Touch implements cluster.Directory.
func (f *Faulty) Touch(ctx context.Context, held []cluster.Held, ttl time.Duration) ([]cluster.Held, error) {
	mine := append([]cluster.Held(nil), held...) // a late call comes when the slice is the caller's again
	return call(f, ctx, Call{Op: "touch"}, func(ctx context.Context) ([]cluster.Held, error) { return f.directory.Touch(ctx, mine, ttl) })
}

// Release implements cluster.Directory.
func (f *Faulty) Release(ctx context.Context, session string, fence eventstore.Fence) error {
	return f.run(ctx, Call{Op: "release", Session: session}, func(ctx context.Context) error { return f.directory.Release(ctx, session, fence) })
}

// End implements cluster.Directory.
func (f *Faulty) End(ctx context.Context, session string, fence eventstore.Fence) error {
	return f.run(ctx, Call{Op: "end", Session: session}, func(ctx context.Context) error { return f.directory.End(ctx, session, fence) })
}

// Log implements eventstore.Store.
func (f *Faulty) Log(k eventstore.Key) eventstore.Log {
	return &faultyLog{Log: f.store.Log(k), faulty: f, session: k.Session, stream: k.Stream}
}

// DropSession implements eventstore.Store.
func (f *Faulty) DropSession(ctx context.Context, session string) error {
	return f.run(ctx, Call{Op: "dropsession", Session: session}, func(ctx context.Context) error { return f.store.DropSession(ctx, session) })
}

type faultyLog struct {
	eventstore.Log
	faulty          *Faulty
	session, stream string
}

var _ eventstore.Limited = (*faultyLog)(nil)

func (l *faultyLog) call(op string, events int) Call {
	return Call{Op: op, Session: l.session, Stream: l.stream, Events: events}
}

func (l *faultyLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	mine := append([][]byte(nil), events...) // a late call comes when the slice is the caller's again
	return l.faulty.run(ctx, l.call("append", len(events)), func(ctx context.Context) error { return l.Log.Append(ctx, first, mine, seal) })
}

func (l *faultyLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	mine := append([][]byte(nil), events...)
	return l.faulty.run(ctx, l.call("restore", len(events)), func(ctx context.Context) error { return l.Log.Restore(ctx, first, mine, seal) })
}

func (l *faultyLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	type read struct {
		events []eventstore.Event
		st     eventstore.State
	}
	r, err := call(l.faulty, ctx, l.call("read", 0), func(ctx context.Context) (read, error) {
		events := make([]eventstore.Event, len(buf)) // a late call must not write to the caller's
		n, st, err := l.Log.Read(ctx, after, events, maxBytes)
		return read{events[:n], st}, err
	})
	return copy(buf, r.events), r.st, err
}

func (l *faultyLog) Drop(ctx context.Context) error {
	return l.faulty.run(ctx, l.call("drop", 0), l.Log.Drop)
}

// Mark does not count as a call.
func (l *faultyLog) Mark(m eventstore.Mark) {
	if link, _ := l.faulty.now(); link == Up {
		l.Log.Mark(m)
	}
}

// Short implements eventstore.Limited. It does not count either.
func (l *faultyLog) Short() bool {
	limited, ok := l.Log.(eventstore.Limited)
	return ok && limited.Short()
}
