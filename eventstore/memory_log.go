package eventstore

import (
	"context"
	"errors"
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
	kept        bool // from the first Append or Restore until the log is evicted or dropped
	gone        bool

	// What queues and totals have of all that. Only reconcile changes it.
	account    account
	phaseLinks links
	ackedLinks *ackedLinks // nil until something was acknowledged
}

func (l *memoryLog) at(seq uint64) []byte {
	return l.events.at(int(seq - l.first)) //nolint:gosec // a position in a slice
}

func (l *memoryLog) push(events ...[]byte) {
	for _, data := range events {
		l.events.push(data)
		l.last++
		l.written = false
		l.bytes += eventCharge(data)
	}
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
func (l *memoryLog) Read(ctx context.Context, after uint64, buf []Event, maxBytes int) (int, State, error) {
	if err := ctx.Err(); err != nil {
		return 0, State{}, err
	}
	s := l.session
	s.mu.Lock()
	n, st, err := l.read(after, buf, maxBytes)
	s.mu.Unlock()
	return n, st, err
}

func (l *memoryLog) read(after uint64, buf []Event, maxBytes int) (n int, st State, err error) {
	switch {
	case l.session.ended != nil:
		return 0, State{}, l.session.ended
	case l.gone:
		return 0, State{}, ErrGone
	}
	if after < l.last {
		for seq := max(after+1, l.first); seq <= l.last && n < len(buf); seq++ {
			buf[n] = Event{Seq: seq, Data: slices.Clip(l.at(seq))} // a reader that appends to it must not write into the log's memory
			n++
		}
		if maxBytes > 0 && l.bytes > int64(maxBytes) { // else all events together are within the bound
			n = within(buf[:n], maxBytes)
		}
	}
	return n, State{First: l.first, Last: l.last, Sealed: l.sealed}, nil
}

// within returns how many of the events a Read with that bound returns, and clears the others.
func within(events []Event, maxBytes int) int {
	for i := range events {
		if maxBytes -= len(events[i].Data); maxBytes < 0 && i > 0 {
			clear(events[i:])
			return i
		}
	}
	return len(events)
}

// Mark implements Log. It takes time in proportion to the newly acknowledged events; each is counted once.
func (l *memoryLog) Mark(m Mark) {
	mu := &l.session.mu
	mu.Lock()
	if l.kept {
		l.mark(m)
	}
	mu.Unlock()
}

func (l *memoryLog) mark(m Mark) {
	acked := max(l.acked, min(m.Acked, l.last))
	for seq := max(l.acked+1, l.first); seq <= acked; seq++ {
		l.ackedBytes += eventCharge(l.at(seq))
	}
	l.acked = acked
	l.written = l.written || max(m.Written, m.Acked) >= l.last
	l.settle()
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
	ended := s.ended
	if ended == nil && !l.gone {
		l.drop()
	}
	s.mu.Unlock()
	if errors.Is(ended, ErrClosed) {
		return ErrClosed
	}
	return nil
}

func (l *memoryLog) drop() {
	l.gone = true
	if l.kept {
		l.session.logs.forgetHeld(l.name)
	} else {
		l.session.logs.forget(l.name, l)
	}
	l.clear()
	l.settle()
}
