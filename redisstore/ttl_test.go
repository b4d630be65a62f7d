//go:build redis

package redisstore_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// ttlOf is what is left of the life of the only key that matches.
func ttlOf(t *testing.T, server *redistest.Server, pattern string) time.Duration {
	t.Helper()
	keys, err := server.Do(t.Context(), "KEYS", pattern)
	require.NoError(t, err)
	require.Len(t, strings.Fields(keys), 1, "keys like %s: %q", pattern, keys)
	ms, err := server.Do(t.Context(), "PTTL", strings.Fields(keys)[0])
	require.NoError(t, err)
	n, err := strconv.Atoi(ms)
	require.NoError(t, err)
	return time.Duration(n) * time.Millisecond
}

// The engine has a clock of its own, so the exam does not ask it what expires when. Its own lives of keys tell.
func TestLives(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	s := open(t, connect(t, server.Addr()), redisstore.Config{})
	ctx := t.Context()
	const slack = 10 * time.Second
	want := func(want time.Duration, why string) {
		t.Helper()
		got := ttlOf(t, server, "rejoin:{0}:s:*")
		require.LessOrEqual(t, got, want, why)
		require.Greater(t, got, want-slack, why)
	}
	r := &cluster.Record{Session: "s", Fence: owner}
	require.NoError(t, s.Put(ctx, r, time.Hour))
	want(time.Hour, "Put begins a life")
	l := s.Log(eventstore.Key{Session: "s", Stream: "a", Fence: owner})
	require.NoError(t, l.Append(ctx, 1, events(1, 3), false))
	require.NoError(t, l.Restore(ctx, 2, events(2, 5), false))
	require.NoError(t, s.Save(ctx, "s", owner, 2, []byte("state")))
	want(time.Hour, "logs live as long as the record, and do not change that")
	require.NoError(t, s.Put(ctx, r, 2*time.Hour))
	want(2*time.Hour, "Put again")
	missing, err := s.Touch(ctx, []cluster.Held{{Session: "s", Fence: eventstore.Fence{Incarnation: "b1", Epoch: 1}}}, 9*time.Hour)
	require.NoError(t, err)
	require.Len(t, missing, 1)
	want(2*time.Hour, "another process touches")
	missing, err = s.Touch(ctx, []cluster.Held{{Session: "s", Fence: owner}}, 3*time.Hour)
	require.NoError(t, err)
	require.Empty(t, missing)
	want(3*time.Hour, "Touch")
	_, _, err = s.Adopt(ctx, "s", owner, cluster.Member{Process: cluster.Process{Incarnation: "b1"}}, time.Hour)
	require.NoError(t, err)
	want(time.Hour, "Adopt")
	require.NoError(t, s.DropSession(ctx, "s"))
	want(time.Hour, "DropSession leaves the record, and its life")
	require.NoError(t, s.End(ctx, "s", eventstore.Fence{Incarnation: "b1", Epoch: 2}))
	want(cluster.TombstoneTTL, "a tombstone")
	missing, err = s.Touch(ctx, []cluster.Held{{Session: "s", Fence: owner}}, 9*time.Hour)
	require.NoError(t, err)
	require.Len(t, missing, 1)
	want(cluster.TombstoneTTL, "a tombstone that is touched")

	require.NoError(t, s.Put(ctx, &cluster.Record{Session: "brief", Fence: owner}, 20*time.Millisecond))
	require.Eventually(t, func() bool {
		_, err := s.Find(ctx, "brief", cluster.Process{})
		return errors.Is(err, cluster.ErrUnknown)
	}, patience, time.Millisecond, "a record expires without a tombstone")
}

func TestLogsWithoutARecordExpire(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	s := open(t, connect(t, server.Addr()), redisstore.Config{})
	l := s.Log(eventstore.Key{Session: "plain", Stream: "a"})
	require.NoError(t, l.Append(t.Context(), 1, events(1, 2), false))
	require.Greater(t, ttlOf(t, server, "rejoin:{0}:s:*"), 23*time.Hour)
	require.NoError(t, l.Restore(t.Context(), 1, events(1, 3), true))
	require.Greater(t, ttlOf(t, server, "rejoin:{0}:s:*"), 23*time.Hour)
}

func TestEntriesOfProcessesExpire(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	s := open(t, connect(t, server.Addr()), redisstore.Config{})
	member := func(self string) cluster.Member {
		return cluster.Member{Process: cluster.Process{Cluster: "c", Incarnation: self + "1", Self: self}, Generation: 1, Count: 1}
	}
	const lease = 200 * time.Millisecond
	begun := time.Now()
	_, err := s.Join(t.Context(), member("a"), lease)
	require.NoError(t, err)
	b := member("b")
	_, err = s.Join(t.Context(), b, time.Minute)
	require.NoError(t, err)
	require.Greater(t, ttlOf(t, server, "rejoin:{0}:m:*"), 3*time.Minute, "the entries live as long as the one that lives longest")
	var v cluster.View
	require.Eventually(t, func() bool {
		b.Count++
		v, err = s.Renew(t.Context(), b, lease)
		require.NoError(t, err)
		return len(v.Members) == 1
	}, patience, time.Millisecond)
	require.Equal(t, b, v.Members[0])
	require.GreaterOrEqual(t, time.Since(begun), 2*lease, "an entry is kept for several leases")
	require.Greater(t, ttlOf(t, server, "rejoin:{0}:m:*"), 2*time.Minute, "a shorter lease shortens no other's life")
	_, err = s.Join(t.Context(), cluster.Member{Process: member("a").Process, Generation: 1}, lease)
	require.NoError(t, err, "as if it had never been")
}
