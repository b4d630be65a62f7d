package cluster

import (
	"context"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Memory is a [Directory] and its [eventstore.Store] in one, in this process: for servers of one process that form a cluster, and for
// tests. It starts no goroutine and no timer. What has expired is removed when it is looked for, or when records are added.
//
// Logs are kept and bounded as [eventstore.Memory] does it. A record costs its own bytes and less than half a kilobyte, besides its logs;
// records are not bounded, and not in Usage.
//
// A handle whose Key has no Fence works as in an eventstore.Memory, for logs of sessions without a record. Through it the logs of a
// session with a record can only be read. DropSession looks at no record or fence: it drops the logs, and the record stays.
type Memory struct {
	cfg    eventstore.MemoryConfig
	world  atomic.Pointer[world]
	closed atomic.Bool
}

var (
	_ Directory             = (*Memory)(nil)
	_ eventstore.Store      = (*Memory)(nil)
	_ eventstore.Accountant = (*Memory)(nil)
	_ eventstore.Instant    = (*Memory)(nil)
)

// NewMemory returns an empty directory with an empty store.
func NewMemory(cfg eventstore.MemoryConfig) *Memory {
	m := &Memory{cfg: cfg}
	m.Forget()
	return m
}

// Forget loses everything: records, tombstones, entries of processes, and logs. Nothing is known afterwards, not even that it was
// known: so restarts an engine without persistence. Handles stay usable, and find nothing. An operation that runs meanwhile is lost or
// comes after it.
func (m *Memory) Forget() { m.world.Store(newWorld(m.cfg)) }

// Log implements eventstore.Store.
func (m *Memory) Log(k eventstore.Key) eventstore.Log {
	h := &handle{memory: m, key: k}
	h.find(m.world.Load())
	return h
}

// DropSession implements eventstore.Store. It ignores the context, as eventstore.Memory does.
func (m *Memory) DropSession(ctx context.Context, session string) error {
	if m.closed.Load() {
		return eventstore.ErrClosed
	}
	w := m.world.Load()
	s := w.lock(session, nil)
	if s == nil {
		return w.logs.DropSession(ctx, session)
	}
	defer s.mu.Unlock()
	return s.dropLogs()
}

// Close implements eventstore.Store. It closes the directory too.
func (m *Memory) Close() error {
	m.closed.Store(true)
	return m.world.Load().logs.Close()
}

// Usage implements eventstore.Accountant: what the logs hold.
func (m *Memory) Usage() (bytes, evicted int64) { return m.world.Load().logs.Usage() }

// Instant implements eventstore.Instant. It returns true: no operation waits.
func (m *Memory) Instant() bool { return true }

// enter begins an operation of the directory.
func (m *Memory) enter(ctx context.Context) (*world, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.closed.Load() {
		return nil, eventstore.ErrClosed
	}
	return m.world.Load(), nil
}
