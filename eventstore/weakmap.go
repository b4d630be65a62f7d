package eventstore

import (
	"maps"
	"weak"
)

// weakMap finds objects by name for as long as something else refers to them. It has at most twice as many entries as it had
// objects at the last sweep, so those that were collected do not pile up.
type weakMap[T any] struct {
	entries map[string]weak.Pointer[T]
	limit   int // a sweep comes before there are more entries
}

const minWeakLimit = 64

// find returns the object of a name, or nil.
func (m *weakMap[T]) find(name string) *T {
	if len(m.entries) == 0 {
		return nil
	}
	return m.entries[name].Value()
}

// add adds p. The name must be free, or its object collected.
func (m *weakMap[T]) add(name string, p *T) {
	if len(m.entries) >= m.limit {
		m.sweep()
	}
	m.entries[name] = weak.Make(p)
}

// remove removes p. It reports false if the name is not p's.
func (m *weakMap[T]) remove(name string, p *T) bool {
	if p == nil || m.find(name) != p {
		return false
	}
	delete(m.entries, name)
	if outgrown(len(m.entries), m.limit) {
		m.sweep()
	}
	return true
}

// sweep removes the objects that were collected. It replaces a map that has become much too large: a map does not shrink by itself.
func (m *weakMap[T]) sweep() {
	for name, w := range m.entries {
		if w.Value() == nil {
			delete(m.entries, name)
		}
	}
	if m.entries == nil || outgrown(len(m.entries), m.limit) {
		entries := make(map[string]weak.Pointer[T], len(m.entries))
		maps.Copy(entries, m.entries)
		m.entries = entries
	}
	m.limit = max(minWeakLimit, 2*len(m.entries))
}
