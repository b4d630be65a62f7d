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

// Fill sends progress of a kilobyte until there is no room, and returns how much there was.
func Fill(t *testing.T, tool *Puppet, from int) (n int) {
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

// ErrStore is what stores of tests fail with.
var ErrStore = errors.New("the store has failed")

// WatchedStore counts what it is asked to keep.
type WatchedStore struct {
	*eventstore.Memory
	Logs, Appends atomic.Int64
}

// NewWatchedStore returns one.
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

func (l watchedLog) Append(ctx context.Context, seq uint64, data []byte, seal bool) error {
	l.s.Appends.Add(1)
	return l.Log.Append(ctx, seq, data, seal)
}

// StuckStore is a store whose operations of some kinds block from the moment at which the test says so until it says that they may go on.
type StuckStore struct {
	eventstore.Store
	mu      sync.Mutex
	block   map[string]bool
	release chan struct{}
	once    sync.Once
}

// NewStuckStore returns one that lets all through until On is called.
func NewStuckStore(t *testing.T) *StuckStore {
	s := &StuckStore{block: map[string]bool{}, release: make(chan struct{})}
	s.Store = storetest.Faulty(eventstore.NewMemory(eventstore.MemoryConfig{}), func(op string, _ int) error {
		s.mu.Lock()
		block := s.block[op]
		s.mu.Unlock()
		if block {
			<-s.release
		}
		return nil
	})
	t.Cleanup(s.GoOn) // before the bubble ends
	return s
}

// GoOn ends it.
func (s *StuckStore) GoOn() {
	s.On()
	s.once.Do(func() { close(s.release) })
}

// On makes those operations block that begin from now on; no others do.
func (s *StuckStore) On(ops ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block = map[string]bool{}
	for _, op := range ops {
		s.block[op] = true
	}
}

// StuckCall is a call whose goroutine is stuck in an append of its second message.
func StuckCall(t *testing.T, c *rejointest.Client, next func() *Puppet, store *StuckStore) (*rejointest.Call, *Puppet) {
	t.Helper()
	call := c.CallTool("x", nil)
	tool := next()
	require.NoError(t, tool.Progress(0, 0, ""))
	store.On("append")
	go func() { _ = tool.Progress(1, 0, "") }()
	synctest.Wait()
	store.On()
	require.Equal(t, "200 sse primer@0 1:progress open", Last(call))
	return call, tool
}

// FullStore is a store that is full after the first n events of a log, but for what seals it, or also for that.
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

func (l fullLog) Append(ctx context.Context, seq uint64, data []byte, seal bool) error {
	if seq > l.N && (!seal || l.SealsToo) {
		return eventstore.ErrFull
	}
	return l.Log.Append(ctx, seq, data, seal)
}
