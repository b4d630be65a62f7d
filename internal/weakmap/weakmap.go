// Package weakmap finds objects by name while something else refers to them.
package weakmap

import (
	"maps"
	"weak"
)

// Map finds objects by name for as long as something else refers to them. It has at most twice as many entries as it had objects at the
// last sweep, so those that were collected do not pile up. The zero value is ready for use. The caller locks.
type Map[T any] struct {
	entries map[string]weak.Pointer[T]
	limit   int // a sweep comes before there are more entries
}

const minLimit = 64

// Find returns the object of a name, or nil.
func (m *Map[T]) Find(name string) *T {
	if len(m.entries) == 0 {
		return nil
	}
	return m.entries[name].Value()
}

// Add adds p. The name must be free, or its object collected.
func (m *Map[T]) Add(name string, p *T) {
	if len(m.entries) >= m.limit {
		m.sweep()
	}
	m.entries[name] = weak.Make(p)
}

// Remove removes p. It reports false if the name is not p's.
func (m *Map[T]) Remove(name string, p *T) bool {
	if p == nil || m.Find(name) != p {
		return false
	}
	delete(m.entries, name)
	if Outgrown(len(m.entries), m.limit) {
		m.sweep()
	}
	return true
}

// sweep removes the objects that were collected. It replaces a map that has become much too large: a map does not shrink by itself.
func (m *Map[T]) sweep() {
	for name, w := range m.entries {
		if w.Value() == nil {
			delete(m.entries, name)
		}
	}
	if m.entries == nil || Outgrown(len(m.entries), m.limit) {
		entries := make(map[string]weak.Pointer[T], len(m.entries))
		maps.Copy(entries, m.entries)
		m.entries = entries
	}
	m.limit = max(minLimit, 2*len(m.entries))
}

// All calls f for every object that still exists.
func (m *Map[T]) All(f func(name string, p *T)) {
	for name, w := range m.entries {
		if p := w.Value(); p != nil {
			f(name, p)
		}
	}
}

// Len returns how many names cost something: also those of objects that were collected since the last sweep.
func (m *Map[T]) Len() int { return len(m.entries) }

// Outgrown reports whether a map that had peak entries and has n should be replaced by a smaller one.
func Outgrown(n, peak int) bool {
	return peak > minLimit && n <= peak/4
}
