package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// localLog is a log whose store has failed. The store has the events before the failure; the later events are kept here. They are written
// without ids, because another process could not find them, but they are numbered as usual. At a later event the store is tried again: it gets
// what it has missed, in order, and then that event. From then on the store has everything, and events have ids again. An event that was
// written without an id has its number as the id if it is read again. No number is ever given to two events.
type localLog struct {
	base eventstore.Log
	from uint64 // the first event that is kept here

	// Only the sender whose turn it is uses these.
	caught   uint64 // the last event that the store is known to have; 0: none of those that are kept here
	hopeless bool   // the store can never have all events: it has lost some from before
	timed    bool   // in a cluster: a timer is set to try the store again
	tryAt    time.Time
	wait     time.Duration

	mu     sync.Mutex
	tail   []eventstore.Event
	bytes  int
	sealed bool
	healed bool // the store has everything
}

const (
	// maxLocalBytes bounds what one stream keeps of what the store would not take.
	maxLocalBytes = 4 << 20
	// A store that failed is tried again at the next event, but not before twice the time that it took to fail, and later each time that it
	// fails again.
	minStoreWait = 100 * time.Millisecond
	maxStoreWait = 30 * time.Second
	// maxCatchUp bounds how long one event waits while the store gets what it has missed; the next event goes on with that.
	maxCatchUp = time.Second
)

func (l *localLog) Append(_ context.Context, first uint64, events [][]byte, seal bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := 0
	for _, data := range events {
		size += len(data)
	}
	if l.bytes+size > maxLocalBytes && !seal {
		return eventstore.ErrFull
	}
	for i, data := range events {
		l.tail = append(l.tail, eventstore.Event{Seq: first + uint64(i), Data: data})
	}
	l.bytes += size
	l.sealed = seal
	return nil
}

// Read reads from the store or from what is kept here, never from both. *eventstore.BehindError: the store has lost what comes next.
func (l *localLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	l.mu.Lock()
	state := eventstore.State{First: 1, Last: l.from - 1 + uint64(len(l.tail)), Sealed: l.sealed}
	tail, healed := l.tail, l.healed
	l.mu.Unlock()
	switch {
	case healed:
		return l.base.Read(ctx, after, buf, maxBytes)
	case after+1 >= l.from:
		return upTo(maxBytes, buf[:copy(buf, tail[min(after+1-l.from, uint64(len(tail))):])]), state, nil
	}
	buf = buf[:min(uint64(len(buf)), l.from-1-after)]
	n, base, err := l.base.Read(ctx, after, buf, maxBytes)
	if err != nil {
		return 0, state, err
	}
	if n == 0 && base.Last < l.from-1 {
		return 0, state, &eventstore.BehindError{Last: base.Last}
	}
	state.First = base.First
	return n, state, nil
}

// upTo returns how many of the events a Read may return that is bounded by maxBytes.
func upTo(maxBytes int, events []eventstore.Event) int {
	size := 0
	for i, e := range events {
		if size += len(e.Data); maxBytes > 0 && size > maxBytes && i > 0 {
			return i
		}
	}
	return len(events)
}

// Restore is the store's: what is kept here is not lost.
func (l *localLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	return l.base.Restore(ctx, first, events, seal)
}

func (l *localLog) Mark(m eventstore.Mark)         { l.base.Mark(m) }
func (l *localLog) Drop(ctx context.Context) error { return l.base.Drop(ctx) }

// names reports whether an event has an id now.
func (l *localLog) names(seq uint64) bool {
	if l == nil || seq < l.from {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.healed
}

// due reports whether the store is worth another try.
func (l *localLog) due() bool { return !l.hopeless && !time.Now().Before(l.tryAt) }

// failed notes a failure that took so long.
func (l *localLog) failed(err error, took time.Duration) {
	if behind, ok := errors.AsType[*eventstore.BehindError](err); ok {
		l.caught = behind.Last
		l.hopeless = behind.Last+1 < l.from
	}
	for _, final := range []error{eventstore.ErrGone, eventstore.ErrSequence, eventstore.ErrSealed, eventstore.ErrClosed} {
		l.hopeless = l.hopeless || errors.Is(err, final)
	}
	now := max(l.wait, 2*took)
	l.tryAt = time.Now().Add(now)
	l.wait = min(max(2*now, minStoreWait), maxStoreWait)
}

// missing are the events that the store is not known to have, and whether the log is sealed.
func (l *localLog) missing() (events []eventstore.Event, sealed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.caught < l.from {
		return l.tail, l.sealed
	}
	return l.tail[l.caught+1-l.from:], l.sealed
}

// heal notes that the store has everything.
func (l *localLog) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healed, l.tail, l.bytes = true, nil, 0
}
