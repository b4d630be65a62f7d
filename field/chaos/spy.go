//go:build unix

package main

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// engineStore is the engine as a process uses it.
type engineStore interface {
	cluster.Directory
	eventstore.Store
}

// spy writes to the oracle under which fence the engine has taken what this process wrote. It changes nothing.
type spy struct {
	engineStore

	oracle *oracle
}

var _ eventstore.Wrapper = (*spy)(nil)

// Unwrap implements eventstore.Wrapper.
func (s *spy) Unwrap() eventstore.Store { return s.engineStore }

// Put implements cluster.Directory.
func (s *spy) Put(ctx context.Context, r *cluster.Record, ttl time.Duration) error {
	began := time.Now()
	err := s.engineStore.Put(ctx, r, ttl)
	if err == nil {
		s.oracle.write(entry{
			Do: owns, Session: r.Session, Began: began.UnixNano(), Incarnation: r.Fence.Incarnation, Epoch: r.Fence.Epoch,
		})
	}
	return err
}

// Adopt implements cluster.Directory.
func (s *spy) Adopt(
	ctx context.Context, session string, from eventstore.Fence, to cluster.Member, ttl time.Duration,
) (*cluster.Record, []cluster.Stream, error) {
	began := time.Now()
	r, streams, err := s.engineStore.Adopt(ctx, session, from, to, ttl)
	if err == nil {
		s.oracle.write(entry{
			Do: adopts, Session: session, Began: began.UnixNano(), Incarnation: r.Fence.Incarnation, Epoch: r.Fence.Epoch,
		})
	}
	return r, streams, err
}

// Log implements eventstore.Store.
func (s *spy) Log(k eventstore.Key) eventstore.Log {
	return &spiedLog{s.engineStore.Log(k), k, s.oracle}
}

type spiedLog struct {
	eventstore.Log

	key    eventstore.Key
	oracle *oracle
}

// Append implements eventstore.Log.
func (l *spiedLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	began := time.Now()
	sums := sumsOf(events)
	err := l.Log.Append(ctx, first, events, seal)
	if err == nil {
		l.note(began, first, sums)
	}
	return err
}

// Restore implements eventstore.Log.
func (l *spiedLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	began := time.Now()
	sums := sumsOf(events)
	err := l.Log.Restore(ctx, first, events, seal)
	if err == nil {
		l.note(began, first, sums)
	}
	return err
}

// Short implements eventstore.Limited.
func (l *spiedLog) Short() bool {
	limited, ok := l.Log.(eventstore.Limited)
	return ok && limited.Short()
}

func (l *spiedLog) note(began time.Time, first uint64, sums []uint64) {
	for i, sum := range sums {
		l.oracle.write(entry{
			Do: wrote, Session: l.key.Session, Stream: l.key.Stream, N: int(first) + i, Sum: sum, Began: began.UnixNano(), //nolint:gosec // small
			Incarnation: l.key.Fence.Incarnation, Epoch: l.key.Fence.Epoch,
		})
	}
}

func sumsOf(events [][]byte) []uint64 {
	sums := make([]uint64, len(events))
	for i, e := range events {
		sums[i] = sumOf(e)
	}
	return sums
}

// sumOf is the same in every process.
func sumOf(data []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64()
}
