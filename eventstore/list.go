package eventstore

// A memory log is in up to four lists: in those of its session and in those of the store, each time in one for what it is
// (place) and in one for its acknowledged events.
const (
	sessionHome = iota
	sessionAcked
	storeHome
	storeAcked
	numSlots
)

// link is a log's place in one list.
type link struct{ prev, next *memoryLog }

// list is a queue of logs, linked through their slot, so that a log leaves from the middle in O(1) and without garbage.
type list struct {
	front, back *memoryLog
	slot        uint8
}

func (q *list) push(l *memoryLog) {
	l.links[q.slot] = link{prev: q.back}
	if q.back == nil {
		q.front = l
	} else {
		q.back.links[q.slot].next = l
	}
	q.back = l
}

func (q *list) remove(l *memoryLog) {
	at := l.links[q.slot]
	if at.prev == nil {
		q.front = at.next
	} else {
		at.prev.links[q.slot].next = at.next
	}
	if at.next == nil {
		q.back = at.prev
	} else {
		at.next.links[q.slot].prev = at.prev
	}
	l.links[q.slot] = link{}
}
