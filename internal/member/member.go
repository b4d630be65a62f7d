package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/internal/safe"
)

// Config is what a Member needs.
type Config struct {
	Directory cluster.Directory
	Process   cluster.Process
	Lease     time.Duration
	Timeout   time.Duration // of one operation of the directory; at most a third of the lease is used
	// Each of these but Superseded is called from the member's goroutine, one at a time. Renewals wait for it.
	Lost       func()          // the directory has lost data: it has a lower count than this process had written
	Regained   func()          // the directory answers again, after Away, or the lease is renewed that had run out
	Doubted    func()          // a new Term has begun, and there is nothing else to tell
	Away       func(err error) // the directory does not answer, for the first time since it did
	Superseded func()          // another process has joined with the same address: called once, and nothing after it
	Tick       func()          // after each renewal that succeeded
}

// Member is this process in its cluster. Safe for concurrent use.
type Member struct {
	cfg  Config
	stop context.CancelFunc
	done chan struct{}
	told chan struct{} // closed when the directory has answered for the first time, or has not
	base time.Time

	held  atomic.Int64  // when the lease ends, since base; 0: there is none
	term  atomic.Uint64 // how often the lease had run out when it was renewed
	count atomic.Uint64 // the last one that the directory has acknowledged
	busy  atomic.Int64  // renewals that have begun
	ended atomic.Int64  // renewals that have ended

	wentBack atomic.Bool // the directory has less than it had acknowledged, and Lost was not called for that yet
	lapsed   atomic.Bool // the lease was renewed after it had run out, and Regained was not called for that yet
	doubted  atomic.Bool // a term has begun a lease after such a renewal, and Doubted was not called for that yet
	away     bool        // Away was called, and Regained was not yet; only run uses it

	mu       sync.Mutex
	me       cluster.Member // Generation 0: it has not joined yet
	proposed uint64         // the generation with which it tries to join; only renew uses it
	over     bool           // superseded
	stopped  bool
	stands   time.Time // since when the directory has not gone back, as far as this process knows
	viewed   int64     // which renewal has brought the last view
	watch

	renewing chan struct{} // has room for one renewal. It is not a mutex, because a renewal waits for the directory
	again    int64         // when the next term begins, since base; 0: when the lease runs out. Only that renewal uses it
}

// Start joins and renews from then on, in a goroutine, until Stop. If the directory does not answer, it tries again.
func Start(cfg Config) *Member {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Member{cfg: cfg, stop: cancel, done: make(chan struct{}), told: make(chan struct{}), base: time.Now(), watch: newWatch(cfg.Lease), renewing: make(chan struct{}, 1)}
	m.me.Process = cfg.Process
	go m.run(ctx)
	return m
}

// Stop ends the renewals, and tells the directory that this process has left.
func (m *Member) Stop() {
	m.stop()
	<-m.done
	m.mu.Lock()
	me, over := m.me, m.over
	m.stopped = true
	m.held.Store(0)
	m.mu.Unlock()
	if over || me.Generation == 0 {
		return
	}
	ctx, cancel := m.deadline(context.Background())
	defer cancel()
	_ = Safely(func() error { return m.cfg.Directory.Leave(ctx, me) }) // else its lease runs out
}

// Holds reports whether the lease of this process lasts. Only then it may serve its sessions.
func (m *Member) Holds() bool { return int64(time.Since(m.base)) < m.held.Load() }

// Serves reports whether this process may serve its sessions. A process that has just started waits until it has joined, or could not.
func (m *Member) Serves(ctx context.Context) bool {
	if m.Holds() {
		return true
	}
	select {
	case <-m.told:
	case <-ctx.Done():
	}
	return m.Holds()
}

// Term counts terms: a new one begins when the lease is renewed after it had run out, and one more a whole lease later, because an adoption may have
// been on its way. In another term, other processes may have adopted sessions of this one meanwhile. So ask for it after Holds.
func (m *Member) Term() uint64 { return m.term.Load() }

