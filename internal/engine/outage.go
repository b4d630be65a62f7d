package engine

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// In a cluster an event waits for a store that does not answer, for ClusterConfig.Outage: its client should get only what another process could
// serve, too. The sender does not wait with it: a goroutine takes over the turn of the stream.

var errAway = errors.New("the store does not answer")

// away is what carry returns instead of a reason of the machine, if the message waits for the store.
const away core.Reason = 255

const (
	minOutageWait = 50 * time.Millisecond // between two attempts
	maxOutageWait = time.Second
)

// jittered adds up to a half to a wait. All streams of a process lose the store at the same time, and must not all come back to it together.
func jittered(wait time.Duration) time.Duration {
	return wait + rand.N(wait/2+1) //nolint:gosec // nothing secret
}

// isAway reports whether an error of an append says that the store does not answer. Other errors say that it has answered.
func isAway(err error, seal bool) bool {
	if err == nil || isLoss(err) || errors.Is(err, eventstore.ErrFull) && !seal {
		return false
	}
	for _, answer := range []error{eventstore.ErrFenced, eventstore.ErrSequence, eventstore.ErrSealed, eventstore.ErrClosed} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// appendAgain tries an append that has failed again, until the store answers, the outage lasts too long, or the server closes.
func (s *Session) appendAgain(st *stream, log eventstore.Log, first uint64, events [][]byte, seal, urgent bool) (err error) {
	s.setAway(st, true)
	defer s.setAway(st, false)
	until := time.Now().Add(s.engine.cfg.Cluster.Outage)
	for wait := minOutageWait; ; wait = min(2*wait, maxOutageWait) {
		time.Sleep(min(jittered(wait), time.Until(until)))
		if s.isDropped(st) {
			return errDropped
		}
		if err = s.appendTo(log, first, events, seal, urgent); !isAway(err, seal) || !time.Now().Before(until) || s.isStopped() {
			return err
		}
	}
}

// setAway notes whether a stream waits for a store that does not answer. A client that is to be let go does not wait with it.
func (s *Session) setAway(st *stream, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.away = away
	st.pending.letIn()
	st.wake()
}

func (s *Session) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// carryLater goes on with a message that waits for the store, in a goroutine of its own.
//
//go:noinline
func (s *Session) carryLater(st *stream, m Message, p pass) {
	go func() {
		s.unsent(&m, s.carry(&m, &p, true))
		s.drainQueue(st, &m, &p, true)
	}()
}

// chore is something that is done in the turn of a stream, and is not a message.
type chore uint8

const (
	noChore     chore = iota
	beginChore        // make sure that the store knows the stream
	healChore         // give the store what it was not given while it did not answer
	refillChore       // and what it has lost
)

// doInTurn does a chore when it is the stream's turn for it, perhaps later.
func (s *Session) doInTurn(st *stream, what chore) {
	m, p := Message{chore: what}, pass{of: st}
	s.mu.Lock()
	if st.appending {
		w := st.wait()
		w.queue = append(w.queue, m)
		s.mu.Unlock()
		return
	}
	st.appending = true
	s.mu.Unlock()
	s.carry(&m, &p, true)
	s.drainQueue(st, &m, &p, true)
}

// do does a chore. It is called without the lock, by the goroutine whose turn it is.
func (s *Session) doChore(st *stream, what chore) {
	if s.isDropped(st) {
		return
	}
	var err error
	switch what {
	case beginChore:
		err = s.beginLog(st)
	case healChore, refillChore:
		err = s.healLog(st, what == refillChore)
	}
	switch {
	case errors.Is(err, eventstore.ErrFenced):
		s.regain()
	case err != nil && what == refillChore:
		s.owner.Record.MarkLost()
	}
}

// regain is called when the store has said that another process owns the session. It takes the session back if the engine has only forgotten that
// this process has adopted it. Otherwise the session ends here, and regain returns false.
func (s *Session) regain() bool {
	if s.owner != nil && s.owner.Record.Regain() == nil {
		s.owner.Record.MarkLost()
		return true
	}
	s.End(core.Moved, nil)
	return false
}

// beginLog makes sure that the store knows the stream.
func (s *Session) beginLog(st *stream) error {
	if st.begun {
		return nil
	}
	s.mu.Lock()
	st.naming(s.id, s.owner != nil)
	s.mu.Unlock()
	first := st.last + 1 // only the goroutine whose turn it is changes it
	log, err := s.record(st, first, nil, false, false, true)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.log != log {
		s.relog(st, first, log)
	}
	st.wake()
	return nil
}

// healLog gives the store what it does not have of a stream.
func (s *Session) healLog(st *stream, lost bool) error {
	log := st.log
	if log == nil {
		return nil
	}
	local, _ := log.(*localLog)
	base := log
	if local != nil {
		base = local.base
	}
	if own, ok := base.(*ownLog); ok && lost {
		if err := s.refillLog(own); err != nil {
			return err
		}
	}
	if local == nil || local.hopeless {
		return nil
	}
	local.timed = false
	began := time.Now()
	err := s.catchUp(local)
	if err == nil && local.from == st.last+1 { // it has no events
		err = s.appendTo(base, local.from, nil, false, false)
	}
	if err != nil {
		if !errors.Is(err, errCatchingUp) {
			local.failed(err, time.Since(began))
		}
		s.healLater(st, local)
		return err
	}
	local.heal()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relog(st, st.last, base)
	if c := st.conn; c != nil && c.orders.greeting == primer { // it has got events without ids
		c.owesID = true
	}
	st.wake()
	return nil
}

// healLater gives the store what it does not have of a stream when it is worth another try, also if no event comes that would. The turn is the
// caller's.
func (s *Session) healLater(st *stream, l *localLog) {
	if l.timed {
		return
	}
	l.timed = true
	time.AfterFunc(max(time.Until(l.tryAt), 0)+jittered(minOutageWait), func() { s.doInTurn(st, healChore) })
}

// refillLog calls the store. One that panics has failed.
func (s *Session) refillLog(l *ownLog) (err error) {
	defer s.recovered("eventstore.Log.Restore", func() { err = errStorePanic })
	return l.refill()
}

// RestoreLogs gives the store what it does not have of the session's streams. lost: it may have lost what it had.
func (s *Session) RestoreLogs(lost bool) {
	what := healChore
	if lost {
		what = refillChore
	}
	s.mu.Lock()
	var streams []*stream
	for _, st := range s.streams {
		if st != nil && st.log != nil {
			streams = append(streams, st)
		}
	}
	s.mu.Unlock()
	for _, st := range streams {
		if !lost {
			s.mu.Lock()
			_, local := st.log.(*localLog)
			s.mu.Unlock()
			if !local {
				continue
			}
		}
		s.doInTurn(st, what)
	}
}

// readsLater reports whether a connection reads again later, because the store does not answer: what it has recorded is not lost by that. It does
// so for as long as events would wait. Only the goroutine that serves the connection calls it.
func (c *Conn) readsLater(err error) bool {
	switch {
	case c.s.owner == nil:
		return false
	case err == nil:
		c.failing = time.Time{}
		return false
	case !isAway(err, false):
		return false
	case c.failing.IsZero():
		c.failing = time.Now()
	case time.Since(c.failing) > c.s.engine.cfg.Cluster.Outage:
		return false
	}
	s, id := c.s, c.id // the connection may be another one by then
	time.AfterFunc(jittered(maxOutageWait/2), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c := s.conn(id); c != nil {
			c.wake()
		}
	})
	return true
}
