//go:build redis

package redisstore_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// An engine whose memory is full refuses new sessions and events, and takes all that ends something or keeps processes alive.
func TestAFullEngine(t *testing.T) {
	server := redistest.New(t, redistest.Options{Args: []string{"--maxmemory-policy", "noeviction"}})
	ctx := t.Context()
	s := open(t, connect(t, server.Addr()), redisstore.Config{SessionBytes: -1})
	a := cluster.Member{Process: cluster.Process{Cluster: "c", Incarnation: "a1", Self: "http://a"}, Generation: 1}
	b := cluster.Member{Process: cluster.Process{Cluster: "c", Incarnation: "b1", Self: "http://b"}, Generation: 1}
	r := &cluster.Record{Session: "s", Fence: owner}
	require.NoError(t, s.Put(ctx, r, time.Hour))
	log := func(stream string, f eventstore.Fence) eventstore.Log {
		return s.Log(eventstore.Key{Session: "s", Stream: stream, Fence: f})
	}
	const seq = 40
	l := log("a", owner)
	for n := range uint64(seq - 1) {
		require.NoError(t, l.Append(ctx, n+1, [][]byte{bytes.Repeat([]byte("x"), 100_000)}, false))
	}
	_, err := server.Do(ctx, "CONFIG", "SET", "maxmemory", "3mb")
	require.NoError(t, err)
	require.ErrorIs(t, l.Append(ctx, seq, events(seq, seq), false), eventstore.ErrFull)
	require.ErrorIs(t, log("b", owner).Restore(ctx, 1, events(1, 2), false), eventstore.ErrFull)
	require.Error(t, s.Put(ctx, &cluster.Record{Session: "new", Fence: owner}, time.Hour))
	require.Error(t, s.Save(ctx, "s", owner, 9, []byte("state")))

	_, err = s.Join(ctx, a, time.Minute)
	require.NoError(t, err)
	_, err = s.Join(ctx, b, time.Minute)
	require.NoError(t, err)
	a.Count = 1
	_, err = s.Renew(ctx, a, time.Minute)
	require.NoError(t, err)
	require.NoError(t, s.Leave(ctx, a))
	found, err := s.Find(ctx, "s", a.Process)
	require.NoError(t, err)
	require.Equal(t, owner, found.Record.Fence)
	missing, err := s.Touch(ctx, []cluster.Held{{Session: "s", Fence: owner}}, time.Hour)
	require.NoError(t, err)
	require.Empty(t, missing)
	require.NoError(t, l.Append(ctx, seq, [][]byte{[]byte("the response")}, true), "a seal is always taken")
	require.NoError(t, log("c", owner).Restore(ctx, 3, events(3, 4), true))
	n, st, err := l.Read(ctx, seq-1, make([]eventstore.Event, 2), 0)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.True(t, st.Sealed)
	require.NoError(t, s.Release(ctx, "s", owner))
	adopted, streams, err := s.Adopt(ctx, "s", owner, b, time.Hour)
	require.NoError(t, err)
	require.Len(t, streams, 2)
	require.NoError(t, log("c", adopted.Fence).Drop(ctx))
	require.NoError(t, s.End(ctx, "s", adopted.Fence))
	require.NoError(t, s.Put(ctx, &cluster.Record{Session: "new", Fence: owner}, time.Hour), "the end made room")
}
