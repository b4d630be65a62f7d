package eventstore

import "maps"

// registry finds objects by name. An object that is held stays until it is let go of; any other stays findable for as long
// as somebody outside keeps it, and no longer. So two handles of one name are one object before anything was appended to it
// and after it was evicted, and yet a name that nobody uses costs nothing.
//
// What is added is nearly always held at once, and a weak pointer is dear. So the one that was added last, and is not held
// yet, is kept as if somebody did. It is one, and its name is short, whatever happens.
//
// Every method is O(1), amortised. The zero value is ready. The caller locks.
type registry[T any] struct {
	held      map[string]*T
	peak      int // what held has room for: it grows by itself but does not shrink
	fresh     *T  // nil if that one was held or forgotten
	freshName string
	loose     loose[T] // all others
}

// longName is too long for a name that may stay though nobody uses it.
const longName = 64

// find returns the object of a name, or nil.
func (r *registry[T]) find(name string) *T {
	if p := r.held[name]; p != nil {
		return p
	}
	if r.fresh != nil && r.freshName == name {
		return r.fresh
	}
	return r.loose.find(name)
}

// add makes p known, not held. The name must be free. Each one pays for looking at two of the loose, and nothing becomes loose
// that was not added.
func (r *registry[T]) add(name string, p *T) {
	r.loose.tidy()
	r.loose.tidy()
	if len(name) > longName {
		r.loose.add(name, p)
		return
	}
	if r.fresh != nil {
		r.loose.add(r.freshName, r.fresh)
	}
	r.fresh, r.freshName = p, name
}

// hold keeps p until release or forget. A name that belongs to another object by now, or to none, is left alone.
func (r *registry[T]) hold(name string, p *T) {
	if !r.wilt(p) && !r.loose.remove(name, p) {
		return
	}
	if r.held == nil {
		r.held = make(map[string]*T)
	}
	r.held[name] = p
	r.peak = max(r.peak, len(r.held))
}

// wilt takes p out of its place if it is the fresh one.
func (r *registry[T]) wilt(p *T) bool {
	if p == nil || r.fresh != p {
		return false
	}
	r.fresh, r.freshName = nil, ""
	return true
}

// release undoes hold: p stays known while somebody keeps it.
func (r *registry[T]) release(name string, p *T) {
	if r.drop(name, p) {
		r.loose.add(name, p)
	}
}

// forget frees the name, if it is p's.
func (r *registry[T]) forget(name string, p *T) {
	if !r.drop(name, p) && !r.wilt(p) {
		r.loose.remove(name, p)
	}
}

// drop takes p out of those that are held, and gives back what a crowd left behind once three quarters of it are gone.
func (r *registry[T]) drop(name string, p *T) bool {
	if p == nil || r.held[name] != p {
		return false
	}
	delete(r.held, name)
	if outgrown(len(r.held), r.peak) {
		held := make(map[string]*T, len(r.held))
		maps.Copy(held, r.held)
		r.held, r.peak = held, len(held)
	}
	return true
}

// outgrown reports whether a map of n is worth making anew, when it had peak.
func outgrown(n, peak int) bool {
	return peak > 64 && n <= peak/4
}

// all calls f for every object that is still there.
func (r *registry[T]) all(f func(*T)) {
	for _, p := range r.held {
		f(p)
	}
	if r.fresh != nil {
		f(r.fresh)
	}
	for _, e := range r.loose.entries {
		if p := e.known.Value(); p != nil {
			f(p)
		}
	}
}
