package storetest

import (
	"bytes"
	"context"
	"runtime"
	"slices"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

func (h *refHandle) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	r := h.c.ref
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := h.usable(ctx); err != nil {
		return err
	}
	l := h.log
	if l.gone && r.has("comes back after a drop") {
		*l = refLog{key: l.key, first: first}
		r.logs[r.name(l.key)] = l
	}
	if l.gone {
		if len(events) == 0 && r.has("begins what was dropped") {
			return nil
		}
		return eventstore.ErrGone
	}
	if len(events) == 0 && !seal {
		switch {
		case r.has("refuses an empty batch"):
			return eventstore.ErrSequence
		case r.has("takes an empty batch behind a gap"):
			return nil
		case r.has("makes an event of an empty batch"):
			events = [][]byte{nil}
		}
	}
	missing, err := r.missing(l, first, events, seal)
	if err != nil || len(missing) == 0 && len(events) > 0 {
		return err
	}
	return r.record(l, missing, seal)
}

// missing returns the events that an Append is to record.
func (r *reference) missing(l *refLog, first uint64, events [][]byte, seal bool) ([][]byte, error) {
	last, n := l.last(), uint64(len(events))
	switch {
	case first == 0, n == 0 && seal:
		return nil, eventstore.ErrSequence
	case last == 0 && first != 1 && r.has("takes the unknown for dropped"):
		return nil, eventstore.ErrGone
	case last == 0 && first != 1 && r.has("begins anywhere"):
		return events, nil
	case first > last+1 && l.sealed:
		return nil, eventstore.ErrSealed
	case first > last+1 && last > 0 && r.has("does not say how far it got"):
		return nil, eventstore.ErrSequence
	case first > last+1 && !r.has("takes gaps"):
		l.sealed = seal && last > 0 && r.has("seals what it refuses")
		return nil, &eventstore.BehindError{Last: last}
	case n == 0:
		return nil, nil
	}
	var both uint64 // events that the log has already
	if first <= last && !r.has("takes old numbers") {
		both = min(last-first+1, n)
	}
	if both > 0 && both < n && !l.sealed {
		switch {
		case r.has("refuses a repeat with more behind"):
			return nil, eventstore.ErrSequence
		case r.has("records a repeat again with more behind"):
			return events, nil
		case r.has("takes a repeat with more behind for a repeat"):
			return nil, nil
		}
	}
	missing := events[both:]
	differs := both > 0 && first+both-1 >= l.first && !bytes.Equal(l.events[first+both-1-l.first], events[both-1])
	repeat := len(missing) == 0 && (seal == (l.sealed && first+n-1 == last) || r.has("repeats may seal"))
	switch {
	case repeat && (r.has("repeats fail") || first+n-1 < last && r.has("knows its last event only")):
		return nil, eventstore.ErrSequence
	case repeat && (!differs || r.has("repeats may differ")):
		if r.has("repeats append") {
			l.events = append(l.events, events...)
		}
		l.sealed = l.sealed || seal
		return nil, nil
	case l.sealed && !r.has("appends after the seal"):
		return nil, eventstore.ErrSealed
	case differs && r.has("records what follows a conflict"):
		l.events = append(l.events, missing...)
		return nil, eventstore.ErrSequence
	case len(missing) == 0, differs && !r.has("compares only what is not followed"):
		return nil, eventstore.ErrSequence
	}
	return missing, nil
}

func (r *reference) record(l *refLog, events [][]byte, seal bool) error {
	size := 0
	for i, data := range events {
		if i > 0 && !seal && r.has("records what fits of a batch") && !r.room(l, size+len(data), false) {
			l.events = append(l.events, events[:i]...)
			return eventstore.ErrFull
		}
		size += len(data)
	}
	if !r.room(l, size, seal) {
		return eventstore.ErrFull
	}
	if !slices.Contains(r.order, l) {
		r.order = append(r.order, l)
	}
	switch {
	case len(events) > 1 && r.has("takes one event of a batch"):
		events = events[:1]
	case len(events) > 1 && r.has("records a batch in parts"):
		l.events = append(l.events, events[0])
		r.untilRead()
		events = events[1:]
	case len(l.events) == 0 && r.has("keeps the slice of a batch"):
		l.events, events = events, nil
	}
	l.events = append(l.events, events...)
	l.sealed = l.sealed || seal && !r.has("forgets the seal") && (len(events) < 2 || !r.has("forgets the seal of a batch"))
	return nil
}

// untilRead lets others in until somebody has read, or nobody seems to read any more.
func (r *reference) untilRead() {
	was := r.reads
	for range 10_000 {
		if r.reads != was {
			return
		}
		r.mu.Unlock()
		runtime.Gosched()
		r.mu.Lock()
	}
}

func (h *refHandle) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	r := h.c.ref
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := h.usable(ctx); err != nil {
		return err
	}
	l, last := h.log, first-1+uint64(len(events))
	same := last == l.last() && (len(events) == 0 || len(l.events) == 0 || bytes.Equal(l.events[len(l.events)-1], events[len(events)-1]))
	switch {
	case l.gone && r.has("restores what was dropped"):
		return nil
	case l.gone:
		return eventstore.ErrGone
	case same && last > 0 && r.has("fails to restore again"):
		return eventstore.ErrSequence
	case l.sealed && seal && (same || last == l.last() && r.has("restores a seal over another")):
		return nil
	case first == 0, last == 0 && seal:
		return eventstore.ErrSequence
	case l.sealed && !r.has("restores what is sealed"), last < l.last() && !r.has("restores less than it has"):
		return eventstore.ErrSequence
	case len(events) == 0 && r.has("restores nothing without events"):
		return nil
	case r.has("needs room for both") && !r.room(l, len(bytes.Join(events, nil)), seal):
		return eventstore.ErrFull
	}
	was := *l
	l.first, l.events, l.sealed = first, nil, seal && !r.has("restores no seal")
	switch {
	case r.has("restores from event 1 on"):
		l.first = 1
	case r.has("restores behind what it had") && last > was.last():
		*l, events = was, events[min(was.last()+1-min(was.last()+1, first), uint64(len(events))):]
	case r.has("restores in two steps"):
		r.untilRead()
	}
	err := r.record(l, events, seal && !r.has("restores no seal"))
	if err != nil && !r.has("loses what it cannot restore") {
		*l = was
	}
	return err
}
