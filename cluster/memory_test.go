package cluster_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/eventstore/storetest"
)

func TestMemoryPassesTheExam(t *testing.T) {
	clustertest.Run(t, clustertest.Features{VirtualTime: true}, func(testing.TB) clustertest.Engine {
		m := cluster.NewMemory(eventstore.MemoryConfig{})
		return clustertest.Engine{Directory: m, Store: m, Forget: m.Forget}
	})
}

func TestMemoryPassesTheExamOfStores(t *testing.T) {
	t.Run("without records", func(t *testing.T) {
		storetest.Run(t, storetest.Features{Bounded: true}, func(testing.TB) eventstore.Store {
			return cluster.NewMemory(eventstore.MemoryConfig{})
		})
	})
	t.Run("with records", func(t *testing.T) {
		storetest.Run(t, storetest.Features{Bounded: true}, func(testing.TB) eventstore.Store {
			return &owned{Memory: cluster.NewMemory(eventstore.MemoryConfig{})}
		})
	})
	t.Run("no bounds, with records", func(t *testing.T) {
		storetest.Run(t, storetest.Features{}, func(testing.TB) eventstore.Store {
			return &owned{Memory: cluster.NewMemory(eventstore.MemoryConfig{SessionBytes: -1, TotalBytes: -1, BacklogBytes: -1})}
		})
	})
}

var owner = eventstore.Fence{Incarnation: "a1", Epoch: 1}

// owned is the store as the owner of all sessions uses it.
type owned struct {
	*cluster.Memory
	sessions sync.Map
}

func (o *owned) Log(k eventstore.Key) eventstore.Log {
	if _, known := o.sessions.LoadOrStore(k.Session, true); !known {
		_ = o.Put(context.Background(), &cluster.Record{Session: k.Session, Fence: owner}, time.Hour) // fails when the store is closed
	}
	k.Fence = owner
	return o.Memory.Log(k)
}

func TestHandlesWithoutAFence(t *testing.T) {
	ctx := t.Context()
	m := cluster.NewMemory(eventstore.MemoryConfig{})
	require.True(t, m.Instant())
	l := m.Log(eventstore.Key{Session: "task", Stream: "a"})
	require.NoError(t, l.Append(ctx, 1, [][]byte{[]byte("one")}, false))
	bytes, _ := eventstore.AccountantOf(m).Usage()
	require.Positive(t, bytes)
	m.Forget()
	bytes, _ = m.Usage()
	require.Zero(t, bytes)
	_, st, err := l.Read(ctx, 0, nil, 0)
	require.NoError(t, err)
	require.Equal(t, eventstore.State{First: 1}, st, "all is lost")
	behind := &eventstore.BehindError{}
	require.ErrorAs(t, l.Append(ctx, 2, [][]byte{[]byte("two")}, false), &behind, "which is no proof of a drop")
	require.NoError(t, l.Restore(ctx, 1, [][]byte{[]byte("one"), []byte("two")}, true))
	require.NoError(t, l.Drop(ctx))
	require.ErrorIs(t, l.Append(ctx, 1, nil, false), eventstore.ErrGone)
}

func TestDropSessionLeavesTheRecord(t *testing.T) {
	ctx := t.Context()
	m := cluster.NewMemory(eventstore.MemoryConfig{})
	require.NoError(t, m.Put(ctx, &cluster.Record{Session: "s", Fence: owner}, time.Hour))
	key := eventstore.Key{Session: "s", Stream: "a", Fence: owner}
	l := m.Log(key)
	require.NoError(t, l.Append(ctx, 1, [][]byte{[]byte("one")}, false))
	require.NoError(t, m.DropSession(ctx, "s"))
	require.ErrorIs(t, l.Append(ctx, 2, [][]byte{[]byte("two")}, false), eventstore.ErrGone)
	r, streams, err := m.Adopt(ctx, "s", owner, cluster.Member{Process: cluster.Process{Incarnation: "b1"}}, time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Fence.Epoch)
	require.Empty(t, streams)
}