// run is the member's goroutine.
func (m *Member) run(ctx context.Context) {
	defer close(m.done)
	every := time.NewTimer(0)
	defer every.Stop()
	first := sync.OnceFunc(func() { close(m.told) })
	defer first()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		began := time.Now()
		if !m.turn(ctx) {
			return
		}
		first()
		every.Reset(max(m.cfg.Lease/3-time.Since(began), m.cfg.Lease/30))
	}
}

// turn joins or renews once, and tells what it has found. It returns false after the end.
func (m *Member) turn(ctx context.Context) bool {
	err := m.renew(ctx, -1)
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, cluster.ErrSuperseded):
		go m.cfg.Superseded() // it may call Stop
		return false
	case err != nil:
		if !m.away {
			m.away = true
			m.cfg.Away(err)
		}
		return true
	case m.wentBack.Swap(false):
		m.lapsed.Store(false)
		m.cfg.Lost()
	case m.lapsed.Swap(false) || m.away:
		m.cfg.Regained()
	case m.doubted.Swap(false):
		m.cfg.Doubted()
	}
	m.away = false
	m.cfg.Tick()
	return true
}

// renew joins or renews once. after is how many renewals had begun when the caller asked: one that has begun later, and succeeded while the caller
// waited for its turn, is enough. -1: none is.
func (m *Member) renew(ctx context.Context, after int64) (err error) {
	select {
	case m.renewing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-m.renewing }()
	m.mu.Lock()
	me, over, viewed := m.me, m.over, m.viewed
	m.mu.Unlock()
	switch {
	case over:
		return cluster.ErrSuperseded
	case after >= 0 && viewed > after:
		return nil
	}
	ctx, cancel := m.deadline(context.WithoutCancel(ctx)) // a client that disconnects says nothing of the directory
	defer cancel()
	if me.Generation == 0 {
		if me, err = m.join(ctx); err != nil {
			m.failed(nil)
			return err
		}
	}
	me.Count++
	m.keep(me)
	number := m.busy.Add(1)
	began := time.Now()
	var view cluster.View
	err = Safely(func() (err error) {
		view, err = m.cfg.Directory.Renew(ctx, me, m.cfg.Lease)
		return err
	})
	now := time.Now()
	defer m.ended.Add(1)
	if err != nil {
		m.failed(err)
		return err
	}
	// More than was acknowledged: an earlier renewal has arrived, and its answer has not. The engine may have gone back before that one.
	back := view.Was != m.count.Load()
	if back {
		m.wentBack.Store(true)
	}
	m.count.Store(me.Count)
	switch ended, at := m.held.Load(), int64(now.Sub(m.base)); {
	case ended != 0 && at >= ended:
		m.lapsed.Store(true)
		m.term.Add(1)
		m.again = at + int64(m.cfg.Lease)
	case m.again != 0 && at >= m.again:
		m.doubted.Store(true)
		m.term.Add(1)
		m.again = 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped {
		m.held.Store(int64(began.Add(m.cfg.Lease).Sub(m.base)))
	}
	if back || m.stands.IsZero() {
		m.stands = now
	}
	m.see(began, now, view.Members, back) // if it went back, it may have lost renewals of others, which have given them a lease
	m.viewed = number
	return nil
}

// joinAgain is how often a process tries to join if others that have its Self join at the same time.
const joinAgain = 3

// join joins with a generation that is higher than that of an earlier process with this Self. A proposal that was not answered is made again as it
// was: it may have arrived, or may still arrive.
func (m *Member) join(ctx context.Context) (me cluster.Member, err error) {
	if m.proposed == 0 {
		m.proposed = clock(1)
	}
	for range joinAgain {
		err = Safely(func() (err error) {
			me, err = m.cfg.Directory.Join(ctx, cluster.Member{Process: m.cfg.Process, Generation: m.proposed}, m.cfg.Lease)
			return err
		})
		if !errors.Is(err, cluster.ErrSuperseded) {
			return me, err
		}
		m.proposed = clock(me.Generation + 1)
	}
	return me, fmt.Errorf("cannot join, because other processes with the same Self join all the time: %v", err) //nolint:errorlint // it is not superseded
}

// clock is a generation that is at least min.
func clock(least uint64) uint64 { return max(uint64(max(time.Now().UnixMicro(), 0)), least) }

// keep notes a count before it is sent, since it must never be sent again.
func (m *Member) keep(me cluster.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.me = me
}

// failed notes a renewal that did not succeed.
func (m *Member) failed(err error) {
	if errors.Is(err, cluster.ErrSuperseded) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.over = true
		m.held.Store(0)
	}
}

