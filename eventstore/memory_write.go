package eventstore

import (
	"bytes"
	"context"
	"fmt"
)

// batch is what an Append or a Restore is given.
type batch struct {
	first   uint64
	events  [][]byte
	seal    bool
	restore bool
}

// Append implements Log.
func (l *memoryLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	return l.write(ctx, &batch{first: first, events: events, seal: seal})
}

// Restore implements Log. A Restore that is refused may have evicted what was acknowledged, as an Append may.
func (l *memoryLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	return l.write(ctx, &batch{first: first, events: events, seal: seal, restore: true})
}

func (l *memoryLog) write(ctx context.Context, b *batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	mu := &l.session.mu
	mu.Lock()
	err := l.writeLocked(ctx, b)
	mu.Unlock()
	return err
}

// writeLocked is write with the session's mu held. It may release the mu meanwhile.
func (l *memoryLog) writeLocked(ctx context.Context, b *batch) error {
	a := admission{seal: b.seal}
	for {
		missing, err := l.check(b)
		if missing == nil || err != nil {
			return err
		}
		a.charge = 0
		for i := range missing {
			a.charge += eventCharge(missing[i])
		}
		if b.restore {
			a.charge -= l.replaceable()
		}
		ok := a.charge <= 0 && l.kept
		if !ok {
			ok, err = l.admit(&a)
		}
		switch {
		case ok:
			if b.restore {
				l.replace(b.first, missing)
			} else {
				l.push(missing...)
			}
			l.kept, l.sealed = true, b.seal
			l.reconcile(&a.totals)
			a.addTo(l.session.store)
			return nil
		case err != nil && !a.urgent && IsUrgent(ctx):
			a.urgent = true
		case err != nil:
			return err
		default:
			l.makeRoom(&a)
		}
	}
}

// nothing is what is missing of a log that is to have no events.
var nothing = [][]byte{}

// check compares a batch with the log. missing are the events to record: nil if there is nothing to do, empty if the log is only to exist.
func (l *memoryLog) check(b *batch) (missing [][]byte, err error) {
	switch {
	case l.session.ended != nil:
		return nil, l.session.ended
	case l.gone:
		return nil, ErrGone
	case b.first == 0:
		return nil, fmt.Errorf("%w: there is no event 0", ErrSequence)
	case b.restore:
		return l.checkRestore(b)
	case b.first == l.last+1 && len(b.events) > 0 && !l.sealed: // nearly always
		return b.events, nil
	}
	return l.checkAppend(b)
}

func (l *memoryLog) checkAppend(b *batch) (missing [][]byte, err error) {
	n, before := uint64(len(b.events)), b.first-1
	switch {
	case n == 0 && b.seal:
		return nil, fmt.Errorf("%w: only an event can seal", ErrSequence)
	case before > l.last && l.sealed:
		return nil, ErrSealed
	case before > l.last:
		return nil, &BehindError{Last: l.last}
	case n == 0 && (l.kept || l.last > 0):
		return nil, nil
	case n == 0:
		return nothing, nil
	}
	both := min(l.last-before, n) // events that the log has already
	same := both == 0 || l.has(before+both, b.events[both-1])
	switch {
	case both < n && !l.sealed && same:
		return b.events[both:], nil
	case both == n && same && b.seal == (l.sealed && before+n == l.last):
		return nil, nil
	case l.sealed:
		return nil, ErrSealed
	}
	return nil, fmt.Errorf("%w: event %d is already there and differs", ErrSequence, before+both)
}

func (l *memoryLog) checkRestore(b *batch) (missing [][]byte, err error) {
	n, last := len(b.events), b.first-1+uint64(len(b.events))
	switch {
	case last < b.first-1, last == 0 && b.seal:
		return nil, fmt.Errorf("%w: a log cannot end there", ErrSequence)
	case l.sealed && b.seal && last == l.last && (n == 0 || l.has(last, b.events[n-1])):
		return nil, nil
	case l.sealed, last < l.last:
		return nil, fmt.Errorf("%w: event %d is already there", ErrSequence, l.last)
	case n == 0:
		return nothing, nil
	}
	return b.events, nil
}

// has reports whether an event of the log is data. If it was evicted, it is assumed to be.
func (l *memoryLog) has(seq uint64, data []byte) bool {
	return seq < l.first || bytes.Equal(l.at(seq), data)
}

// replaceable is the charge of events that a Restore replaces and that eviction could not remove before. So evictions from this log do
// not change the charge of a Restore.
func (l *memoryLog) replaceable() int64 {
	if l.backlog {
		return 0
	}
	return l.bytes - l.ackedBytes
}

// replace makes events, from first on, all that the log has. What the client has got of them stays known.
func (l *memoryLog) replace(first uint64, events [][]byte) {
	end, written := l.last, l.written
	l.events.reset()
	l.first, l.last = first, first-1
	l.bytes, l.ackedBytes = 0, 0
	l.push(events...)
	l.written = written && l.last == end
	for seq := l.first; seq <= min(l.acked, l.last); seq++ {
		l.ackedBytes += eventCharge(l.at(seq))
	}
}
