package eventstore

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
)

// MemoryConfig bounds a memory store. Zero means the default, negative means no bound. Overhead counts: what is charged is
// about what the heap holds. An event is charged its capacity, since that is what it keeps alive.
type MemoryConfig struct {
	SessionBytes int64 // of one session. Defaults to 4 MiB.
	TotalBytes   int64 // of all sessions. Defaults to 256 MiB.
	BacklogBytes int64 // of the events of one backlog log. Defaults to 256 KiB.
}

// Memory keeps logs in this process. It starts no goroutine and no timer. Every operation is O(1), amortised, at the limits
// too, whatever number of sessions and logs there are; only DropSession takes as long as that session has logs.
//
// An Append that would exceed a limit makes room, in the session or everywhere, by taking in this order
//
//  1. events that a client acknowledged (Mark.Acked), of any log;
//  2. whole sealed logs that were written out (Mark.Written);
//  3. the oldest events of backlogs, read or not;
//  4. whole sealed logs that were not written out.
//
// Within each, the log goes first that became so first: acknowledged, written out, a backlog with events, sealed. Several
// backlogs lose one event each, in turn. Nothing is taken before there is need, nor for an Append that would be refused even
// then. What nobody acknowledged of a log that is neither sealed nor a backlog is never taken: that Append gets ErrFull. A
// sealing Append is always recorded, over the limit if it must.
//
// Where room is short for all, who holds most gives first. Those that hold are principals (Key.Principal), and sessions that have none. 3 and 4
// are taken from those that hold most, by powers of two, and never from one that holds less, by that measure, than the one whose
// Append it is: nobody loses what was not sent to it yet to one that holds more. Besides,
//
//   - a principal may hold as much of what cannot be taken as is left for others, so one alone half of TotalBytes;
//   - who holds less than 4 KiB gets ErrFull only when a quarter more than TotalBytes is held that cannot be taken (in a store of
//     less than 4 MiB, who holds less than a thousandth of it);
//   - an Append that is urgent (ContextWithUrgency) may exceed SessionBytes, and the bound of a principal, by a sixteenth, and so may one
//     TotalBytes whose holder comes to no more than 64 KiB.
//
// A backlog log is trimmed to BacklogBytes besides. An event that is larger alone gets ErrFull.
//
// A log that was evicted whole costs nothing more. Its numbers live in its handles: as long as there is one, every handle
// reads them, a new one too. Once the last is garbage the store has never heard of the log.
type Memory struct {
	perSession, total, perBacklog int64

	used    atomic.Int64 // charged
	spare   atomic.Int64 // what eviction could free of it
	evicted atomic.Int64 // events

	// mu is taken inside a session's, never around it, and for a few instructions.
	mu         sync.Mutex
	sessions   registry[memorySession]
	shelf      shelf
	owners     owners
	principals map[string]*owner // that hold something
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
		shelf:      newShelf(ofStore),
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

// Log implements Store. It makes no log: what it allocates is the handle, and the caller's. Only the last new one of each
// session may stay with it until the next.
func (m *Memory) Log(k Key) Log {
	return m.session(k).log(k)
}

func (m *Memory) session(k Key) *memorySession {
	name := k.Session
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions.find(name); s != nil {
		return s
	}
	s := &memorySession{store: m, name: name, shelf: newShelf(ofSession)}
	s.self.init()
	s.owner = &s.self
	if m.closed {
		s.lost = ErrClosed
		return s
	}
	m.sessions.add(name, s)
	return s
}

// DropSession implements Store. It heeds no context: there is nothing to wait for, and a session that stayed would leak.
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

// Instant implements the interface Instant: all is in memory, and nothing waits. A type that embeds Memory has this method too.
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
	return m.used.Load(), m.evicted.Load()
}
