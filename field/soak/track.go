package main

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
)

// track is what a client has seen of one stream: which messages, in which order, and by which ids. Every connection to the stream must
// bring the same.
type track struct {
	order    sync.Mutex // held while a message is taken: two connections may bring one each
	mu       sync.Mutex
	messages []uint64       // their hashes
	where    map[string]int // how many messages come before and with the event of that id
	ids      []string       // in the order in which they came
	dead     bool           // the rest cannot be accounted for
}

var hashSeed = maphash.MakeSeed()

// named notes an event id that a connection which has seen pos messages was given.
func (t *track) named(id string, pos int, primer bool) (fault string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.where == nil {
		t.where = map[string]int{}
	}
	before, known := t.where[id]
	switch {
	case known && primer:
		return fmt.Sprintf("the primer's id %s was used before", id)
	case known && before != pos:
		return fmt.Sprintf("the id %s stood for %d messages, and now for %d", id, before, pos)
	case !known:
		t.where[id] = pos
		t.ids = append(t.ids, id)
	}
	return ""
}

// message notes the message after pos. fresh: nobody has seen it before.
func (t *track) message(pos int, data []byte) (fresh bool, fault string) {
	sum := maphash.Bytes(hashSeed, data)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case pos == len(t.messages):
		t.messages = append(t.messages, sum)
		return true, ""
	case pos > len(t.messages):
		return false, fmt.Sprintf("message %d after %d", pos, len(t.messages))
	case t.messages[pos] != sum:
		return false, fmt.Sprintf("message %d was another one before", pos)
	}
	return false, ""
}

// cursor is the id that is back events before the last one, and what it stands for. There must be one.
func (t *track) cursor(back int) (id string, pos int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id = t.ids[max(0, len(t.ids)-1-back)]
	return id, t.where[id]
}

// newest is the cursor with which nothing comes again. Another connection may have brought less, later.
func (t *track) newest() (id string, pos int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, last := range slices.Backward(t.ids) {
		if at := t.where[last]; !ok || at > pos {
			id, pos, ok = last, at, true
		}
	}
	return id, pos, ok
}

func (t *track) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.messages)
}
