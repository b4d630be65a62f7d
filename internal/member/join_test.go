package member_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/member"
)

// joins is a directory that notes the generations with which processes join. answer may change an answer.
type joins struct {
	cluster.Directory

	mu     sync.Mutex
	tried  []uint64
	answer func(n int, m cluster.Member, err error) (cluster.Member, error)
}

func (j *joins) Join(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.Member, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tried = append(j.tried, m.Generation)
	got, err := j.Directory.Join(ctx, m, lease)
	if j.answer != nil {
		return j.answer(len(j.tried), got, err)
	}
	return got, err
}

func (j *joins) generations() []uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tried
}

func now() uint64 { return uint64(time.Now().UnixMicro()) }

func TestAProcessJoinsWithItsClock(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		a := start(t, dir, "a")
		require.Equal(t, now(), a.Me().Generation)
	})
}

// The clock of the process before was ahead.
func TestAProcessJoinsAfterOneWithAHigherGeneration(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		ahead := cluster.Member{Process: cluster.Process{Cluster: "c", Incarnation: "a0", Self: "http://a"}, Generation: now() + 1e9}
		_, err := dir.Join(t.Context(), ahead, lease)
		require.NoError(t, err)
		j := &joins{Directory: dir}
		a := start(t, j, "a")
		require.True(t, a.Holds())
		require.Equal(t, []uint64{now(), ahead.Generation + 1}, j.generations())
		require.Equal(t, ahead.Generation+1, a.Me().Generation)
		_, err = dir.Renew(t.Context(), ahead, lease)
		require.ErrorIs(t, err, cluster.ErrSuperseded)
	})
}

// A Join whose answer was lost is made again as it was: whenever it arrives, it is a repeat.
func TestAJoinIsRepeatedWithItsGeneration(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		j := &joins{Directory: dir, answer: func(n int, m cluster.Member, err error) (cluster.Member, error) {
			if n < 3 {
				return cluster.Member{}, errAway
			}
			return m, err
		}}
		a := start(t, j, "a")
		proposed := now()
		require.False(t, a.Holds())
		elapse(lease)
		require.True(t, a.Holds())
		require.Equal(t, []uint64{proposed, proposed, proposed}, j.generations())
		require.Equal(t, []string{"away", "regained"}, a.heard())
	})
}

// Others that have the same Self, and join all the time, are an outage: nobody has superseded a process that has not joined.
func TestAProcessThatCannotJoinTriesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		j := &joins{Directory: dir, answer: func(n int, m cluster.Member, err error) (cluster.Member, error) {
			if n <= 4 {
				return cluster.Member{Generation: now() + uint64(n)*1e9}, cluster.ErrSuperseded
			}
			return m, err
		}}
		a := start(t, j, "a")
		require.Len(t, j.generations(), 3, "then it waits")
		require.Equal(t, []string{"away"}, a.heard())
		elapse(lease)
		require.Len(t, j.generations(), 5)
		require.True(t, a.Holds())
		require.Equal(t, []string{"regained"}, a.heard())
	})
}

// An owner at the same address with a lower generation than the record's came before the owner, not after it.
func TestAnEarlierProcessIsNoSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		earlier := start(t, dir, "a")
		b := start(t, dir, "b")
		elapse(time.Minute)
		owner := cluster.Member{Process: cluster.Process{Incarnation: "a2", Self: "http://a"}, Generation: earlier.Me().Generation + 1}
		require.False(t, b.Gone(t.Context(), owner), "the engine that went back has lost its entry")
		owner.Generation = earlier.Me().Generation - 1
		require.True(t, b.Gone(t.Context(), owner))
	})
}

// What a young directory does not know it may have lost, also for a process that joined after the loss.
func TestAYoungDirectoryProvesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		elapse(time.Hour)
		dir.Forget()
		elapse(lease)
		b := start(t, dir, "b")
		_, err := b.Find(t.Context(), "c/unknown")
		require.ErrorIs(t, err, member.ErrWentBack)
		elapse(lease)
		_, err = b.Find(t.Context(), "c/unknown")
		require.ErrorIs(t, err, member.ErrWentBack, "two leases")
		elapse(1)
		_, err = b.Find(t.Context(), "c/unknown")
		require.ErrorIs(t, err, cluster.ErrUnknown)
	})
}

// A Save that was given up may arrive after later ones.
func TestALateSaveTakesNothingBack(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		saves := &lateSaves{Directory: dir}
		state := "0"
		config := func(name string, epoch uint64) member.RecordConfig {
			return member.RecordConfig{
				Directory: saves, Owner: cluster.Member{Process: cluster.Process{Incarnation: name, Self: name}, Generation: epoch}, Key: "s", Epoch: epoch,
				TTL: time.Hour, State: func() []byte { return []byte(state) }, Term: func() uint64 { return 1 }, Moved: func() {},
			}
		}
		stands := func() *cluster.Record {
			found, err := dir.Find(t.Context(), "s", cluster.Process{})
			require.NoError(t, err)
			return found.Record
		}
		save := func(r *member.Record, s string) {
			state = s
			r.Changed()
			require.NoError(t, r.Save(0))
		}
		r := member.NewRecord(config("a", 1))
		require.NoError(t, r.Create(1, nil))
		require.EqualValues(t, 1, stands().Generation)
		save(r, "1")
		late := saves.last
		save(r, "2")
		require.NoError(t, late())
		require.Equal(t, "2", string(stands().State))

		adopted, _, err := dir.Adopt(t.Context(), "s", r.Fence, cluster.Member{Process: cluster.Process{Incarnation: "b", Self: "b"}, Generation: 2}, time.Hour)
		require.NoError(t, err)
		next := member.Adopted(config("b", 2), 1, eventstore.Fence{}, adopted)
		saves.last = nil
		require.NoError(t, next.Save(0))
		require.Nil(t, saves.last, "the directory has the state")
		save(next, "3")
		require.Equal(t, "3", string(stands().State), "the new owner goes on with the version")
		require.EqualValues(t, 3, stands().Version)
		require.NoError(t, next.Restore())
		require.Equal(t, "3", string(stands().State))
		elapse(time.Second) // timers
	})
}

// lateSaves is a directory that can repeat the last Save.
type lateSaves struct {
	cluster.Directory

	last func() error
}

func (d *lateSaves) Save(ctx context.Context, session string, fence eventstore.Fence, version uint64, state []byte) error {
	d.last = func() error { return d.Directory.Save(context.WithoutCancel(ctx), session, fence, version, state) }
	return d.last()
}
