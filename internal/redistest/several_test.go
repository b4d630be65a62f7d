//go:build redis && unix

package redistest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// eventually waits until the answer to a command contains a text.
func eventually(t *testing.T, s *Server, text string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.NoError(t, s.await(ctx, func() error { return s.says(ctx, text, args...) }))
}

func endWith(t *testing.T, all []*Server) {
	for _, s := range all {
		s.EndWith(t)
	}
}

func TestAReplicaHasWhatItsPrimaryHas(t *testing.T) {
	primary := New(t, Options{})
	do1(t, primary, "SET", "before", "1")
	replica, err := StartReplica(t.Context(), primary, Options{})
	require.NoError(t, err)
	replica.EndWith(t)
	require.Equal(t, "1", do1(t, replica, "GET", "before"))
	do1(t, primary, "SET", "after", "2")
	eventually(t, replica, "2", "GET", "after")

	// It lacks the tail when it is promoted.
	require.NoError(t, replica.Pause())
	do1(t, primary, "SET", "tail", "3")
	require.NoError(t, primary.Kill())
	require.NoError(t, replica.Resume())
	eventually(t, replica, "OK", "REPLICAOF", "NO", "ONE")
	require.Contains(t, do1(t, replica, "INFO", "replication"), "role:master")
}

func TestAReplicaOfNothingDoesNotStart(t *testing.T) {
	primary := New(t, Options{})
	require.NoError(t, primary.Kill())
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := StartReplica(ctx, primary, Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "master_link_status:down")
	requireEmpty(t, folder)
}

func TestSentinelsPromoteAReplica(t *testing.T) {
	primary := New(t, Options{})
	replica, err := StartReplica(t.Context(), primary, Options{})
	require.NoError(t, err)
	replica.EndWith(t)
	sentinels, err := StartSentinel(t.Context(), primary, 3, Options{})
	require.NoError(t, err)
	endWith(t, sentinels)
	require.Len(t, Addrs(sentinels), 3)
	address := func(s *Server) string { return strings.ReplaceAll(words(s), " ", "\n") }
	master := []string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName}
	require.Equal(t, address(primary), do1(t, sentinels[0], master...))

	require.NoError(t, primary.Kill())
	eventually(t, replica, "role:master", "INFO", "replication")
	for _, s := range sentinels {
		eventually(t, s, address(replica), master...)
	}
	require.NoError(t, primary.Restart(t.Context()))
	eventually(t, primary, "role:slave", "INFO", "replication")

	// What the sentinels have changed survives a restart.
	require.NoError(t, replica.Stop())
	require.NoError(t, replica.Restart(t.Context()))
	require.Contains(t, do1(t, replica, "INFO", "replication"), "role:master")
	require.NoError(t, sentinels[0].Stop())
	require.NoError(t, sentinels[0].Restart(t.Context()))
	require.Equal(t, address(replica), do1(t, sentinels[0], master...))
}

func TestOneSentinelAlonePromotesAReplica(t *testing.T) {
	primary := New(t, Options{})
	replica, err := StartReplica(t.Context(), primary, Options{})
	require.NoError(t, err)
	replica.EndWith(t)
	sentinels, err := StartSentinel(t.Context(), primary, 1, Options{})
	require.NoError(t, err)
	endWith(t, sentinels)
	require.NoError(t, primary.Kill())
	eventually(t, replica, "role:master", "INFO", "replication")
}

func TestAClusterIsComplete(t *testing.T) {
	for _, masters := range []int{1, 3} {
		all, err := StartCluster(t.Context(), masters, Options{Args: []string{"--appendonly", "yes"}})
		require.NoError(t, err)
		endWith(t, all)
		require.Len(t, Addrs(all), masters)
		taken, moved := 0, 0
		for _, s := range all {
			_, err := s.Do(t.Context(), "SET", "key", "value")
			if e := Error(""); err == nil {
				taken++
			} else if require.ErrorAs(t, err, &e); strings.HasPrefix(string(e), "MOVED ") {
				moved++
			}
		}
		require.Equal(t, 1, taken, "one master has the slot of the key")
		require.Equal(t, masters-1, moved, "the others say so")

		last := all[masters-1]
		require.NoError(t, last.Kill())
		if masters > 1 {
			eventually(t, all[0], "cluster_state:fail", "CLUSTER", "INFO")
		}
		require.NoError(t, last.Restart(t.Context()))
		require.NoError(t, WaitCluster(t.Context(), all))
	}
}
