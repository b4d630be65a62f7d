package main

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
)

// track is what a client has read of one stream: which messages, in which order, and with which ids. Every connection to the stream must
// bring the same.
type track struct {
	order    sync.Mutex // held while a message is handled: two connections may bring messages at once
	mu       sync.Mutex
	messages []uint64       // their hashes
	where    map[string]int // for each id, how many messages come up to and with its event
	ids      []string       // in the order of their arrival
	dead     bool           // the rest of the stream cannot be checked
}

var hashSeed = maphash.MakeSeed()

// named records an event id that came on a connection after pos messages of the stream.
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

// message records the message after pos. fresh: it has not come before.
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

// cursor returns the id that came back ids before the newest one, and its position. There must be an id.
func (t *track) cursor(back int) (id string, pos int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id = t.ids[max(0, len(t.ids)-1-back)]
	return id, t.where[id]
}

// newest returns the id with the greatest position: after it nothing comes again. Ids that came later may have lower positions.
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
