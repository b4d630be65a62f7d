package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// memoryLog is a log and all its handles. Its session's mu guards it.
type memoryLog struct {
	session *memorySession
	name    string

	first, last uint64 // the oldest event kept, and the last appended
	acked       uint64 // never past last
	events      ring
	bytes       int64 // charged for events
	ackedBytes  int64 // … for those of them that were acknowledged
	written     bool  // all of it
	sealed      bool
	backlog     bool
	kept        bool // from the first Append until it is evicted or dropped
	gone        bool

	unread   int64    // what eviction could free of it that the client was not sent; likewise
	standing standing // what lists and totals know of all that; only settle writes it
	home     links
	acks     *links // nil until something was acknowledged
}

// Append implements Log.
func (l *memoryLog) Append(ctx context.Context, seq uint64, data []byte, seal bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	left, urgent := all, false
	var from givers
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
			l.settle(reserved)
			return nil
		}
		// What must go may be another session's, and nobody holds two sessions' locks. So let go of this one, and then look
		// at everything again.
		need := l.cost(eventCharge(data))
		class := classOf(s.charged() + need)
		gentle := left == all && l.gentle(need, seal)
		if !gentle && from.own == nil {
			from.own = s.owner
		}
		s.mu.Unlock()
		if gentle {
			left = s.store.makeRoom(need, 0, nil)
		} else {
			left = s.store.makeRoom(need, class, &from)
		}
		s.mu.Lock()
	}
}

// check compares an Append with what is there.
func (l *memoryLog) check(seq uint64, data []byte, seal bool) (repeated bool, err error) {
	switch {
	case l.session.lost != nil:
		return false, l.session.lost
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

// endsWith reports whether the last event is data, as far as can be told: an evicted one is taken on trust.
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

// shift takes out the oldest event.
func (l *memoryLog) shift() {
	c := eventCharge(l.events.shift())
	l.bytes -= c
	if l.first <= l.acked {
		l.ackedBytes -= c
	}
	l.first++
}

// clear takes out everything. The numbers stay.
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
	case s.lost != nil:
		return 0, State{}, s.lost
	case l.gone:
		return 0, State{}, ErrGone
	}
	n := 0
	if after < l.last {
		for seq := max(after+1, l.first); seq <= l.last && n < len(buf); seq++ {
			buf[n] = Event{Seq: seq, Data: slices.Clip(l.at(seq))} // a reader that appends must not write into it
			n++
		}
	}
	return n, State{First: l.first, Last: l.last, Sealed: l.sealed}, nil
}

// Mark implements Log. It takes as long as there are newly acknowledged events; each is counted once.
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
	l.settle(0)
}

// Short implements Limited: half of what the session, its principal, or all may hold cannot be taken, and this log has a good part of the
// session's share; or little, where the store is nearly full.
func (l *memoryLog) Short() bool {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	m, due := s.store, l.bytes-l.ackedBytes
	if !l.kept || l.sealed || l.backlog {
		return false
	}
	if s.bytes-s.spare >= m.perSession/2 && due >= m.perSession/8 {
		return true
	}
	hard := m.used.Load() - m.spare.Load()
	switch {
	case hard >= m.total-m.total/8:
		return due >= m.small()/2
	case hard >= m.total/2, s.principal != "" && l.hard() >= (m.total-hard)/2:
		return due >= min(shortBytes, m.total/64)
	}
	return false
}

// Drop implements Log. It heeds no context: there is nothing to wait for, and a log that stayed would leak.
func (l *memoryLog) Drop(context.Context) error {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.lost, ErrClosed) {
		return ErrClosed
	}
	if s.lost == nil && !l.gone {
		l.gone = true
		s.logs.forget(l.name, l)
		l.clear()
		l.settle(0)
	}
	return nil
}
