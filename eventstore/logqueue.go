package eventstore

// A log can be in four queues: two of its session and the same two of the store, one by its phase and one for acknowledged events.

// link is a log's link in one queue.
type link struct{ prev, next *memoryLog }

// links are a log's links in a queue of its session and in the same queue of the store.
type links [2]link

// ackedLinks is what a log needs as soon as something was acknowledged.
type ackedLinks struct {
	links links // in the queues for acknowledged events
	bytes int64 // memoryLog.ackedBytes as its tenant's unsent has it
}

const (
	ofSession = 0
	ofStore   = 1
)

// logQueue is a queue of logs, linked through the logs themselves. So a log is removed from the middle in constant time and
// without an allocation.
type logQueue struct {
	front, back *memoryLog
	scope       uint8 // ofSession or ofStore
	acked       bool  // the queue for acknowledged events
}

func (q *logQueue) link(l *memoryLog) *link {
	if !q.acked {
		return &l.phaseLinks[q.scope&1]
	}
	return &l.ackedLinks.links[q.scope&1]
}

func (q *logQueue) push(l *memoryLog) {
	q.link(l).prev = q.back
	if q.back == nil {
		q.front = l
	} else {
		q.link(q.back).next = l
	}
	q.back = l
}

func (q *logQueue) remove(l *memoryLog) {
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
