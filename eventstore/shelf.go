package eventstore

// place is what a log is to the store: whether it is held, and what may be taken from it when there is no room.
type place uint8

const (
	nowhere place = iota // never appended to, evicted or dropped: costs nothing
	running              // its acknowledged events may go
	backlog              // its oldest events may go
	done                 // sealed and written out: may go whole
	owed                 // sealed, and the client has not seen the end: may go whole, when nothing else is left
)

// way is how room is made: the four rules, in the order in which they are tried.
type way uint8

const (
	noWay       way = iota
	loseAcked       // the oldest acknowledged event
	loseDone        // a whole log that was written out
	loseBacklog     // the oldest event of a backlog
	loseOwed        // a whole log that was not
)

// shelf holds the logs that something can be taken from, each kind in the order in which they became so. There is one for
// each session and one for the store, where owners have those that were not written out. The caller locks.
type shelf struct {
	acked               list
	done, backlog, owed list
}

func newShelf(whose uint8) shelf {
	return shelf{
		acked:   list{whose: whose, acked: true},
		done:    list{whose: whose},
		backlog: list{whose: whose},
		owed:    list{whose: whose},
	}
}

// victim says what must go first, and how.
func (s *shelf) victim() (*memoryLog, way) {
	switch {
	case s.acked.front != nil:
		return s.acked.front, loseAcked
	case s.done.front != nil:
		return s.done.front, loseDone
	case s.backlog.front != nil:
		return s.backlog.front, loseBacklog
	case s.owed.front != nil:
		return s.owed.front, loseOwed
	}
	return nil, noWay
}

func (s *shelf) home(p place, o *owner) *list {
	switch p {
	case backlog:
		if o != nil {
			return &o.lists[backlogs]
		}
		return &s.backlog
	case done:
		return &s.done
	case owed:
		if o != nil {
			return &o.lists[results]
		}
		return &s.owed
	}
	return nil // nothing can be taken from the others
}

// move files a log under what it became; o is who has it, in the store's shelf.
func (s *shelf) move(l *memoryLog, to standing, o *owner) {
	was := l.standing
	if to.place != was.place {
		if q := s.home(was.place, o); q != nil {
			q.remove(l)
		}
		if q := s.home(to.place, o); q != nil {
			q.push(l)
		}
	}
	switch {
	case to.acked && !was.acked:
		s.acked.push(l)
	case was.acked && !to.acked:
		s.acked.remove(l)
	}
}

// rotate makes it the turn of the next backlog: they lose in turn, so that none is wiped out while others keep everything.
func (s *shelf) rotate(l *memoryLog) {
	s.backlog.remove(l)
	s.backlog.push(l)
}
