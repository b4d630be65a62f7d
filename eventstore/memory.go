package eventstore

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
)

// MemoryConfig bounds a memory store. Zero means the default, negative means no bound. Overhead counts: the charge is about what
// the heap holds. An event is charged its capacity, because that is what stays in memory.
type MemoryConfig struct {
	SessionBytes int64 // of one session. Defaults to 4 MiB.
	TotalBytes   int64 // of all sessions. Defaults to 256 MiB.
	BacklogBytes int64 // of the events of one backlog log. Defaults to 256 KiB.
}

// Memory keeps logs in this process. It starts no goroutine and no timer. Every operation takes constant time, amortised, also at
// the limits, and however many sessions and logs there are. Only DropSession takes time in proportion to the session's logs.
//
// An Append that would exceed a limit first makes room, in its session or in the whole store. The store evicts in this order:
//
//  1. events that a client has acknowledged (Mark.Acked), of any log;
//  2. whole sealed logs that were written out (Mark.Written);
//  3. the oldest events of backlogs, read or not;
//  4. whole sealed logs that were not written out.
//
// Within each of these the log goes first that was first acknowledged, written out, given an event as a backlog, or sealed. Several
// backlogs lose one event each, in turn. Nothing is evicted before there is need, or for an Append that would be refused even then.
// Unacknowledged events of a running log (not sealed, not a backlog) are never evicted: the Append gets ErrFull instead. A sealing
// Append is always recorded, over the limit if necessary.
//
// When room is short for all, those that hold most give first. They are compared as tenants: a principal (Key.Principal) with all its
// sessions is one, and each session without a principal is one. 3 and 4 evict from the tenants that hold most, by powers of two, and
// never from one that holds less, by that measure, than the tenant that appends. So no client loses what it was not sent yet to a
// tenant that holds more. What counts is what a tenant holds before it gives anything for the Append. Also:
//
//   - A principal may hold as much that cannot be evicted as is left for others: half of TotalBytes if it is alone.
//   - A tenant that holds less than 4 KiB that cannot be evicted gets ErrFull only when all together hold a quarter more than
//     TotalBytes of that. In a store of less than 4 MiB the limit is a thousandth of TotalBytes instead of 4 KiB.
//   - An urgent Append (ContextWithUrgency) may exceed SessionBytes, and the bound of a principal, by a sixteenth. It may exceed
//     TotalBytes by a sixteenth if its tenant then holds no more than 64 KiB that cannot be evicted.
//
// A backlog is also trimmed to BacklogBytes. An Append whose events alone are larger gets ErrFull.
//
// A Restore makes room as an Append does. The events that it replaces do not count.
//
// A log that was evicted whole costs nothing more. Its numbers live in its handles: while there is one, every handle reads them, also
// a new one. When the last handle is garbage, the store does not know the log any more.
type Memory struct {
	perSession, total, perBacklog int64

	used      atomic.Int64 // the charge of everything
	evictable atomic.Int64 // what eviction could free of that
	evictions atomic.Int64 // events ever evicted

	// mu is locked inside a session's mu, never around it, and only for a short time.
	mu         sync.Mutex
	sessions   registry[memorySession]
	queues     evictionQueues
	tenants    tenants
	principals map[string]*tenant // that hold something
	closed     bool
}

var (
	_ Store      = (*Memory)(nil)
	_ Accountant = (*Memory)(nil)
	_ Instant    = (*Memory)(nil)
)

// NewMemory returns an empty store.
func NewMemory(cfg MemoryConfig) *Memory {
	return &Memory{
		perSession: bound(cfg.SessionBytes, 4<<20),
		total:      bound(cfg.TotalBytes, 256<<20),
		perBacklog: bound(cfg.BacklogBytes, 256<<10),
		queues:     newEvictionQueues(ofStore),
	}
}

func bound(n, standard int64) int64 {
	switch {
	case n < 0:
		return math.MaxInt64
	case n == 0:
		return standard
	}
	return n
}

// Log implements Store. It allocates a handle and no log. When the caller no longer refers to an unused handle, it is garbage; but the store
// may keep the newest handle of each session until the next one.
func (m *Memory) Log(k Key) Log {
	m.mu.Lock()
	s := m.session(k.Session)
	m.mu.Unlock()
	s.mu.Lock()
	l := s.log(k)
	s.mu.Unlock()
	return l
}

// session returns the session of a name. The store's mu is held.
func (m *Memory) session(name string) *memorySession {
	if s := m.sessions.find(name); s != nil {
		return s
	}
	s := &memorySession{store: m, name: name, queues: newEvictionQueues(ofSession)}
	s.own.init()
	s.tenant = &s.own
	if m.closed {
		s.ended = ErrClosed
		return s
	}
	m.sessions.add(name, s)
	return s
}

// DropSession implements Store. It ignores the context: it does not wait, and a session that stayed would be a leak.
func (m *Memory) DropSession(_ context.Context, session string) error {
	m.mu.Lock()
	closed := m.closed
	s := m.sessions.find(session)
	m.sessions.forget(session, s)
	m.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if s != nil {
		s.end(ErrGone)
	}
	return nil
}

// Instant implements the interface Instant. It returns true: all data is in memory, and no operation waits. A type that embeds Memory
// has this method too.
func (m *Memory) Instant() bool { return true }

// Close implements Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	var all []*memorySession
	m.sessions.all(func(s *memorySession) { all = append(all, s) })
	m.sessions = registry[memorySession]{}
	m.closed = true
	m.mu.Unlock()
	for _, s := range all {
		s.end(ErrClosed)
	}
	return nil
}

// Usage implements Accountant.
func (m *Memory) Usage() (bytes, evicted int64) {
	return m.used.Load(), m.evictions.Load()
}
