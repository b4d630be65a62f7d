package hop

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/rejoin-mcp/rejoin/cluster"
)

// Place is where a session is, as the directory has said. It may have moved since.
type Place struct {
	Owner     cluster.Member
	Principal string // the hash in the record
	CanPoll   bool   // its client comes back for a stream that was ended

	known atomic.Pointer[string]
}

// Knows reports whether principal is the one whose hash is Principal, as Learn was told. False: it is not known.
func (p *Place) Knows(principal string) bool {
	known := p.known.Load()
	return known != nil && *known == principal
}

// Learn notes that principal is the one whose hash is Principal, so that it need not be hashed again.
func (p *Place) Learn(principal string) {
	principal = strings.Clone(principal) // it may be a part of something large
	p.known.Store(&principal)
}

// maxPlaces limits the sessions whose place is remembered. One takes about 250 bytes. placeTime is how long an unused one is remembered, at
// least.
const (
	maxPlaces = 50_000
	placeTime = 10 * time.Minute
)

// Places remembers where sessions are, those that were asked for last. Safe for concurrent use. The zero value is ready.
type Places struct {
	mu    sync.Mutex
	young map[string]*Place // used since old was made
	old   map[string]*Place
	aged  time.Time // when old was made
}

// Find returns the place of the session with that key, or nil.
func (p *Places) Find(key string) *Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.young[key]; at != nil {
		return at
	}
	at := p.old[key]
	if at != nil {
		delete(p.old, key)
		p.put(key, at)
	}
	return at
}

// Put remembers a place.
func (p *Places) Put(key string, at *Place) {
	at.Owner.Self = unique.Make(at.Owner.Self).Value() // one copy for all sessions of an owner
	at.Owner.Incarnation = unique.Make(at.Owner.Incarnation).Value()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.old, key)
	p.put(key, at)
}

func (p *Places) put(key string, at *Place) {
	if len(p.young) >= maxPlaces/2 {
		p.age()
	}
	if p.young == nil {
		p.young = map[string]*Place{}
	}
	p.young[key] = at
}

// Age forgets unused places, if it is time. It is to be called now and then.
func (p *Places) Age() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.aged) >= placeTime {
		p.age()
	}
}

func (p *Places) age() { p.old, p.young, p.aged = p.young, nil, time.Now() }

// Drop forgets a place, unless another one was put there.
func (p *Places) Drop(key string, at *Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.young[key] == at {
		delete(p.young, key)
	}
	if p.old[key] == at {
		delete(p.old, key)
	}
}

// Len returns how many places are remembered.
func (p *Places) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.young) + len(p.old)
}

// Budget limits how often something may happen: Burst times at once, and that many times in each Per. The zero value of the other fields is ready.
type Budget struct {
	Burst int
	Per   time.Duration

	mu   sync.Mutex
	used time.Duration // the part of Per that is used up, times Burst
	at   time.Time
}

// Take reports whether it may happen once more, and notes that it does.
func (b *Budget) Take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.left() {
		return false
	}
	b.used += b.Per
	return true
}

// Left reports whether it may happen once more.
func (b *Budget) Left() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left()
}

func (b *Budget) left() bool {
	now := time.Now()
	b.used = max(0, b.used-min(now.Sub(b.at), b.used/time.Duration(b.Burst)+1)*time.Duration(b.Burst))
	b.at = now
	return b.used+b.Per <= b.Per*time.Duration(b.Burst)
}

// Use notes that it has happened, also if nothing was left: then it may not happen for longer.
func (b *Budget) Use() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += b.Per
}
