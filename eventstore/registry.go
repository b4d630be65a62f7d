package eventstore

import (
	"maps"

	"github.com/rejoin-mcp/rejoin/internal/weakmap"
)

// registry finds objects by name. It keeps an object that is held until it is released. It finds any other object for as long as
// something else refers to it, through a weak pointer. So all handles of a name are the same object, also before the first append
// and after eviction, and a name that is not used any more costs nothing.
//
// Weak pointers are expensive to make, and nearly every object is held right after it was added or released. So the newest object that
// is not held has an ordinary pointer until the next one is added. It may stay although nothing refers to it, but that is one object,
// and its name is short.
//
// Every method takes constant time, amortised. The zero value is ready for use. The caller locks.
type registry[T any] struct {
	held       map[string]*T
	peak       int // the most that held had since it was made: a map does not shrink by itself
	newest     *T  // the newest that is not held; nil if it was held or forgotten
	newestName string
	weak       weakmap.Map[T] // all others
}

// maxNewestName bounds the name of the newest object.
const maxNewestName = 64

// find returns the object of a name, or nil.
func (r *registry[T]) find(name string) *T {
	if p := r.held[name]; p != nil {
		return p
	}
	if r.newest != nil && r.newestName == name {
		return r.newest
	}
	return r.weak.Find(name)
}

// add adds p, which is not held yet. The name must be free.
func (r *registry[T]) add(name string, p *T) {
	if len(name) > maxNewestName {
		r.weak.Add(name, p)
		return
	}
	if r.newest != nil {
		r.weak.Add(r.newestName, r.newest)
	}
	r.newest, r.newestName = p, name
}

// hold keeps p until release or forget. It does nothing if the name is not p's.
func (r *registry[T]) hold(name string, p *T) {
	if !r.removeNewest(p) && !r.weak.Remove(name, p) {
		return
	}
	if r.held == nil {
		r.held = make(map[string]*T)
	}
	r.held[name] = p
	r.peak = max(r.peak, len(r.held))
}

// removeNewest removes p if it is the newest object.
func (r *registry[T]) removeNewest(p *T) bool {
	if p == nil || r.newest != p {
		return false
	}
	r.newest, r.newestName = nil, ""
	return true
}

// release undoes hold: p is found while something else refers to it.
func (r *registry[T]) release(name string, p *T) {
	if !r.removeHeld(name, p) {
		return
	}
	if r.newest == nil && len(name) <= maxNewestName {
		r.newest, r.newestName = p, name
		return
	}
	r.weak.Add(name, p)
}

// forget removes p and frees its name. It does nothing if the name is not p's.
func (r *registry[T]) forget(name string, p *T) {
	if !r.removeHeld(name, p) && !r.removeNewest(p) {
		r.weak.Remove(name, p)
	}
}

// removeHeld removes p if it is held.
func (r *registry[T]) removeHeld(name string, p *T) bool {
	if p == nil || r.held[name] != p {
		return false
	}
	r.forgetHeld(name)
	return true
}

// forgetHeld is forget for the name of an object that is held. It replaces a map that has become much too large.
func (r *registry[T]) forgetHeld(name string) {
	delete(r.held, name)
	if weakmap.Outgrown(len(r.held), r.peak) {
		held := make(map[string]*T, len(r.held))
		maps.Copy(held, r.held)
		r.held, r.peak = held, len(held)
	}
}

// all calls f for every object that still exists.
func (r *registry[T]) all(f func(*T)) {
	for _, p := range r.held {
		f(p)
	}
	if r.newest != nil {
		f(r.newest)
	}
	r.weak.All(func(_ string, p *T) { f(p) })
}
