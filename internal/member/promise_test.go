package member_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/internal/member"
)

// The engine was away for all. The process that is back first sees the old counts of the others, which proves nothing.
func TestContactRegainedGivesEverybodyALease(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		to, other := &engine{Directory: dir}, &engine{Directory: dir}
		a := start(t, to, "a1")
		elapse(time.Second)
		b := start(t, other, "b1")
		elapse(lease + time.Second) // it has seen all renewals
		to.setAway(true)
		other.setAway(true)
		elapse(3 * lease)
		other.setAway(false)
		elapse(lease/3 + time.Second)
		require.True(t, b.Holds())
		require.False(t, b.Gone(t.Context(), a.Me()))
	})
}

// An engine that goes back may have lost a renewal that no other process has seen.
func TestAnEngineThatGoesBackGivesEverybodyALease(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		to := &engine{Directory: dir}
		a := start(t, to, "a1")
		elapse(time.Second)
		b := start(t, dir, "b1")
		elapse(8500 * time.Millisecond)
		to.setAway(true)
		elapse(11 * time.Second)
		to.setAway(false)
		elapse(time.Second) // a renews
		require.True(t, a.Holds())
		dir.Forget()
		elapse(700 * time.Millisecond) // b renews
		require.False(t, b.Gone(t.Context(), a.Me()))
		require.True(t, a.Holds())
	})
}

// A lease begins when the renewal is sent: the others may have seen it then.
func TestALeaseBeginsWhenItsRenewalIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		link := clustertest.NewFaulty(dir, dir, func(clustertest.Call) clustertest.Fault {
			return clustertest.Fault{DelayAnswer: 900 * time.Millisecond}
		})
		a := start(t, link, "a1")
		for link.Count("renew") < 3 {
			elapse(100 * time.Millisecond)
		}
		sent := time.Now()
		elapse(950 * time.Millisecond)
		link.SetLink(clustertest.Refused)
		elapse(time.Until(sent.Add(lease - 200*time.Millisecond)))
		require.True(t, a.Holds())
		elapse(300 * time.Millisecond)
		require.False(t, a.Holds())
	})
}

// A renewal that is on its way may write the count anew after the engine has gone back, so what is not found meanwhile may have been lost.
func TestWhatIsNotFoundDuringARenewal(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		link := clustertest.NewFaulty(dir, dir, nil)
		a := start(t, link, "a1")
		elapse(4 * lease)
		_, err := a.Find(t.Context(), "x")
		require.ErrorIs(t, err, cluster.ErrUnknown)
		link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "renew" {
				f.DelayAnswer = 900 * time.Millisecond
			}
			return f
		})
		for n := link.Count("renew"); link.Count("renew") == n; {
			elapse(100 * time.Millisecond)
		}
		_, err = a.Find(t.Context(), "x")
		require.ErrorIs(t, err, member.ErrWentBack)
		synctest.Wait()
	})
}
