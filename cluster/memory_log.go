package cluster

import (
	"context"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// handle is a handle of a log. An operation of it holds the mu of the session, if that has a record, from the check of the fence to the
// end of its work.
type handle struct {
	memory *Memory
	key    eventstore.Key
	place  atomic.Pointer[place]
}

var (
	_ eventstore.Log     = (*handle)(nil)
	_ eventstore.Limited = (*handle)(nil)
)

// place is where a handle found its log. It never changes.
type place struct {
	world *world
	lost  uint64 // world.lost before the log was found
	log   eventstore.Log
	// The session, and the stream that the log is there. Nil until the handle was used with success.
	session *holding
	stream  *stream
}

func (h *handle) find(w *world) *place {
	p := &place{world: w, lost: w.lost.Load()}
	p.log = w.logs.Log(h.key)
	h.place.Store(p)
	return p
}

func (h *handle) fenced() bool { return h.key.Fence != eventstore.Fence{} }

// enter finds the session and the log. s is locked, or nil if the session has no record.
func (h *handle) enter() (p *place, s *holding, err error) {
	if h.memory.closed.Load() {
		return nil, nil, eventstore.ErrClosed
	}
	w := h.memory.world.Load()
	if p = h.place.Load(); p.world != w {
		p = h.find(w)
	}
	s = w.lock(h.key.Session, p.session)
	if s != nil && p.lost < s.born {
		p = h.find(w)
	}
	return p, s, nil
}

// write is enter for Append and Restore, with the check of the fence.
func (h *handle) write(ctx context.Context) (p *place, s *holding, err error) {
	if err = ctx.Err(); err != nil {
		return nil, nil, err
	}
	p, s, err = h.enter()
	switch {
	case err != nil:
		return nil, nil, err
	case s != nil:
		err = s.admits(h.key.Fence)
	case h.fenced():
		err = &eventstore.BehindError{}
	}
	if err != nil {
		s.unlock()
		return nil, nil, err
	}
	return p, s, nil
}

// admits checks the fence of a handle that changes a log. The mu is held.
func (s *holding) admits(f eventstore.Fence) error {
	switch {
	case s.ended:
		return eventstore.ErrGone
	case s.record.Fence != f:
		return eventstore.ErrFenced
	}
	return nil
}

func (s *holding) unlock() {
	if s != nil {
		s.mu.Unlock()
	}
}

// Append implements eventstore.Log.
func (h *handle) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	p, s, err := h.write(ctx)
	if err != nil {
		return err
	}
	err = p.log.Append(ctx, first, events, seal)
	if err == nil && s != nil && p.session != s {
		h.begun(p, s)
	}
	s.unlock()
	return err
}

// begun notes that the log exists.
func (h *handle) begun(p *place, s *holding) *stream {
	st := s.begin(&h.key, p.log)
	h.place.Store(&place{world: p.world, lost: p.lost, log: p.log, session: s, stream: st})
	return st
}

// Restore implements eventstore.Log.
func (h *handle) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	p, s, err := h.write(ctx)
	if err != nil {
		return err
	}
	if err = p.log.Restore(ctx, first, events, seal); err == nil && s != nil {
		st := h.begun(p, s)
		st.about, st.backlog = h.key.About, h.key.Backlog
	}
	s.unlock()
	return err
}

// Read implements eventstore.Log.
func (h *handle) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	if err := ctx.Err(); err != nil {
		return 0, eventstore.State{}, err
	}
	p, s, err := h.enter()
	switch {
	case err != nil:
	case s == nil && h.fenced():
		err = &eventstore.BehindError{}
	case s != nil && s.ended:
		err = eventstore.ErrGone
	case s != nil && h.fenced():
		err = s.admits(h.key.Fence)
	}
	defer s.unlock()
	if err != nil {
		return 0, eventstore.State{}, err
	}
	return p.log.Read(ctx, after, buf, maxBytes)
}

// Drop implements eventstore.Log. It ignores the context, as eventstore.Memory does.
func (h *handle) Drop(ctx context.Context) error {
	p, s, err := h.enter()
	if err != nil {
		return err
	}
	defer s.unlock()
	switch {
	case s == nil && h.fenced(), s != nil && s.ended:
		return nil // it has nothing
	case s != nil && s.record.Fence != h.key.Fence:
		return eventstore.ErrFenced
	}
	if s != nil {
		if st := s.streams[h.key.Stream]; st != nil && st.log == p.log {
			delete(s.streams, h.key.Stream)
		}
	}
	return p.log.Drop(ctx)
}

// Mark implements eventstore.Log. It looks at no fence: what the client of an earlier owner has, it has.
func (h *handle) Mark(m eventstore.Mark) { h.place.Load().log.Mark(m) }

// Short implements eventstore.Limited.
func (h *handle) Short() bool {
	l, ok := h.place.Load().log.(eventstore.Limited)
	return ok && l.Short()
}
