package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// plainTTL is how long the logs of a session without a record live after the last append to one of them.
const plainTTL = 24 * time.Hour

// handle is a handle of a log.
type handle struct {
	store *Store
	log   *log
	fence string
	flags string // "b": a backlog
	about string
}

// Log implements eventstore.Store.
func (s *Store) Log(k eventstore.Key) eventstore.Log {
	_, key := s.keys.session(k.Session)
	h := &handle{store: s, log: s.sessions.log(k.Session, key, k.Stream), fence: writer(k.Fence), about: k.About}
	if k.Backlog {
		h.flags = "b"
	}
	return h
}

// Append implements eventstore.Log. It is one call of the engine.
func (h *handle) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	sc := appendScript
	if seal {
		sc = sealScript
	}
	return h.write(ctx, sc, first, events, seal)
}

// Restore implements eventstore.Log. It is one call of the engine.
func (h *handle) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	sc := restoreScript
	if seal {
		sc = resealScript
	}
	return h.write(ctx, sc, first, events, seal)
}

func (h *handle) write(ctx context.Context, sc *script, first uint64, events [][]byte, seal bool) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	chunk, err := encode(events)
	if err != nil {
		return err
	}
	limit := h.store.limits.session
	if eventstore.IsUrgent(ctx) {
		limit = h.store.limits.urgent
	}
	code, err := h.store.code(ctx, sc, h.log.session.key, h.fence, h.log.name, strconv.FormatUint(first, 10), strconv.Itoa(len(events)), flag(seal),
		strconv.FormatUint(h.log.acked.Load(), 10), limit, h.store.limits.backlog, h.flags, h.about, chunk, milliseconds(plainTTL))
	switch {
	case err != nil:
		return err
	case code <= behind && h.log.wasDropped(), h.log.gone.Load():
		return eventstore.ErrGone
	case code >= 0:
		h.log.short.Store(code == short)
		return nil
	}
	return refusal(code)
}

// enter begins an operation.
func (h *handle) enter(ctx context.Context) error {
	if err := h.store.enter(ctx); err != nil {
		return err
	}
	if h.log.gone.Load() {
		return eventstore.ErrGone
	}
	return nil
}

// Read implements eventstore.Log. It is one call of the engine.
func (h *handle) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	if err := h.enter(ctx); err != nil {
		return 0, eventstore.State{}, err
	}
	r, err := h.store.run(ctx, readScript, []string{h.log.session.key}, []string{
		h.fence, h.log.name, strconv.FormatUint(after, 10), strconv.Itoa(len(buf)), strconv.Itoa(maxBytes),
		strconv.FormatUint(h.log.chunk.Load(), 10),
	})
	if err != nil {
		return 0, eventstore.State{}, err
	}
	if h.log.gone.Load() {
		return 0, eventstore.State{}, eventstore.ErrGone
	}
	n, st, next, err := readAnswer(r, after, buf)
	if err != nil {
		clear(buf)
	}
	h.log.chunk.Store(next)
	return n, st, err
}

// Mark implements eventstore.Log. The engine is told with the next Append.
func (h *handle) Mark(m eventstore.Mark) {
	h.log.acknowledge(m.Acked)
	h.log.short.Store(false)
}

// Short implements eventstore.Limited, as the last Append has found it.
func (h *handle) Short() bool { return h.log.short.Load() }

// Drop implements eventstore.Log.
func (h *handle) Drop(ctx context.Context) error {
	h.log.dropping.Lock()
	defer h.log.dropping.Unlock()
	code, err := h.store.code(ctx, dropScript, h.log.session.key, h.fence, h.log.name)
	switch {
	case err != nil:
		return err
	case code == unknown: // the engine has lost the session, which says nothing about the log
		return nil
	case code < 0:
		return refusal(code)
	}
	h.log.dropped()
	return nil
}

// DropSession implements eventstore.Store. It looks at no fence, and leaves the record.
func (s *Store) DropSession(ctx context.Context, name string) error {
	_, key := s.keys.session(name)
	session := s.sessions.session(name, key)
	session.dropping.Lock()
	defer session.dropping.Unlock()
	if _, err := s.code(ctx, dropAllScript, key); err != nil {
		return err
	}
	session.dropped()
	return nil
}

// refusal is the error for what a script answers about a log.
func refusal(code int64) error {
	switch code {
	case fenced:
		return eventstore.ErrFenced
	case gone:
		return eventstore.ErrGone
	case full:
		return fmt.Errorf("%w in the session (Config.SessionBytes)", eventstore.ErrFull)
	case sealed:
		return eventstore.ErrSealed
	case sequence:
		return eventstore.ErrSequence
	}
	if code <= behind {
		return &eventstore.BehindError{Last: uint64(behind - code)}
	}
	return fmt.Errorf("redisstore: the engine has answered %d", code)
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// milliseconds is a time to live. The engine counts in milliseconds, and takes none that is zero.
func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
