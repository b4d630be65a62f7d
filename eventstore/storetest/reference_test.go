package storetest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// reference is the contract in as few lines as possible. It passes the exam; with a flaw it must not.
type reference struct {
	mu    sync.Mutex
	logs  map[string]*refLog
	order []*refLog // in the order of their first appends
	limit int       // bytes of a session's events; 0: none
	flaw  string
	reads int
}

// client is a store that a process has opened.
type client struct {
	ref    *reference
	closed bool
}

type refLog struct {
	key    eventstore.Key
	first  uint64
	events [][]byte
	sealed bool
	gone   bool
}

type refHandle struct {
	c   *client
	log *refLog
}

func newReference(limit int, flaw string) *reference {
	return &reference{logs: map[string]*refLog{}, limit: limit, flaw: flaw}
}

func (r *reference) has(flaw string) bool { return r.flaw == flaw }

func (r *reference) name(k eventstore.Key) string {
	switch {
	case r.has("joins names"):
		return k.Session + ":" + k.Stream
	case r.has("cuts names at NUL"):
		session, _, _ := strings.Cut(k.Session, "\x00")
		stream, _, _ := strings.Cut(k.Stream, "\x00")
		return session + "\x00" + stream
	case r.has("ignores case"):
		return strings.ToLower(k.Session) + "\x00\x00" + strings.ToLower(k.Stream)
	case r.has("ignores the session"):
		return k.Stream
	case r.has("tells logs apart by About"):
		return k.Session + "\x00|\x00" + k.Stream + "\x00|\x00" + k.About
	}
	return k.Session + "\x00|\x00" + k.Stream
}

func (c *client) Log(k eventstore.Key) eventstore.Log {
	c.ref.mu.Lock()
	defer c.ref.mu.Unlock()
	l := c.ref.logs[c.ref.name(k)]
	if l == nil {
		l = &refLog{key: k, first: 1}
		if c.ref.has("knows the last handle only") {
			maps.DeleteFunc(c.ref.logs, func(_ string, other *refLog) bool { return other.last() == 0 })
		}
		if !c.ref.has("two handles, two logs") {
			c.ref.logs[c.ref.name(k)] = l
		}
	}
	return &refHandle{c: c, log: l}
}

func (c *client) DropSession(ctx context.Context, session string) error {
	c.ref.mu.Lock()
	defer c.ref.mu.Unlock()
	if c.closed && !c.ref.has("works on after close") {
		return eventstore.ErrClosed
	}
	for name, l := range c.ref.logs {
		if l.key.Session != session && !c.ref.has("drops all sessions") {
			continue
		}
		if l.sealed && c.ref.has("keeps sealed logs of a dropped session") {
			continue
		}
		if l.last() == 0 && c.ref.has("spares handles when it drops a session") {
			continue
		}
		l.gone = true
		delete(c.ref.logs, name)
	}
	return nil
}

func (c *client) Close() error {
	c.ref.mu.Lock()
	defer c.ref.mu.Unlock()
	c.closed = true
	return nil
}

func (l *refLog) last() uint64 { return l.first + uint64(len(l.events)) - 1 }

func (h *refHandle) usable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil && !h.c.ref.has("ignores contexts"):
		return ctx.Err()
	case h.c.closed && !h.c.ref.has("works on after close"):
		return eventstore.ErrClosed
	}
	return nil
}

// room evicts until n bytes fit: sealed logs, then the events of backlogs.
func (r *reference) room(l *refLog, n int, seal bool) bool {
	if r.limit == 0 {
		return true
	}
	used := n
	for _, other := range r.order {
		if other.key.Session == l.key.Session && !other.gone {
			for _, data := range other.events {
				used += len(data)
			}
		}
	}
	for _, other := range slices.Clone(r.order) {
		for used > r.limit && !other.gone && other.key.Session == l.key.Session && len(other.events) > 0 &&
			(other.sealed && !r.has("never evicts") || other.key.Backlog || r.has("trims running logs")) {
			used -= len(other.events[0])
			other.events = other.events[1:]
			if !r.has("forgets where it begins") {
				other.first++
			}
		}
	}
	return used <= r.limit || seal && !r.has("refuses a seal")
}

func (h *refHandle) Read(ctx context.Context, after uint64, buf []eventstore.Event, maxBytes int) (int, eventstore.State, error) {
	r := h.c.ref
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if err := h.usable(ctx); err != nil {
		return 0, eventstore.State{}, err
	}
	l := h.log
	if l.gone && !r.has("reads after a drop") {
		return 0, eventstore.State{}, eventstore.ErrGone
	}
	n, size := 0, 0
events:
	for i, data := range l.events {
		seq := l.first + uint64(i)
		if seq <= after && !r.has("reads from the start") && !(seq == after && r.has("reads the cursor's event")) {
			continue
		}
		if n == len(buf) {
			break
		}
		before := size
		size += len(data)
		switch {
		case maxBytes <= 0, r.has("ignores the byte bound"):
		case r.has("counts a byte bound from the next event on") && before < maxBytes:
		case size > maxBytes && (n > 0 || r.has("returns nothing beyond the byte bound")):
			break events
		}
		if r.has("shortens large events") {
			data = data[:min(len(data), 64<<10)]
		}
		if !r.has("shares its buffer") {
			data = slices.Clip(data)
		}
		buf[n] = eventstore.Event{Seq: seq, Data: data}
		n++
	}
	st := eventstore.State{First: l.first, Last: l.last(), Sealed: l.sealed}
	if r.has("seals early") && st.Last > 100 {
		st.Sealed = true
	}
	return n, st, nil
}

func (h *refHandle) Mark(m eventstore.Mark) {
	r := h.c.ref
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has("evicts what was only written") && int(m.Written) <= len(h.log.events) {
		h.log.events = h.log.events[m.Written:]
		h.log.first += m.Written
	}
	if r.has("marks create") && h.log.last() == 0 {
		h.log.events = [][]byte{nil}
	}
}

func (h *refHandle) Drop(ctx context.Context) error {
	r := h.c.ref
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case h.c.closed && !r.has("works on after close"):
		return eventstore.ErrClosed
	case h.log.gone && r.has("drops once"):
		return eventstore.ErrGone
	case r.has("wipes data when it drops"):
		for _, data := range h.log.events {
			clear(data)
		}
	}
	if !h.log.gone {
		h.log.gone = !r.has("drops nothing")
		if r.logs[r.name(h.log.key)] == h.log {
			delete(r.logs, r.name(h.log.key))
		}
	}
	return nil
}
