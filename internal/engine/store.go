package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// This file has all calls of the event store. None is made under the lock, and each catches a panic.

var (
	errStorePanic = errors.New("the store panicked")
	errCatchingUp = errors.New("the store has not been given all that it missed yet")
	errDropped    = errors.New("the stream was dropped meanwhile")
)

// record keeps events in the store, or where that fails in memory, and returns the log that has them. Without events it makes sure that the store
// knows the stream. It is called without the lock, by the sender whose turn it is. eventstore.ErrFull: neither has room. eventstore.ErrFenced.
// errDropped. errAway: the store does not answer, and mayWait is false, so nothing was tried again; call it again where it may wait.
func (s *Session) record(st *stream, first uint64, events [][]byte, seal, urgent, mayWait bool) (eventstore.Log, error) {
	log := st.log // only the appender sets it
	if log == nil {
		log = s.logOf(st)
	}
	local, _ := log.(*localLog)
	if local == nil {
		began := s.engine.clock()
		err := s.appendTo(log, first, events, seal, urgent)
		if s.owner != nil && isAway(err, seal) && s.engine.cfg.Cluster.Outage > 0 {
			if !mayWait {
				return log, errAway
			}
			err = s.appendAgain(st, log, first, events, seal, urgent)
		}
		switch {
		case err == nil, errors.Is(err, eventstore.ErrFenced), errors.Is(err, eventstore.ErrFull) && !seal:
			return log, err
		case errors.Is(err, eventstore.ErrGone) && s.isDropped(st), errors.Is(err, errDropped):
			return log, errDropped
		}
		local = &localLog{base: log, from: first}
		s.storeFailed(st, local, err, s.engine.clock().Sub(began))
	} else if local.due() {
		began := s.engine.clock()
		err := s.catchUp(local)
		if err == nil {
			err = s.appendTo(local.base, first, events, seal, urgent)
			if errors.Is(err, eventstore.ErrFull) && !seal {
				return local, err
			}
		}
		switch {
		case err == nil:
			local.heal()
			return local.base, nil
		case errors.Is(err, eventstore.ErrFenced):
			return local, err
		case errors.Is(err, eventstore.ErrGone) && s.isDropped(st):
			return local, errDropped
		case errors.Is(err, errCatchingUp):
		default:
			s.storeFailed(st, local, err, s.engine.clock().Sub(began))
		}
	}
	return local, local.Append(context.Background(), first, events, seal)
}

// logOf asks the store for the log of a stream.
func (s *Session) logOf(st *stream) (log eventstore.Log) {
	key := s.logKey(st)
	defer s.recovered("eventstore.Store.Log", func() { log = &lateLog{store: s.engine.cfg.Store, key: key} })
	log = s.engine.cfg.Store.Log(key)
	if s.owner != nil {
		log = &ownLog{s: s, st: st, base: log, tail: s.engine.cfg.Cluster.Tail.Log(key)}
	}
	return log
}

// batches has batches of one event.
var batches = sync.Pool{New: func() any { return new([1][]byte) }}

// appendTo calls the store. If it panics it has failed: otherwise the next sender on this stream would wait for its turn for ever.
func (s *Session) appendTo(log eventstore.Log, first uint64, events [][]byte, seal, urgent bool) (err error) {
	ctx, cancel := s.engine.deadline()
	defer cancel()
	if urgent {
		ctx = eventstore.ContextWithUrgency(ctx)
	}
	defer s.recovered("eventstore.Log.Append", func() { err = errStorePanic })
	return log.Append(ctx, first, events, seal)
}

// clock is the time, where operations of the store may take any.
func (e *Engine) clock() (now time.Time) {
	if !e.instant {
		now = time.Now()
	}
	return now
}

// catchUp gives the store what it has missed.
func (s *Session) catchUp(l *localLog) error {
	began := time.Now()
	missing, sealed := l.missing()
	for len(missing) > 0 {
		if time.Since(began) > maxCatchUp {
			return errCatchingUp
		}
		events := make([][]byte, 0, min(len(missing), maxBatch))
		for _, e := range missing[:cap(events)] {
			events = append(events, e.Data)
		}
		n := fitting(events)
		events = events[:n]
		if err := s.appendTo(l.base, missing[0].Seq, events, sealed && n == len(missing), false); err != nil {
			return err
		}
		l.caught = missing[n-1].Seq
		missing = missing[n:]
	}
	return nil
}

