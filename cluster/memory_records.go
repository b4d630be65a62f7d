package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Put implements Directory.
func (m *Memory) Put(ctx context.Context, r *Record, ttl time.Duration) error {
	w, err := m.enter(ctx)
	if err != nil {
		return err
	}
	s, added := w.lockOrAdd(r.Session)
	defer s.mu.Unlock()
	if added {
		s.record = *r
		s.record.Released = false
	} else if err := s.owned(r.Fence); err != nil {
		return err
	}
	s.record.Format, s.record.About = r.Format, slices.Clip(r.About)
	if r.Version >= s.record.Version {
		s.record.State, s.record.Version = slices.Clip(r.State), r.Version
	}
	s.expires = time.Now().Add(ttl)
	return nil
}

// Find implements Directory.
func (m *Memory) Find(ctx context.Context, session string, by Process) (Found, error) {
	w, err := m.enter(ctx)
	if err != nil {
		return Found{}, err
	}
	var f Found
	s := w.lock(session, nil)
	switch {
	case s == nil:
		err = ErrUnknown
	case s.ended:
		err = ErrEnded
	default:
		r := s.record
		f.Record = &r
	}
	s.unlock()
	f.Count, f.Age = w.members.count(by), time.Since(w.since)
	return f, err
}

// Adopt implements Directory. It takes time in proportion to the session's logs.
func (m *Memory) Adopt(ctx context.Context, session string, from eventstore.Fence, to Member, ttl time.Duration) (*Record, []Stream, error) {
	w, err := m.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	s := w.lock(session, nil)
	if s == nil {
		return nil, nil, ErrUnknown
	}
	defer s.mu.Unlock()
	next := eventstore.Fence{Incarnation: to.Incarnation, Epoch: from.Epoch + 1}
	if err := s.owned(next); err != nil { // not a repeat
		if err := s.owned(from); err != nil {
			return nil, nil, err
		}
		s.record.Fence, s.record.Self, s.record.Generation, s.record.Released = next, to.Self, to.Generation, false
	}
	s.expires = time.Now().Add(ttl)
	r := s.record
	return &r, s.found(), nil
}

// change calls f with the session, if fence is the owner's.
func (m *Memory) change(ctx context.Context, session string, fence eventstore.Fence, f func(*holding)) error {
	w, err := m.enter(ctx)
	if err != nil {
		return err
	}
	s := w.lock(session, nil)
	if s == nil {
		return ErrUnknown
	}
	defer s.mu.Unlock()
	if err := s.owned(fence); err != nil {
		return err
	}
	f(s)
	return nil
}

// Save implements Directory.
func (m *Memory) Save(ctx context.Context, session string, fence eventstore.Fence, version uint64, state []byte) error {
	return m.change(ctx, session, fence, func(s *holding) {
		if version > s.record.Version {
			s.record.State, s.record.Version = slices.Clip(state), version
		}
	})
}

// Touch implements Directory.
func (m *Memory) Touch(ctx context.Context, held []Held, ttl time.Duration) (missing []Held, err error) {
	if _, err := m.enter(ctx); err != nil {
		return nil, err
	}
	for _, h := range held {
		err := m.change(context.WithoutCancel(ctx), h.Session, h.Fence, func(s *holding) { s.expires = time.Now().Add(ttl) })
		switch {
		case errors.Is(err, eventstore.ErrClosed):
			return nil, err
		case err != nil:
			missing = append(missing, h)
		}
	}
	return missing, nil
}

// Release implements Directory.
func (m *Memory) Release(ctx context.Context, session string, fence eventstore.Fence) error {
	return m.change(ctx, session, fence, func(s *holding) { s.record.Released = true })
}

// End implements Directory. It takes time in proportion to the session's logs.
func (m *Memory) End(ctx context.Context, session string, fence eventstore.Fence) error {
	w, err := m.enter(ctx)
	if err != nil {
		return err
	}
	s, added := w.lockOrAdd(session)
	defer s.mu.Unlock()
	switch {
	case added:
	case s.ended:
		return nil
	case s.record.Fence != fence:
		return eventstore.ErrFenced
	}
	s.ended = true
	s.record = Record{}
	s.expires = time.Now().Add(TombstoneTTL)
	_ = s.dropLogs() // fails only if the store is closed
	return nil
}
