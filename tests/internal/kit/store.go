package kit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// Fill reports progress of about a kilobyte each, beginning with the value from, until the store is full. It returns how many were taken.
func Fill(t *testing.T, tool *ManualTool, from int) (n int) {
	t.Helper()
	for ; ; n++ {
		err := tool.Progress(float64(from+n), 0, strings.Repeat("x", 1000))
		if err != nil {
			require.ErrorIs(t, err, rejoin.ErrFull)
			return n
		}
		require.Less(t, n, 1000, "the store is small")
	}
}

// ErrStore is the error of stores that fail in tests.
var ErrStore = errors.New("the store has failed")

// WatchedStore is a memory store that counts calls of Log and Append.
type WatchedStore struct {
	*eventstore.Memory
	Logs, Appends atomic.Int64
}

// NewWatchedStore returns an empty store.
func NewWatchedStore() *WatchedStore {
	return &WatchedStore{Memory: eventstore.NewMemory(eventstore.MemoryConfig{})}
}

func (s *WatchedStore) Log(k eventstore.Key) eventstore.Log {
	s.Logs.Add(1)
	return watchedLog{s.Memory.Log(k), s}
}

type watchedLog struct {
	eventstore.Log
	s *WatchedStore
}

func (l watchedLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	l.s.Appends.Add(1)
	return l.Log.Append(ctx, first, events, seal)
}

// StuckStore is a memory store in which a test can block operations (Block) and let them go on (Release).
type StuckStore struct {
	eventstore.Store
	mu      sync.Mutex
	blocked map[string]bool
	release chan struct{}
	once    sync.Once
}

// NewStuckStore returns a store in which no operation blocks yet. It is released when the test ends.
func NewStuckStore(t *testing.T) *StuckStore {
	s := &StuckStore{blocked: map[string]bool{}, release: make(chan struct{})}
	s.Store = storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(op string, _ int) error {
		s.mu.Lock()
		block := s.blocked[op]
		s.mu.Unlock()
		if block {
			<-s.release
		}
		return nil
	})
	t.Cleanup(s.Release) // before the bubble ends
	return s
}

// Release lets all blocked operations go on. None blocks after that.
func (s *StuckStore) Release() {
	s.Block()
	s.once.Do(func() { close(s.release) })
}

// Block makes operations of these kinds block if they begin after the call, and no others. Operations that block already stay blocked.
func (s *StuckStore) Block(ops ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = map[string]bool{}
	for _, op := range ops {
		s.blocked[op] = true
	}
}

// StuckCall starts a call, one goroutine of which is blocked in the append of its second message.
func StuckCall(t *testing.T, c *rejointest.Client, next func() *ManualTool, store *StuckStore) (*rejointest.Call, *ManualTool) {
	t.Helper()
	call := c.CallTool("x", nil)
	tool := next()
	require.NoError(t, tool.Progress(0, 0, ""))
	store.Block("append")
	go func() { _ = tool.Progress(1, 0, "") }()
	synctest.Wait()
	store.Block()
	require.Equal(t, "200 sse primer@0 1:progress open", Last(call))
	return call, tool
}

// FullStore is a store in which a log is full after N events. It still takes the event that seals the log, unless SealsToo.
type FullStore struct {
	eventstore.Store
	N        uint64
	SealsToo bool
}

func (s FullStore) Log(k eventstore.Key) eventstore.Log { return fullLog{s.Store.Log(k), s} }

type fullLog struct {
	eventstore.Log
	FullStore
}

func (l fullLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if first+uint64(len(events)) > l.N+1 && (!seal || l.SealsToo) {
		return eventstore.ErrFull
	}
	return l.Log.Append(ctx, first, events, seal)
}