// storeFailed notes that an append failed. A store that is full has not failed.
func (s *Session) storeFailed(st *stream, l *localLog, err error, took time.Duration) {
	switch {
	case isLoss(err):
		s.lostData(st, l.from, err)
	case !errors.Is(err, eventstore.ErrFull):
		s.engine.Counters.StoreFailed.Add(1)
		s.host.Report(Event{Kind: StoreFailed, Err: err})
	}
	l.failed(err, took)
	if s.owner != nil && !l.hopeless {
		s.healLater(st, l)
	}
}

// isLoss reports whether a store says with err that it does not have what it was given. ErrGone says so of a log that was not dropped.
func isLoss(err error) bool {
	_, behind := errors.AsType[*eventstore.BehindError](err)
	return behind || errors.Is(err, eventstore.ErrGone)
}

// isDropped reports whether the machine has forgotten a stream.
func (s *Session) isDropped(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.dropped || s.over != core.NoReason
}

// lostData counts that the store has lost events of a stream, before next, and reports it once for each stream.
func (s *Session) lostData(st *stream, next uint64, err error) {
	s.mu.Lock()
	reported, number := st.lost, st.n
	st.lost = true
	s.mu.Unlock()
	s.engine.Counters.StoreFailed.Add(1)
	if !reported {
		s.host.Report(Event{Kind: StoreLost, Stream: number, Last: next, Err: err})
	}
}

// maxReadBytes bounds the data of one read, unless a single event is larger.
const maxReadBytes = 1 << 20

// readLog calls the store. One that panics has failed.
func (s *Session) readLog(log eventstore.Log, after uint64, buf []eventstore.Event) (n int, state eventstore.State, err error) {
	ctx, cancel := s.engine.deadline()
	defer cancel()
	defer s.recovered("eventstore.Log.Read", func() { n, err = 0, errStorePanic })
	return log.Read(ctx, after, buf, maxReadBytes)
}

// short asks the store whether it is short of room for what was written.
func (c *Conn) short(l eventstore.Limited) (is bool) {
	defer c.s.recovered("eventstore.Limited.Short", func() { is = false })
	return l.Short()
}

// mark passes a hint to the store.
func (s *Session) mark(log eventstore.Log, m eventstore.Mark) {
	defer s.recovered("eventstore.Log.Mark", func() {})
	log.Mark(m)
}

// press says that the store is short of room for a stream, and reports whether it has more now.
func (s *Session) press(in core.In) (more bool) {
	in.Rand = spread()
	var p pass
	s.take(in, &p)
	return p.yield != nil
}

// dropLog forgets a stream. A store that fails is left alone: its own limits have to do.
func (s *Session) dropLog(log eventstore.Log) {
	ctx, cancel := s.engine.deadline()
	defer cancel()
	defer s.recovered("eventstore.Log.Drop", func() { s.engine.Counters.StoreFailed.Add(1) })
	if err := log.Drop(ctx); err != nil {
		s.engine.Counters.StoreFailed.Add(1)
	}
}

// dropSession forgets what the store has of the session, and in a cluster its record.
func (s *Session) dropSession() {
	var err error
	ctx, cancel := s.engine.deadline()
	defer cancel()
	defer s.recovered("eventstore.Store.DropSession", func() { s.engine.Counters.StoreFailed.Add(1) })
	if s.owner != nil {
		s.dropTail()
		err = s.owner.Record.End()
	} else {
		err = s.engine.cfg.Store.DropSession(ctx, s.id)
	}
	if err != nil {
		s.engine.Counters.StoreFailed.Add(1)
	}
}

// dropTail forgets what this process keeps of the session beside the store.
func (s *Session) dropTail() {
	_ = s.engine.cfg.Cluster.Tail.DropSession(context.Background(), s.owner.Key) // it never waits
}

func (s *Session) logKey(st *stream) eventstore.Key {
	name, about := st.naming(s.id, s.owner != nil)
	key := eventstore.Key{
		Session: s.id, Stream: name, Backlog: st.n == 0, Principal: s.principal,
	}
	if s.owner != nil { // the engine must not learn who the session belongs to
		key.Session, key.Principal, key.Fence, key.About = s.owner.Key, "", s.owner.Fence, about
	}
	return key
}
