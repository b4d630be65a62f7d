package kit

import (
	"context"
	"sync"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// LossyStore is a memory store that can lose data, as a database does that is restarted or replaced by a replica. Each log that exists at
// that moment keeps only its first events. Logs that begin later are not affected.
type LossyStore struct {
	eventstore.Store

	mu    sync.Mutex
	since int
	keep  uint64
	gone  bool
	fail  error
}

// NewLossyStore returns a store that has lost nothing yet.
func NewLossyStore() *LossyStore {
	return &LossyStore{Store: eventstore.NewMemory(eventstore.MemoryConfig{})}
}

// Lose loses all events of each log but the first keep ones. With gone the store returns eventstore.ErrGone for these logs, which breaks
// the contract of a store.
func (s *LossyStore) Lose(keep uint64, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.keep, s.gone = s.since+1, keep, gone
}

// Fail makes every operation fail with err, until it is called with nil.
func (s *LossyStore) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *LossyStore) Unwrap() eventstore.Store { return s.Store }

func (s *LossyStore) Log(k eventstore.Key) eventstore.Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &lossyLog{Log: s.Store.Log(k), s: s, since: s.since}
}

func (s *LossyStore) DropSession(ctx context.Context, session string) error {
	if err := s.failure(); err != nil {
		return err
	}
	return s.Store.DropSession(ctx, session)
}

func (s *LossyStore) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

type lossyLog struct {
	eventstore.Log
	s     *LossyStore
	since int
}

// left returns the last event that the log still has, if some were lost.
func (l *lossyLog) left() (last uint64, lost bool, err error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	switch {
	case l.s.fail != nil:
		return 0, false, l.s.fail
	case l.since == l.s.since:
		return 0, false, nil
	case l.s.gone:
		return 0, true, eventstore.ErrGone
	}
	return l.s.keep, true, nil
}

func (l *lossyLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	last, lost, err := l.left()
	switch {
	case err != nil:
		return err
	case lost:
		return &eventstore.BehindError{Last: last}
	}
	return l.Log.Append(ctx, first, events, seal)
}

func (l *lossyLog) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	last, lost, err := l.left()
	if err != nil {
		return 0, eventstore.State{}, err
	}
	n, st, err := l.Log.Read(ctx, after, buf, maxBytes)
	if lost && last < st.Last {
		n, st.Last, st.Sealed = min(n, int(last-min(after, last))), last, false
	}
	return n, st, err
}

func (l *lossyLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	if _, _, err := l.left(); err != nil {
		return err
	}
	return l.Log.Restore(ctx, first, events, seal)
}

func (l *lossyLog) Drop(ctx context.Context) error {
	if err := l.s.failure(); err != nil {
		return err
	}
	return l.Log.Drop(ctx)
}
