package torture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// chronicle is what an engine has seen, and what it must never see. One lock makes each operation one step with its check.
type chronicle struct {
	engine *cluster.Memory
	fault  func(format string, args ...any)
	say    func(format string, args ...any)
	tally  *tally

	mu       sync.Mutex
	sessions map[string]*saga  // by key
	members  map[string]*sight // by incarnation
	forgot   time.Time         // when the engine last lost data
}

// saga is what the engine has seen of one session. It outlives what the engine loses.
type saga struct {
	owners  []cluster.Record // each owner in turn, the newest last
	since   time.Time        // of the newest
	adopted time.Time        // the last adoption
	taken   int              // owners that had not released it
	streams map[string]*written
	ended   bool // an End has arrived
	back    bool // the engine has lost the last adoption, which the owner may not know yet
}

// written is what was ever accepted for a stream.
type written struct {
	events map[uint64][]byte
	by     map[uint64]eventstore.Fence
	sealed uint64
}

// onItsWay is how long an operation may be on its way to the engine.
const onItsWay = 6 * time.Second

// sight is what the engine knows of a process.
type sight struct {
	self    string
	renewed time.Time // its last renewal
	back    time.Time // the last one that came after its lease had run out
	left    bool
}

func newChronicle(fault, say func(string, ...any), count *tally) *chronicle {
	return &chronicle{
		engine: cluster.NewMemory(eventstore.MemoryConfig{}), fault: fault, say: say, tally: count, sessions: map[string]*saga{}, members: map[string]*sight{},
	}
}

func (c *chronicle) sagaOf(key string) *saga {
	h := c.sessions[key]
	if h == nil {
		h = &saga{streams: map[string]*written{}}
		c.sessions[key] = h
	}
	return h
}

// owner returns the fence of a session's owner, as the engine has it, and how many owners there were.
func (c *chronicle) owner(key string) (cluster.Record, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.sessions[key]
	if h == nil || len(h.owners) == 0 {
		return cluster.Record{}, 0
	}
	return h.owners[len(h.owners)-1], len(h.owners)
}

// taken returns how often a session was taken from an owner that had not released it.
func (c *chronicle) taken(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.sessions[key]; h != nil {
		return h.taken
	}
	return 0
}

// owned reports whether a process has been an owner of the session since there were n owners.
func (c *chronicle) owned(key, incarnation string, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.sessions[key]
	// An adoption may still have been on its way when the lease was renewed.
	if m := c.members[incarnation]; h.back || m != nil && time.Since(m.back) < lease && !h.since.Before(m.back) {
		return true
	}
	for _, r := range h.owners[max(n-1, 0):] {
		if r.Fence.Incarnation == incarnation {
			return true
		}
	}
	return false
}

// forget makes the engine lose everything. It returns the sessions that were released at that moment: the engine alone had them.
func (c *chronicle) forget() (released map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	released = map[string]bool{}
	for key := range c.sessions {
		if found, err := c.engine.Find(context.Background(), key, cluster.Process{}); err == nil && found.Record.Released {
			released[key] = true
		}
	}
	c.engine.Forget()
	c.forgot = time.Now()
	return released
}

// failOver makes the engine lose everything but records, and of those every adoption since a moment: as if a replica took over that lacks the end of
// what was written.
func (c *chronicle) failOver(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx := context.Background()
	var records []*cluster.Record
	for key, h := range c.sessions {
		found, err := c.engine.Find(ctx, key, cluster.Process{})
		if err != nil {
			continue
		}
		if n := len(h.owners); n > 1 && h.since.After(since) && h.owners[n-1].Fence == found.Record.Fence {
			old := h.owners[n-2]
			found.Record.Fence, found.Record.Self = old.Fence, old.Self
			h.owners, h.since, h.back = append(h.owners, old), time.Now(), true
			h.taken++
			c.tally.did("adoption lost")
			c.say("engine: loses the adoption of %s by %s, back to %s", short(key), short(h.owners[n-1].Fence.Incarnation), short(old.Fence.Incarnation))
		}
		records = append(records, found.Record)
	}
	c.engine.Forget()
	for _, r := range records {
		_ = c.engine.Put(ctx, r, time.Hour)
	}
	c.forgot = time.Now()
}

// watcher is the engine as one process uses it.
type watcher struct {
	*cluster.Memory
	*chronicle
	incarnation string // guarded by chronicle.mu
}

func (c *chronicle) watch() *watcher { return &watcher{Memory: c.engine, chronicle: c} }

func (w *watcher) Join(ctx context.Context, p cluster.Member, lease time.Duration) (cluster.Member, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.Memory.Join(ctx, p, lease)
	if err == nil {
		w.incarnation = p.Incarnation
		w.say("engine: %s joins at %s", short(p.Incarnation), p.Self)
		w.members[p.Incarnation] = &sight{self: p.Self, renewed: time.Now()}
		for other, s := range w.members {
			if s.self == p.Self && other != p.Incarnation {
				s.left = true
			}
		}
	}
	return m, err
}

func (w *watcher) Renew(ctx context.Context, m cluster.Member, lease time.Duration) (cluster.View, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.Memory.Renew(ctx, m, lease)
	if s := w.members[m.Incarnation]; err == nil && s != nil {
		if time.Since(s.renewed) > lease {
			s.back = time.Now()
			w.tally.did("regained")
		}
		s.renewed = time.Now()
	}
	return v, err
}