// deadline bounds an operation of the directory. A renewal that takes long must not keep the next one from being in time.
func (m *Member) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := m.cfg.Lease / 3
	if m.cfg.Timeout > 0 {
		limit = min(limit, m.cfg.Timeout)
	}
	return context.WithTimeout(ctx, limit)
}

// Gone reports whether the sessions of a process may be adopted: owner has the Incarnation, the Self and the Generation of a record. Before it says
// yes it looks once more: since the last view a process that was away may have come back, and its sessions are its own again.
func (m *Member) Gone(ctx context.Context, owner cluster.Member) bool {
	asked := m.busy.Load()
	return m.fateOf(owner) != Alive && m.renew(ctx, asked) == nil && m.fateOf(owner) != Alive
}

// Suspects reports whether Gone might say yes.
func (m *Member) Suspects(owner cluster.Member) bool { return m.fateOf(owner) != Alive }

// Others returns the other processes that may be alive, by the last view.
func (m *Member) Others() []cluster.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.others(m.me.Incarnation)
}

// Look asks the directory for the members as they are now.
func (m *Member) Look(ctx context.Context) { _ = m.renew(ctx, m.busy.Load()) } // if it fails, the last view stands

// Stands asks the directory whether it still has what was written before the call. lost: it may have lost some of that, within the last lease.
func (m *Member) Stands(ctx context.Context) (lost bool, err error) {
	if err = m.renew(ctx, m.busy.Load()); err != nil {
		return false, err
	}
	return m.isUnsure(), nil
}

func (m *Member) fateOf(owner cluster.Member) Fate {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fate(time.Now(), owner)
}

// Me returns this process as it has joined. Generation is 0 before that.
func (m *Member) Me() cluster.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.me
}

// Find returns the record of a session. Unlike the directory it does not return cluster.ErrUnknown where the engine may have lost the record:
// then the error says that the directory went back. After a directory went back each owner has a lease to write its records again. A process
// that has just joined cannot know whether it went back.
func (m *Member) Find(ctx context.Context, session string) (*cluster.Record, error) {
	for range 3 {
		ended, before := m.ended.Load(), m.count.Load()
		quiet := ended == m.busy.Load()
		var found cluster.Found
		err := Safely(func() (err error) {
			found, err = m.cfg.Directory.Find(ctx, session, m.cfg.Process)
			return err
		})
		switch {
		case !errors.Is(err, cluster.ErrUnknown):
			return found.Record, err
		case found.Count < before || before == 0 || found.Age <= restoredAfter*m.cfg.Lease || m.isUnsure():
			return nil, ErrWentBack
		case quiet && m.busy.Load() == ended:
			return nil, err
		}
	}
	return nil, ErrWentBack
}

// isUnsure reports whether the directory may lack records that their owners are about to write again.
func (m *Member) isUnsure() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stands.IsZero() || time.Since(m.stands) < m.cfg.Lease
}

// restoredAfter leases after a loss all owners that live have noticed it and have restored their records.
const restoredAfter = 2

// ErrWentBack says that the directory has no record of a session, and may have lost it.
var ErrWentBack = errors.New("the directory has lost data, or is being asked while it changes")

// Safely calls the directory. A panic becomes an error: it must not end the process, and the goroutines that call it have no caller that recovers.
func Safely(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the directory has panicked: %v\n%s", v, safe.Stack())
		}
	}()
	return call()
}
