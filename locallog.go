package rejoin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// localLog is a log whose store has failed: what came before is the store's, what comes from then on is kept here, and has no ids when
// it is written, for nobody could find it again in another process. Numbers go on all the same. At a later event the store is tried
// again: it is given what it has missed, in sequence, and that event. Then it has everything, and the stream is the store's again; what
// had no id when it was written has its number for an id if it is ever read again, and no number was ever given to two events.
type localLog struct {
	base eventstore.Log
	from uint64 // the first event that is kept here

	// The appender's.
	caught   uint64 // the last event that the store is known to have; before it has any of ours, 0
	hopeless bool   // the store can never have it all: it has lost what was before
	tryAt    time.Time
	wait     time.Duration

	mu     sync.Mutex
	tail   []eventstore.Event
	bytes  int
	sealed bool
	healed bool // the store has everything
}

const (
	// maxLocalBytes bounds what one stream keeps of what the store would not take.
	maxLocalBytes = 4 << 20
	// A store that failed is tried again at the next event, but left alone for twice as long as it took to fail, and for longer each
	// time that it fails again.
	minStoreWait = 100 * time.Millisecond
	maxStoreWait = 30 * time.Second
	// maxCatchUp bounds how long one event waits while the store is given what it has missed; the next one goes on with that.
	maxCatchUp = time.Second
)

func (l *localLog) Append(_ context.Context, seq uint64, data []byte, seal bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes+len(data) > maxLocalBytes && !seal {
		return eventstore.ErrFull
	}
	l.tail = append(l.tail, eventstore.Event{Seq: seq, Data: data})
	l.bytes += len(data)
	l.sealed = seal
	return nil
}

// Read reads what is kept here or what is the store's, never both. *eventstore.BehindError: the store has lost what comes next.
func (l *localLog) Read(ctx context.Context, after uint64, buf []eventstore.Event) (int, eventstore.State, error) {
	l.mu.Lock()
	state := eventstore.State{First: 1, Last: l.from - 1 + uint64(len(l.tail)), Sealed: l.sealed}
	tail, healed := l.tail, l.healed
	l.mu.Unlock()
	switch {
	case healed:
		return l.base.Read(ctx, after, buf)
	case after+1 >= l.from:
		return copy(buf, tail[min(after+1-l.from, uint64(len(tail))):]), state, nil
	}
	buf = buf[:min(uint64(len(buf)), l.from-1-after)]
	n, base, err := l.base.Read(ctx, after, buf)
	if err != nil {
		return 0, state, err
	}
	if n == 0 && base.Last < l.from-1 {
		return 0, state, &eventstore.BehindError{Last: base.Last}
	}
	state.First = base.First
	return n, state, nil
}

func (l *localLog) Mark(m eventstore.Mark)         { l.base.Mark(m) }
func (l *localLog) Drop(ctx context.Context) error { return l.base.Drop(ctx) }

// names reports whether an event has an id now.
func (l *localLog) names(seq uint64) bool {
	if l == nil || seq < l.from {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.healed
}

// due reports whether the store is worth another try.
func (l *localLog) due() bool { return !l.hopeless && !time.Now().Before(l.tryAt) }

// failed notes a failure that took so long.
func (l *localLog) failed(err error, took time.Duration) {
	if behind, ok := errors.AsType[*eventstore.BehindError](err); ok {
		l.caught = behind.Last
		l.hopeless = behind.Last+1 < l.from
	}
	for _, final := range []error{eventstore.ErrGone, eventstore.ErrSequence, eventstore.ErrSealed, eventstore.ErrClosed} {
		l.hopeless = l.hopeless || errors.Is(err, final)
	}
	now := max(l.wait, 2*took)
	l.tryAt = time.Now().Add(now)
	l.wait = min(max(2*now, minStoreWait), maxStoreWait)
}

// missing are the events that the store is not known to have.
func (l *localLog) missing() []eventstore.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.caught < l.from {
		return l.tail
	}
	return l.tail[l.caught+1-l.from:]
}

// heal notes that the store has everything.
func (l *localLog) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healed, l.tail, l.bytes = true, nil, 0
}

var errCatchingUp = errors.New("the store has not been given all that it missed yet")

// record keeps an event in the store, or where that fails in memory, and returns the log that has it. It is called without the lock.
// ErrFull: neither has room. eventstore.ErrFenced. ErrSessionEnded: the stream was dropped meanwhile.
func (s *Session) record(st *stream, seq uint64, data []byte, seal, urgent bool) (eventstore.Log, error) {
	log := st.log // only the appender sets it
	if log == nil {
		log = s.srv.cfg.Store.Log(s.logKey(st))
	}
	local, _ := log.(*localLog)
	if local == nil {
		began := s.clock()
		err := s.appendTo(log, seq, data, seal, urgent)
		switch {
		case err == nil, errors.Is(err, eventstore.ErrFenced), errors.Is(err, eventstore.ErrFull) && !seal:
			return log, err
		case errors.Is(err, eventstore.ErrGone) && s.isDropped(st):
			return log, ErrSessionEnded
		}
		local = &localLog{base: log, from: seq}
		s.storeFailed(st, local, err, s.clock().Sub(began))
	} else if local.due() {
		began := s.clock()
		err := s.catchUp(local)
		if err == nil {
			err = s.appendTo(local.base, seq, data, seal, urgent)
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
			return local, ErrSessionEnded
		case errors.Is(err, errCatchingUp):
		default:
			s.storeFailed(st, local, err, s.clock().Sub(began))
		}
	}
	return local, local.Append(context.Background(), seq, data, seal)
}

// clock is the time, where operations of the store may take any.
func (s *Session) clock() (now time.Time) {
	if !s.srv.instant {
		now = time.Now()
	}
	return now
}

// catchUp gives the store what it has missed.
func (s *Session) catchUp(l *localLog) error {
	began := time.Now()
	for _, e := range l.missing() {
		if time.Since(began) > maxCatchUp {
			return errCatchingUp
		}
		if err := s.appendTo(l.base, e.Seq, e.Data, false, false); err != nil {
			return err
		}
		l.caught = e.Seq
	}
	return nil
}

// storeFailed notes that an append failed. A store that is full has not.
func (s *Session) storeFailed(st *stream, l *localLog, err error, took time.Duration) {
	switch {
	case isLoss(err):
		s.lostData(st, l.from, err)
	case !errors.Is(err, eventstore.ErrFull):
		s.srv.logStoreFailed(s, err)
	}
	l.failed(err, took)
}

// isLoss reports whether a store says with err that it has not what it was given. Of a log that nobody has dropped, ErrGone says that.
func isLoss(err error) bool {
	_, behind := errors.AsType[*eventstore.BehindError](err)
	return behind || errors.Is(err, eventstore.ErrGone)
}

// isDropped reports whether the machine has forgotten a stream.
func (s *Session) isDropped(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.dropped || s.over
}

// lostData counts that the store has lost events of a stream, before next, and says so once for each stream.
func (s *Session) lostData(st *stream, next uint64, err error) {
	s.mu.Lock()
	said := st.lost
	st.lost = true
	ref := st.ref(s)
	s.mu.Unlock()
	s.srv.stats.storeFailed.Add(1)
	if !said {
		s.srv.log.Error("rejoin: the event store has lost events of a stream; clients that have not read them are told", "session", s.ref,
			"stream", ref, "before", next, "error", err)
	}
}
