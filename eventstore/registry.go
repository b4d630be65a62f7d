package eventstore

import (
	"maps"
	"slices"
	"weak"
)

// registry finds objects by name. An object that is held stays until it is let go of; any other stays findable for as long
// as somebody outside keeps it, and no longer. So two handles of one name are one object before anything was appended to it
// and after it was evicted, and yet a name that nobody uses costs nothing.
//
// Every method is O(1), amortised. The zero value is ready. The caller locks.
type registry[T any] struct {
	names map[string]entry[T]
	// loose are those that are not held. Some have been collected since; each new one pays for looking at two others.
	loose []looseEntry[T]
	hand  int // where tidy goes on
	peak  int // what the map has room for: it grows by itself but does not shrink
}

type entry[T any] struct {
	known weak.Pointer[T]
	held  *T
	at    int // in loose, while held is nil
}

type looseEntry[T any] struct {
	name  string
	known weak.Pointer[T]
}

func (e entry[T]) get() *T {
	if e.held != nil {
		return e.held
	}
	return e.known.Value()
}

// find returns the object of a name, or nil.
func (r *registry[T]) find(name string) *T {
	return r.names[name].get()
}

// add makes p known, not held. The name must be free.
func (r *registry[T]) add(name string, p *T) {
	if r.names == nil {
		r.names = make(map[string]entry[T])
	}
	if e, ok := r.names[name]; ok { // collected, and not noticed yet
		r.tighten(e.at)
	}
	r.loosen(name, entry[T]{known: weak.Make(p)})
	r.peak = max(r.peak, len(r.names))
}

// hold keeps p until release or forget. A name that belongs to another object by now, or to none, is left alone.
func (r *registry[T]) hold(name string, p *T) {
	e, ok := r.names[name]
	if !ok || e.held != nil || e.known.Value() != p {
		return
	}
	r.tighten(e.at)
	e.held = p
	r.names[name] = e
}

// release undoes hold: p stays known while somebody keeps it.
func (r *registry[T]) release(name string, p *T) {
	if e, ok := r.names[name]; ok && e.held == p {
		e.held = nil
		r.loosen(name, e)
	}
}

// forget frees the name, if it is p's.
func (r *registry[T]) forget(name string, p *T) {
	e, ok := r.names[name]
	if !ok || e.get() != p {
		return
	}
	if e.held == nil {
		r.tighten(e.at)
	}
	r.remove(name)
}

// loosen puts a name among the loose.
func (r *registry[T]) loosen(name string, e entry[T]) {
	r.tidy()
	r.tidy()
	e.at = len(r.loose)
	r.names[name] = e
	r.loose = append(r.loose, looseEntry[T]{name, e.known})
}

// tighten takes the one at i out again.
func (r *registry[T]) tighten(i int) {
	last := len(r.loose) - 1
	if i != last {
		moved := r.loose[last]
		r.loose[i] = moved
		e := r.names[moved.name]
		e.at = i
		r.names[moved.name] = e
	}
	r.loose[last] = looseEntry[T]{}
	r.loose = r.loose[:last]
}

// tidy looks at one loose name, and removes it if it was collected.
func (r *registry[T]) tidy() {
	if len(r.loose) == 0 {
		return
	}
	if r.hand >= len(r.loose) {
		r.hand = 0
	}
	if e := r.loose[r.hand]; e.known.Value() == nil {
		r.tighten(r.hand)
		r.remove(e.name)
	} else {
		r.hand++
	}
}

// remove deletes a name, and gives back what a crowd left behind once three quarters of it are gone.
func (r *registry[T]) remove(name string) {
	delete(r.names, name)
	if r.peak <= 64 || len(r.names) > r.peak/4 {
		return
	}
	names := make(map[string]entry[T], len(r.names))
	maps.Copy(names, r.names)
	r.names, r.peak = names, len(names)
	r.loose = slices.Clone(r.loose)
}
