package member_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/internal/member"
)

const lease = 9 * time.Second

// process is a member with what it was told.
type process struct {
	*member.Member
	mu   sync.Mutex
	told []string
}

func (p *process) tell(what string) func() {
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told = append(p.told, what)
	}
}

// heard returns what it was told since the last call.
func (p *process) heard() (told []string) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	told, p.told = p.told, nil
	return told
}

func start(t *testing.T, dir cluster.Directory, name string) *process {
	t.Helper()
	p := &process{}
	p.Member = member.Start(member.Config{
		Directory: dir, Process: cluster.Process{Cluster: "c", Incarnation: name, Self: "http://" + name[:1]}, Lease: lease, Timeout: time.Second,
		Lost: p.tell("lost"), Regained: p.tell("regained"), Doubted: p.tell("doubted"), Superseded: p.tell("superseded"), Tick: func() {},
		Away: func(error) { p.tell("away")() },
	})
	t.Cleanup(p.Stop)
	synctest.Wait()
	return p
}

func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var errAway = errors.New("away")

// engine is a directory that can be away, for one process.
type engine struct {
	cluster.Directory
	mu   sync.Mutex
	away bool
	deaf bool // the next renewal is done, and its answer is lost
}

func (e *engine) setAway(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = away
}

func (e *engine) Renew(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.View, error) {
	e.mu.Lock()
	away, deaf := e.away, e.deaf
	e.deaf = false
	e.mu.Unlock()
	if away {
		return cluster.View{}, errAway
	}
	v, err := e.Directory.Renew(ctx, m, lease)
	if deaf {
		return cluster.View{}, errAway
	}
	return v, err
}

func bubble(t *testing.T, f func(t *testing.T, dir *cluster.Memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, cluster.NewMemory(eventstore.MemoryConfig{})) })
}

func TestAProcessIsDeadAfterAWholeLeaseWithoutRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		mine := &engine{Directory: dir}
		a, b := start(t, mine, "a"), start(t, dir, "b")
		elapse(time.Minute)
		require.True(t, a.Holds())
		require.False(t, b.Gone(t.Context(), a.Me()), "it renews")
		mine.setAway(true)
		elapse(lease - time.Second)
		require.False(t, b.Gone(t.Context(), a.Me()), "it may be alive")
		elapse(lease)
		require.False(t, a.Holds(), "its lease is over before any other may take it for dead")
		require.True(t, b.Gone(t.Context(), a.Me()))
	})
}

func TestAProcessThatHasComeBackIsNotDead(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		mine := &engine{Directory: dir}
		a := start(t, mine, "a")
		elapse(time.Second)
		b := start(t, dir, "b")
		mine.setAway(true)
		elapse(30 * time.Second) // a renews at whole multiples of 3 s, and b a second later
		require.False(t, a.Holds())
		mine.setAway(false)
		elapse(2500 * time.Millisecond)
		require.True(t, a.Holds())
		require.False(t, b.Gone(t.Context(), a.Me()), "b has not looked since then")
	})
}

// requireNeverTwo waits until a process that cannot renew is dead for another one. At no time may both serve its sessions.
func requireNeverTwo(t *testing.T, a, b *process) {
	t.Helper()
	for range 300 {
		gone := b.Gone(t.Context(), a.Me())
		require.False(t, gone && a.Holds(), "two processes would serve one session")
		if gone {
			return
		}
		elapse(100 * time.Millisecond)
	}
	require.Fail(t, "a process that cannot renew is dead at some time")
}

// A renewal that the engine has lost, before the others could see it, has given its process a lease all the same.
func TestALeaseEndsBeforeOthersSeeItAlsoIfTheEngineGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		mine := &engine{Directory: dir}
		a := start(t, mine, "a")
		elapse(time.Second)
		b := start(t, dir, "b")
		elapse(32500 * time.Millisecond) // a has renewed half a second ago, and b will do so in half a second
		dir.Forget()
		mine.setAway(true)
		requireNeverTwo(t, a, b)
	})
}

func TestALeaseEndsBeforeOthersSeeIt(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		mine := &engine{Directory: dir}
		a, b := start(t, mine, "a"), start(t, dir, "b")
		elapse(time.Minute)
		mine.setAway(true)
		requireNeverTwo(t, a, b)
	})
}

