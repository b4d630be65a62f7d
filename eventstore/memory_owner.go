package eventstore

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// owner is who gives room to others: a principal with all its sessions, or a session that has no principal. Owners are of classes, by
// powers of two of what is charged to them; those of the highest class that has something to give are first.
type owner struct {
	principal    string       // "": of a session, which knows what is charged
	bytes, spare atomic.Int64 // of a principal: charged, and what eviction could free of it
	class        atomic.Int32 // as it is filed; only the holder of the store's mu changes it

	// The store's mu guards the rest.
	sessions int     // that hold something; only counted for a principal
	unread   int64   // what eviction could free of what clients have not been sent
	lists    [2]list // its backlogs, and its logs that are owed
	links    [2]ownerLink
}

type ownerLink struct {
	prev, next *owner
	filed      bool
}

const (
	backlogs = 0
	results  = 1
	classes  = 64
)

func (o *owner) init() {
	o.lists = [2]list{{whose: ofStore}, {whose: ofStore}}
}

func classOf(bytes int64) int { return bits.Len64(uint64(max(bytes, 0))) }

// class is that of a session's owner, as it should be. The session's lock is held.
func (s *memorySession) class() int { return classOf(s.charged()) }

// charged is what is charged to a session's owner. The session's lock is held.
func (s *memorySession) charged() int64 {
	switch {
	case s.owner.principal != "":
		return s.owner.bytes.Load()
	case s.held == 0:
		return 0
	}
	return s.bytes + s.overhead()
}

// owners are those that have something to give which their clients have not been sent, by class. The store's mu guards them.
type owners struct {
	queues [classes + 1][2]ownerQueue
	unread [classes + 1]int64 // of all of a class
}

type ownerQueue struct{ front, back *owner }

func (q *ownerQueue) push(o *owner, kind int) {
	at := &o.links[kind]
	at.prev, at.filed = q.back, true
	if q.back == nil {
		q.front = o
	} else {
		q.back.links[kind].next = o
	}
	q.back = o
}

func (q *ownerQueue) remove(o *owner, kind int) {
	at := &o.links[kind]
	if at.prev == nil {
		q.front = at.next
	} else {
		at.prev.links[kind].next = at.next
	}
	if at.next == nil {
		q.back = at.prev
	} else {
		at.next.links[kind].prev = at.prev
	}
	*at = ownerLink{}
}

// file puts a session's owner where it belongs, after its charge or its lists have changed. unread is what its unread bytes have grown by.
// The session's lock is held.
func (q *owners) file(s *memorySession, unread int64) {
	o := s.owner
	from := int(o.class.Load())
	q.unread[from] += unread
	o.unread += unread
	for to := s.class(); ; to = s.class() {
		for kind := range o.lists {
			want := o.lists[kind].front != nil
			if o.links[kind].filed && (to != from || !want) {
				q.queues[from][kind].remove(o, kind)
			}
			if want && !o.links[kind].filed {
				q.queues[to][kind].push(o, kind)
			}
		}
		if to == from {
			return
		}
		q.unread[from] -= o.unread
		q.unread[to] += o.unread
		o.class.Store(int32(to)) //nolint:gosec // at most 64
		from = to                // another session of a principal that changes the charge now sees that, or is seen at the next look
	}
}

// givers are who may give all that they have for one Append: its own owner, and those that have begun to, although they are of a lower class
// by now.
type givers struct {
	own    *owner
	others []*owner
}

// victim returns a log of the highest class from least on, or of those who gave before.
func (q *owners) victim(least int, from *givers) (*memoryLog, way) {
	for class := classes; class >= least; class-- {
		for kind := range q.queues[class] {
			if o := q.queues[class][kind].front; o != nil {
				if o != from.own && !slices.Contains(from.others, o) {
					from.others = append(from.others, o)
				}
				return o.lists[kind].front, ways[kind]
			}
		}
	}
	if l, how := from.own.first(); l != nil {
		return l, how
	}
	for _, o := range from.others {
		if l, how := o.first(); l != nil {
			return l, how
		}
	}
	return nil, noWay
}

// first is what an owner gives first.
func (o *owner) first() (*memoryLog, way) {
	for kind := range o.lists {
		if l := o.lists[kind].front; l != nil {
			return l, ways[kind]
		}
	}
	return nil, noWay
}

var ways = [...]way{backlogs: loseBacklog, results: loseOwed}

// spared is what an owner that comes to be of a class must not take: what others of lower classes have.
func (q *owners) spared(class int, own *owner) (sum int64) {
	for c := range class {
		sum += q.unread[c]
	}
	if int(own.class.Load()) < class {
		sum -= own.unread
	}
	return sum
}

// rotate makes it the turn of the next backlog, and of the next owner.
func (q *owners) rotate(l *memoryLog) {
	o := l.session.owner
	o.lists[backlogs].remove(l)
	o.lists[backlogs].push(l)
	queue := &q.queues[o.class.Load()][backlogs]
	queue.remove(o, backlogs)
	queue.push(o, backlogs)
}

// adopt makes a session that begins to hold something one of its principal's. The store's mu is held.
func (m *Memory) adopt(s *memorySession) {
	if s.principal == "" {
		return
	}
	o := m.principals[s.principal]
	if o == nil {
		o = &owner{principal: s.principal}
		o.init()
		if m.principals == nil {
			m.principals = map[string]*owner{}
		}
		m.principals[s.principal] = o
	}
	o.sessions++
	s.owner = o
}

// leave undoes adopt.
func (m *Memory) leave(s *memorySession) {
	o := s.owner
	if o.principal == "" {
		return
	}
	if o.sessions--; o.sessions == 0 {
		delete(m.principals, o.principal)
	}
	s.owner = &s.self
}
