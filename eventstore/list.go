package eventstore

// A memory log is in up to four lists: in those of its session and in those of the store, each time in one for what it is
// (place) and in one for its acknowledged events.

// link is a log's place in one list.
type link struct{ prev, next *memoryLog }

// links are its places in a list of its session and in the same one of the store.
type links [2]link

const (
	ofSession = 0
	ofStore   = 1
)

// list is a queue of logs, linked through themselves, so that a log leaves from the middle in O(1) and without garbage.
type list struct {
	front, back *memoryLog
	whose       uint8
	acked       bool // a list for acknowledged events
}

func (q *list) link(l *memoryLog) *link {
	if !q.acked {
		return &l.home[q.whose]
	}
	if l.acks == nil {
		l.acks = new(links)
	}
	return &l.acks[q.whose]
}

func (q *list) push(l *memoryLog) {
	q.link(l).prev = q.back
	if q.back == nil {
		q.front = l
	} else {
		q.link(q.back).next = l
	}
	q.back = l
}

func (q *list) remove(l *memoryLog) {
	at := q.link(l)
	if at.prev == nil {
		q.front = at.next
	} else {
		q.link(at.prev).next = at.next
	}
	if at.next == nil {
		q.back = at.prev
	} else {
		q.link(at.next).prev = at.prev
	}
	*at = link{}
}