// An engine that was away expires every lease at once. That proves nothing about anybody.
func TestAnEngineThatWasAwayKillsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		ours, theirs := &engine{Directory: dir}, &engine{Directory: dir}
		a, b := start(t, theirs, "a"), start(t, ours, "b")
		elapse(time.Minute)
		ours.setAway(true)
		theirs.setAway(true)
		elapse(3 * lease)
		require.Equal(t, []string{"away"}, b.heard(), "said once")
		require.False(t, b.Gone(t.Context(), a.Me()), "nobody has asked the directory")
		ours.setAway(false)
		elapse(lease / 2)
		require.Equal(t, []string{"regained"}, b.heard())
		require.False(t, b.Gone(t.Context(), a.Me()), "it has a whole lease to come back")
		theirs.setAway(false)
		elapse(lease)
		require.False(t, b.Gone(t.Context(), a.Me()), "it came back")
		require.True(t, a.Holds())
		require.True(t, b.Holds())
	})
}

// The first renewal after the loss arrives, and its answer does not. So at the next one the engine has a count that this process has written.
func TestAnEngineThatWentBackIsNoticedAlsoIfAnAnswerIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		mine := &engine{Directory: dir}
		a := start(t, mine, "a")
		elapse(time.Minute)
		a.heard()
		dir.Forget()
		mine.mu.Lock()
		mine.deaf = true
		mine.mu.Unlock()
		elapse(lease / 3 * 2)
		require.Contains(t, a.heard(), "lost")
		_, err := a.Find(t.Context(), "c/unknown")
		require.ErrorIs(t, err, member.ErrWentBack)
	})
}

func TestAnEngineThatWentBackIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		a, b := start(t, dir, "a"), start(t, dir, "b")
		elapse(time.Minute)
		a.heard()
		dir.Forget()
		_, err := a.Find(t.Context(), "c/unknown")
		require.ErrorIs(t, err, member.ErrWentBack, "what it does not know it may have lost")
		elapse(lease / 3)
		require.Equal(t, []string{"lost"}, a.heard())
		require.Equal(t, []string{"lost"}, b.heard())
		_, err = a.Find(t.Context(), "c/unknown")
		require.ErrorIs(t, err, member.ErrWentBack, "others may not have restored what it does not know")
		elapse(2 * lease)
		_, err = a.Find(t.Context(), "c/unknown")
		require.ErrorIs(t, err, cluster.ErrUnknown, "everything that is left of it was restored by now")
		require.False(t, b.Gone(t.Context(), a.Me()))
		require.Empty(t, a.heard(), "said once")
	})
}

func TestANewProcessAtTheAddressReplacesTheOldOne(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		a, b := start(t, dir, "a"), start(t, dir, "b")
		elapse(time.Minute)
		a.heard()
		newer := start(t, dir, "a2")
		elapse(lease / 3)
		require.True(t, b.Gone(t.Context(), a.Me()), "as soon as the next view shows it")
		require.False(t, b.Gone(t.Context(), newer.Me()))
		require.Equal(t, []string{"superseded"}, a.heard())
		require.False(t, a.Holds())
		require.True(t, newer.Holds())
		newer.Stop()
		elapse(lease / 3)
		require.True(t, b.Gone(t.Context(), newer.Me()), "it has left")
	})
}

// The owner of a session may have joined after the last view that another process has.
func TestAProcessThatIsNewerThanTheViewIsAlive(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		_, b := start(t, dir, "a"), start(t, dir, "b")
		elapse(lease / 9)
		newer := start(t, dir, "a2")
		require.False(t, b.Gone(t.Context(), newer.Me()))
		require.True(t, newer.Holds())
	})
}

func TestAProcessThatNobodyHasSeenHasALease(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		b := start(t, dir, "b")
		stranger := cluster.Member{Process: cluster.Process{Incarnation: "x", Self: "http://x"}, Generation: 1}
		require.False(t, b.Gone(t.Context(), stranger))
		elapse(lease - time.Second)
		require.False(t, b.Gone(t.Context(), stranger))
		elapse(lease / 2)
		require.True(t, b.Gone(t.Context(), stranger))
	})
}

// The lease of a process that cannot renew it ends. It must ask for its sessions then, and once more a lease later.
func TestTermsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, dir *cluster.Memory) {
		mine := &engine{Directory: dir}
		a := start(t, mine, "a")
		elapse(time.Minute)
		require.Zero(t, a.Term())
		mine.setAway(true)
		elapse(lease / 2)
		mine.setAway(false)
		elapse(lease)
		require.Zero(t, a.Term(), "it was renewed in time")
		mine.setAway(true)
		elapse(2 * lease)
		require.False(t, a.Holds())
		mine.setAway(false)
		elapse(lease / 3)
		require.True(t, a.Holds())
		require.EqualValues(t, 1, a.Term())
		require.Equal(t, []string{"away", "regained", "away", "regained"}, a.heard())
		elapse(2 * lease)
		require.EqualValues(t, 2, a.Term())
		require.Equal(t, []string{"doubted"}, a.heard())
		elapse(time.Hour)
		require.EqualValues(t, 2, a.Term())
	})
}
