//go:build redis

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/redistest"
	"github.com/rejoin-mcp/rejoin/redisstore"
)

// watched is a primary with one replica, under Sentinel.
type watched struct {
	primary, replica *redistest.Server
	store            *redisstore.Store
	a                cluster.Member
	log              eventstore.Log
}

// patience limits waits of these tests, which are for processes.
const patience = 30 * time.Second

func startWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{primary: redistest.New(t, redistest.Options{})}
	var err error
	w.replica, err = redistest.StartReplica(t.Context(), w.primary, redistest.Options{})
	require.NoError(t, err)
	w.replica.EndWith(t)
	sentinels, err := redistest.StartSentinel(t.Context(), w.primary, 1, redistest.Options{})
	require.NoError(t, err)
	for _, s := range sentinels {
		s.EndWith(t)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: redistest.Addrs(sentinels), DisableCache: true, ConnWriteTimeout: 2 * time.Second,
		// Without the interval, the client misses a promotion now and then, for good.
		Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterName, TopologyRefreshInterval: time.Second},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	w.store = open(t, client, redisstore.Config{})

	w.a = cluster.Member{Process: cluster.Process{Cluster: "c", Incarnation: "a1", Self: "http://a"}, Generation: 1}
	_, err = w.store.Join(t.Context(), w.a, time.Minute)
	require.NoError(t, err)
	w.a.Count = 7
	_, err = w.store.Renew(t.Context(), w.a, time.Minute)
	require.NoError(t, err)
	require.NoError(t, w.store.Put(t.Context(), &cluster.Record{Session: "s", Fence: owner, Version: 1, State: []byte("state")}, time.Hour))
	w.log = w.store.Log(eventstore.Key{Session: "s", Stream: "a", Fence: owner})
	w.append(t, 1, 3)
	_, err = w.primary.Do(t.Context(), "SET", "marker", "written last")
	require.NoError(t, err)
	until(t, func() error {
		got, err := w.replica.Do(t.Context(), "GET", "marker")
		if err == nil && got != "written last" {
			err = errors.New("the replica does not have all that was written")
		}
		return err
	})
	return w
}

func (w *watched) append(t *testing.T, first, last uint64) {
	t.Helper()
	require.NoError(t, w.log.Append(t.Context(), first, events(first, last), false))
}

func events(first, last uint64) (all [][]byte) {
	for seq := first; seq <= last; seq++ {
		all = append(all, fmt.Append(nil, "event ", seq))
	}
	return all
}

// find looks for the session until the engine answers.
func (w *watched) find(t *testing.T) (found cluster.Found) {
	t.Helper()
	until(t, func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		found, err = w.store.Find(ctx, "s", w.a.Process)
		return err
	})
	return found
}

// until calls f until it succeeds.
func until(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for begun := time.Now(); time.Since(begun) < patience; <-time.After(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

// The replica had everything. It has another life, which makes it young, and it has the counts.
func TestAPromotion(t *testing.T) {
	w := startWatched(t)
	before := w.find(t)
	require.EqualValues(t, 7, before.Count)
	killed := time.Now()
	require.NoError(t, w.primary.Kill())
	found := w.find(t)
	require.Less(t, found.Age, time.Since(killed), "a promotion may have lost something")
	require.EqualValues(t, 7, found.Count)
	require.Equal(t, "state", string(found.Record.State))
	w.append(t, 3, 5) // a repeat, and more
	buf := make([]eventstore.Event, 8)
	n, st, err := w.log.Read(t.Context(), 0, buf, 0)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.Equal(t, eventstore.State{First: 1, Last: 5}, st)
}

// The replica lacks what was written last. The owner is told, and restores it.
func TestAPromotionThatLosesTheTail(t *testing.T) {
	w := startWatched(t)
	require.NoError(t, w.replica.Pause())
	_, err := w.primary.Do(t.Context(), "CLIENT", "KILL", "TYPE", "REPLICA")
	require.NoError(t, err)
	w.append(t, 4, 6)
	w.a.Count = 8
	_, err = w.store.Renew(t.Context(), w.a, time.Minute)
	require.NoError(t, err)
	require.NoError(t, w.primary.Kill())
	require.NoError(t, w.replica.Resume())
	found := w.find(t)
	require.EqualValues(t, 7, found.Count, "the count went back, so the engine did")
	behind := &eventstore.BehindError{}
	require.ErrorAs(t, w.log.Append(t.Context(), 7, events(7, 7), false), &behind)
	require.EqualValues(t, 3, behind.Last)
	require.NoError(t, w.log.Restore(t.Context(), 2, events(2, 7), true))
	v, err := w.store.Renew(t.Context(), w.a, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 7, v.Was)
}

// What was sent to the first server does not reach the second: the client repeats no write.
func TestAWriteReachesOneServer(t *testing.T) {
	w := startWatched(t)
	require.NoError(t, w.primary.Pause())
	var late []error
	for seq := uint64(4); seq < 8; seq++ {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		late = append(late, w.log.Append(ctx, seq, events(seq, seq), false))
		cancel()
	}
	for _, err := range late {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	found := w.find(t)
	require.NotNil(t, found.Record)
	_, st, err := w.log.Read(t.Context(), 0, nil, 0)
	require.NoError(t, err)
	require.Equal(t, eventstore.State{First: 1, Last: 3}, st, "another server has taken what was given up")
	require.NoError(t, w.primary.Resume())
	require.Eventually(t, func() bool {
		role, err := w.primary.Do(t.Context(), "ROLE")
		return err == nil && len(role) > 5 && role[:5] == "slave"
	}, patience, 10*time.Millisecond, "the first server becomes a replica")
	_, st, err = w.log.Read(t.Context(), 0, nil, 0)
	require.NoError(t, err)
	require.Equal(t, eventstore.State{First: 1, Last: 3}, st)
}