func (w *watcher) Put(ctx context.Context, r *cluster.Record, ttl time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.Memory.Put(ctx, r, ttl)
	h := w.sagaOf(r.Session)
	if err != nil {
		return err
	}
	if n := len(h.owners); n == 0 || h.owners[n-1].Fence != r.Fence {
		w.say("engine: record of %s by %s, epoch %d", short(r.Session), short(r.Fence.Incarnation), r.Fence.Epoch)
		if n > 0 {
			h.taken++
		}
		h.owners, h.since = append(h.owners, *r), time.Now()
	}
	return nil
}

func (w *watcher) Leave(ctx context.Context, m cluster.Member) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.Memory.Leave(ctx, m)
	if s := w.members[m.Incarnation]; err == nil && s != nil {
		s.left = true
		w.tally.did("left")
	}
	return err
}

func (w *watcher) Release(ctx context.Context, session string, fence eventstore.Fence) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.Memory.Release(ctx, session, fence)
	if err == nil {
		w.tally.did("released")
		w.say("engine: %s releases %s", short(fence.Incarnation), short(session))
	}
	return err
}

func (w *watcher) Adopt(
	ctx context.Context, session string, from eventstore.Fence, to cluster.Member, ttl time.Duration,
) (*cluster.Record, []cluster.Stream, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, _ := w.Memory.Find(ctx, session, to.Process)
	r, streams, err := w.Memory.Adopt(ctx, session, from, to, ttl)
	if err != nil {
		return r, streams, err
	}
	h := w.sagaOf(session)
	if before.Record != nil && before.Record.Fence != r.Fence {
		w.say("engine: %s adopts %s from %s, epoch %d", short(to.Incarnation), short(session), short(from.Incarnation), r.Fence.Epoch)
		owner := w.members[from.Incarnation]
		alive := owner != nil && !owner.left && time.Since(owner.renewed) < lease
		for _, earlier := range h.owners { // the engine has lost an adoption, which is made again
			alive = alive && earlier.Fence != r.Fence
		}
		if alive && time.Since(owner.back) < onItsWay { // the adoption was decided before that
			alive = false
		}
		if alive && !before.Record.Released && from.Incarnation != to.Incarnation {
			w.fault("%s adopted %s, whose owner %s has renewed its lease %v ago",
				short(to.Incarnation), short(session), short(from.Incarnation), time.Since(owner.renewed))
		}
		for _, earlier := range h.owners {
			if earlier.Fence == r.Fence {
				w.tally.did("adoption made again")
			}
		}
		if before.Record.Released {
			w.tally.did("adopted, released")
		} else {
			h.taken++
			w.tally.did("adopted, owner lost")
		}
		h.owners, h.since, h.adopted = append(h.owners, *r), time.Now(), time.Now()
	}
	return r, streams, err
}

func (w *watcher) End(ctx context.Context, session string, fence eventstore.Fence) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.Memory.End(ctx, session, fence)
	if err == nil {
		w.sagaOf(session).ended = true
	}
	return err
}

func (w *watcher) Log(k eventstore.Key) eventstore.Log { return &watchedLog{w.Memory.Log(k), w, k} }

type watchedLog struct {
	eventstore.Log
	w   *watcher
	key eventstore.Key
}

func (l *watchedLog) Append(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	err := l.Log.Append(ctx, first, events, seal)
	switch _, behind := errors.AsType[*eventstore.BehindError](err); {
	case err == nil:
		l.accepted(first, events, seal)
	case behind:
		l.w.tally.did("engine behind")
	case errors.Is(err, eventstore.ErrFenced):
		l.w.tally.did("owner fenced")
	}
	return err
}

func (l *watchedLog) Restore(ctx context.Context, first uint64, events [][]byte, seal bool) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	err := l.Log.Restore(ctx, first, events, seal)
	if err == nil {
		l.w.tally.did("log restored")
		l.accepted(first, events, seal)
	}
	return err
}

// accepted checks what the engine has taken.
func (l *watchedLog) accepted(first uint64, events [][]byte, seal bool) {
	h := l.w.sagaOf(l.key.Session)
	name := short(l.key.Session) + "/" + short(l.key.Stream)
	if n := len(h.owners); n == 0 || h.owners[n-1].Fence != l.key.Fence {
		l.w.fault("%s: events of %v were recorded, which does not own the session", name, l.key.Fence)
	}
	if l.key.Fence.Incarnation != l.w.incarnation {
		l.w.fault("%s: %s writes in the name of %s", name, short(l.w.incarnation), short(l.key.Fence.Incarnation))
	}
	s := h.streams[l.key.Stream]
	if s == nil {
		s = &written{events: map[uint64][]byte{}, by: map[uint64]eventstore.Fence{}}
		h.streams[l.key.Stream] = s
	}
	for i, data := range events {
		seq := first + uint64(i)
		if old, ok := s.events[seq]; ok && !bytes.Equal(old, data) {
			l.w.fault("%s: number %d has two meanings: %s and %s", name, seq, old, data)
		}
		if _, known := s.events[seq]; !known && s.sealed > 0 && seq > s.sealed {
			l.w.fault("%s: event %d follows the last one, %d", name, seq, s.sealed)
		}
		if s.events[seq] != nil {
			l.w.tally.did("event written again")
		}
		for _, by := range s.by {
			if by != l.key.Fence {
				l.w.fault("%s: %s has written event %d of a stream of %s: an adoption appends nothing", name, short(l.key.Fence.Incarnation), seq, short(by.Incarnation))
			}
			break
		}
		s.events[seq], s.by[seq] = bytes.Clone(data), l.key.Fence
	}
	if seal {
		s.sealed = first + uint64(len(events)) - 1
	}
}

// short is enough of a name to tell it from others.
func short(name string) string {
	if _, rest, ok := bytes.Cut([]byte(name), []byte("/")); ok {
		name = string(rest)
	}
	return fmt.Sprintf("%.5s", name)
}
