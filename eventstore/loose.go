package eventstore

import (
	"maps"
	"slices"
	"weak"
)

// loose finds objects by name for as long as somebody outside keeps them. Some have been collected since; tidy finds out.
type loose[T any] struct {
	at      map[string]int // in entries
	entries []looseEntry[T]
	hand    int // where tidy goes on
	peak    int // what the map has room for
}

type looseEntry[T any] struct {
	name  string
	known weak.Pointer[T]
}

// find returns the object of a name, or nil.
func (q *loose[T]) find(name string) *T {
	if len(q.entries) == 0 {
		return nil
	}
	i, ok := q.at[name]
	if !ok {
		return nil
	}
	return q.entries[i].known.Value()
}

// add makes p known. The name must be free, or its object collected.
func (q *loose[T]) add(name string, p *T) {
	e := looseEntry[T]{name, weak.Make(p)}
	if i, ok := q.at[name]; ok { // collected, and not noticed yet
		q.entries[i] = e
		return
	}
	if q.at == nil {
		q.at = make(map[string]int)
	}
	q.at[name] = len(q.entries)
	q.entries = append(q.entries, e)
	q.peak = max(q.peak, len(q.entries))
}

// remove takes p out. It reports false if the name is not p's.
func (q *loose[T]) remove(name string, p *T) bool {
	if p == nil || q.find(name) != p {
		return false
	}
	q.cut(q.at[name])
	return true
}

// tidy looks at one, and takes it out if it was collected.
func (q *loose[T]) tidy() {
	if len(q.entries) == 0 {
		return
	}
	if q.hand >= len(q.entries) {
		q.hand = 0
	}
	if q.entries[q.hand].known.Value() == nil {
		q.cut(q.hand)
	} else {
		q.hand++
	}
}

// cut takes the one at i out. The last takes its place.
func (q *loose[T]) cut(i int) {
	last := len(q.entries) - 1
	delete(q.at, q.entries[i].name)
	if i != last {
		q.entries[i] = q.entries[last]
		q.at[q.entries[i].name] = i
	}
	q.entries[last] = looseEntry[T]{}
	q.entries = q.entries[:last]
	if outgrown(last, q.peak) {
		at := make(map[string]int, last)
		maps.Copy(at, q.at)
		q.at, q.peak = at, last
		q.entries = slices.Clone(q.entries)
	}
}
