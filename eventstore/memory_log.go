package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// memoryLog is a log, and every handle of it. Its session's mu guards it.
type memoryLog struct {
	session *memorySession
	name    string

	first, last uint64 // the oldest event kept, and the last appended
	acked       uint64 // at most last
	events      ring
	bytes       int64 // the charge of events
	ackedBytes  int64 // the charge of those that were acknowledged
	written     bool  // to its end
	sealed      bool
	backlog     bool
	kept        bool // from the first Append until the log is evicted or dropped
	gone        bool

	// What queues and totals have of all that. Only reconcile writes them.
	account account
	unsent  int64 // see tenant

	phaseLinks links
	ackedLinks *links // nil until something was acknowledged
}

// Append implements Log.
func (l *memoryLog) Append(ctx context.Context, seq uint64, data []byte, seal bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	left, urgent := anyLeft, false
	var from evictionSources
	for {
		if repeated, err := l.check(seq, data, seal); repeated || err != nil {
			return err
		}
		reserved, err := l.admit(eventCharge(data), seal, urgent, left, from.own != nil)
		if err != nil && !urgent && IsUrgent(ctx) {
			urgent = true
			continue
		}
		if err != nil {
			return err
		}
		if reserved > 0 {
			l.push(data)
			l.sealed = seal
			l.reconcile(reserved)
			return nil
		}
		// The log to evict from may be another session's, and no goroutine holds the mu of two sessions. So release this one,
		// make room, and check everything again.
		need := l.storeCost(eventCharge(data))
		class := classOf(s.charged() + need)
		spare := left == anyLeft && l.sparesUnsent(need, seal)
		if !spare && from.own == nil {
			from.own = s.tenant
		}
		s.mu.Unlock()
		if spare {
			left = s.store.makeRoom(need, 0, nil)
		} else {
			left = s.store.makeRoom(need, class, &from)
		}
		s.mu.Lock()
	}
}

// check compares an Append with the end of the log.
func (l *memoryLog) check(seq uint64, data []byte, seal bool) (repeated bool, err error) {
	switch {
	case l.session.ended != nil:
		return false, l.session.ended
	case l.gone:
		return false, ErrGone
	case l.last == 0 && seq == 1:
		return false, nil
	case l.last == 0:
		return false, &BehindError{}
	case seq == l.last && seal == l.sealed && l.endsWith(data):
		return true, nil
	case l.sealed:
		return false, ErrSealed
	case seq == l.last:
		return false, fmt.Errorf("%w: event %d is already there and differs", ErrSequence, seq)
	case seq < l.last:
		return false, fmt.Errorf("%w: event %d cannot follow event %d", ErrSequence, seq, l.last)
	case seq != l.last+1:
		return false, &BehindError{Last: l.last}
	}
	return false, nil
}

// endsWith reports whether the last event is data. If that event was evicted, it is assumed to be.
func (l *memoryLog) endsWith(data []byte) bool {
	return l.first > l.last || bytes.Equal(l.at(l.last), data)
}

func (l *memoryLog) at(seq uint64) []byte {
	return l.events.at(int(seq - l.first)) //nolint:gosec // a position in a slice
}

func (l *memoryLog) push(data []byte) {
	l.events.push(data)
	l.last++
	l.written = false
	l.bytes += eventCharge(data)
	l.kept = true
}

// shift removes the oldest event.
func (l *memoryLog) shift() {
	c := eventCharge(l.events.shift())
	l.bytes -= c
	if l.first <= l.acked {
		l.ackedBytes -= c
	}
	l.first++
}

// clear removes everything. The numbers stay.
func (l *memoryLog) clear() {
	l.events.reset()
	l.first = l.last + 1
	l.bytes, l.ackedBytes = 0, 0
	l.kept = false
}

// Read implements Log. It copies at most len(buf) slice headers under the session's lock, and no data.
func (l *memoryLog) Read(ctx context.Context, after uint64, buf []Event) (int, State, error) {
	if err := ctx.Err(); err != nil {
		return 0, State{}, err
	}
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended != nil:
		return 0, State{}, s.ended
	case l.gone:
		return 0, State{}, ErrGone
	}
	n := 0
	if after < l.last {
		for seq := max(after+1, l.first); seq <= l.last && n < len(buf); seq++ {
			buf[n] = Event{Seq: seq, Data: slices.Clip(l.at(seq))} // a reader that appends to it must not write into the log's memory
			n++
		}
	}
	return n, State{First: l.first, Last: l.last, Sealed: l.sealed}, nil
}

// Mark implements Log. It takes time in proportion to the newly acknowledged events; each is counted once.
func (l *memoryLog) Mark(m Mark) {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.kept {
		return
	}
	acked := max(l.acked, min(m.Acked, l.last))
	for seq := max(l.acked+1, l.first); seq <= acked; seq++ {
		l.ackedBytes += eventCharge(l.at(seq))
	}
	l.acked = acked
	l.written = l.written || max(m.Written, m.Acked) >= l.last
	l.reconcile(0)
}

// Short implements Limited. It returns true in two cases. Half of what the session, its principal or the whole store may hold cannot be
// evicted, and this log has a good part of the session's share unacknowledged. Or the store is nearly full, and this log has a little
// unacknowledged.
func (l *memoryLog) Short() bool {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	m, unacked := s.store, l.bytes-l.ackedBytes
	if !l.kept || l.sealed || l.backlog {
		return false
	}
	if s.bytes-s.evictable >= m.perSession/2 && unacked >= m.perSession/8 {
		return true
	}
	pinned := m.used.Load() - m.evictable.Load()
	switch {
	case pinned >= m.total-m.total/8:
		return unacked >= m.small()/2
	case pinned >= m.total/2, s.principal != "" && l.pinned() >= (m.total-pinned)/2:
		return unacked >= min(shortBytes, m.total/64)
	}
	return false
}

// Drop implements Log. It ignores the context: it does not wait, and a log that stayed would be a leak.
func (l *memoryLog) Drop(context.Context) error {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.ended, ErrClosed) {
		return ErrClosed
	}
	if s.ended == nil && !l.gone {
		l.gone = true
		s.logs.forget(l.name, l)
		l.clear()
		l.reconcile(0)
	}
	return nil
}
