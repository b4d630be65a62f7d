package eventstore

import "math"

// rest is what is left to take for an Append.
type rest uint8

const (
	all    rest = iota // or enough was taken
	unread             // only what clients were not sent yet
	none
)

// admit makes room for an event that is charged e, and reserves it in the store's total. It returns what it reserved, or 0
// if only the total is short: then the caller must makeRoom, without the session's lock, and come again. left is
// what there was then. began: something was taken already, so that it was possible. The session's lock is held.
func (l *memoryLog) admit(e int64, seal, urgent bool, left rest, began bool) (reserved int64, err error) {
	s, m := l.session, l.session.store
	if !seal && !began && !l.possible(e, urgent) {
		return 0, ErrFull
	}
	if l.backlog && !seal {
		for l.bytes > m.perBacklog-e {
			l.lose(loseBacklog)
		}
	}
	for s.bytes > m.perSession-s.overhead()-l.charge(e) {
		v, how := s.shelf.victim()
		if v == nil {
			break // only a seal gets here, and is taken
		}
		v.evict(how)
	}
	cost := l.cost(e)
	for {
		used := m.used.Load()
		if used > m.total-cost {
			switch {
			case left == all, left == unread && used > m.total+m.total/4-cost:
				return 0, nil
			case left == unread:
			case !seal && !l.granted(cost, urgent):
				return 0, ErrFull
			}
		}
		if m.used.CompareAndSwap(used, used+cost) {
			return cost, nil
		}
	}
}

// possible tells whether an event that is charged e would fit if everything were taken that may be. So nothing is taken in
// vain, unless others append meanwhile.
func (l *memoryLog) possible(e int64, urgent bool) bool {
	s, m := l.session, l.session.store
	if l.backlog && e > m.perBacklog || s.bytes-s.spare > more(m.perSession, urgent)-s.overhead()-l.charge(e) {
		return false
	}
	cost := l.cost(e)
	if s.principal != "" && !l.backlog && !l.bounded(cost, urgent) && !l.granted(cost, urgent) {
		return false
	}
	if m.used.Load() <= m.total-cost { // the usual case
		return true
	}
	m.mu.Lock()
	o := s.owner
	spare := m.spare.Load() - m.owners.spared(classOf(s.charged()+cost), o)
	m.mu.Unlock()
	return m.used.Load()-spare <= m.total-cost || l.granted(cost, urgent)
}

const (
	smallBytes  = 4 << 10  // of what cannot be taken everybody may hold so much, while the store holds little more than it may
	urgentBytes = 64 << 10 // who holds more has no right to the reserve for what is urgent
	shortBytes  = 64 << 10 // of what was not acknowledged are worth a poll where half of the store cannot be taken
)

func (m *Memory) small() int64 { return min(smallBytes, m.total>>10) }

// more is a limit for what is urgent.
func more(limit int64, urgent bool) int64 {
	if !urgent || limit == math.MaxInt64 {
		return limit
	}
	return limit + limit/16
}

// bounded reports whether a principal stays within its bound: as much as is left.
func (l *memoryLog) bounded(cost int64, urgent bool) bool {
	m := l.session.store
	if m.total == math.MaxInt64 {
		return true
	}
	return l.hard()+cost <= more(m.total-(m.used.Load()-m.spare.Load()), urgent)
}

// hard is what the log's owner has that cannot be taken.
func (l *memoryLog) hard() int64 {
	s, m := l.session, l.session.store
	switch {
	case s.owner.principal != "":
		return s.owner.bytes.Load() - s.owner.spare.Load()
	case s.principal == "":
		return s.charged() - s.spare
	}
	m.mu.Lock() // the session holds nothing yet
	defer m.mu.Unlock()
	if o := m.principals[s.principal]; o != nil {
		return o.bytes.Load() - o.spare.Load()
	}
	return 0
}

// granted reports whether an event is taken although all others hold what they may.
func (l *memoryLog) granted(cost int64, urgent bool) bool {
	m := l.session.store
	if m.total == math.MaxInt64 {
		return true
	}
	hard, all := l.hard()+cost, m.used.Load()-m.spare.Load()+cost
	return hard <= m.small() && all <= m.total+m.total/4 || urgent && hard <= urgentBytes && all <= m.total+m.total/16
}

// charge is what one more event that is charged e adds to the log's charge.
func (l *memoryLog) charge(e int64) int64 {
	if !l.kept {
		e += l.overhead()
	}
	return e
}

// cost is what it adds to the store's: the first log also brings its session's overhead.
func (l *memoryLog) cost(e int64) int64 {
	e = l.charge(e)
	if l.session.held == 0 {
		e += l.session.overhead()
	}
	return e
}

// overhead is what a log is charged besides its events.
func (l *memoryLog) overhead() int64 {
	return logCharge + heapSize(len(l.name))
}

// gentle reports whether an Append takes nothing that clients were not sent yet, as long as the store holds little more than it may: its
// owner holds little.
func (l *memoryLog) gentle(cost int64, seal bool) bool {
	m := l.session.store
	if m.total == math.MaxInt64 {
		return false
	}
	held := l.session.charged()
	if !seal && !l.backlog {
		held = l.hard()
	}
	return held+cost <= m.small()
}

// makeRoom evicts until need more bytes fit in the total, for somebody of that class, and tells what is left to take. from nil: nothing is taken
// that clients were not sent yet. The caller holds no lock.
func (m *Memory) makeRoom(need int64, class int, from *givers) rest {
	for m.used.Load() > m.total-need {
		m.mu.Lock()
		l, how := m.shelf.victim()
		if l == nil && from != nil {
			l, how = m.owners.victim(class, from)
		}
		m.mu.Unlock()
		switch {
		case l == nil && from == nil:
			return unread
		case l == nil:
			return none
		}
		l.session.mu.Lock()
		if l.can(how) { // it may have changed before the lock was had; then another is first
			l.evict(how)
		}
		l.session.mu.Unlock()
	}
	return all
}

// can reports whether how still applies to l.
func (l *memoryLog) can(how way) bool {
	switch how {
	case loseAcked:
		return l.standing.acked
	case loseDone:
		return l.standing.place == done
	case loseBacklog:
		return l.standing.place == backlog
	case loseOwed:
		return l.standing.place == owed
	}
	return false
}

// evict takes one event of l, or all of it. Backlogs do it in turn.
func (l *memoryLog) evict(how way) {
	l.lose(how)
	if how != loseBacklog || l.standing.place != backlog {
		return
	}
	m := l.session.store
	l.session.shelf.rotate(l)
	m.mu.Lock()
	m.owners.rotate(l)
	m.mu.Unlock()
}

// lose is evict without the turns. A sealed log without events goes whole: nothing of it is worth its overhead.
func (l *memoryLog) lose(how way) {
	m := l.session.store
	if how == loseAcked || how == loseBacklog {
		l.shift()
		m.evicted.Add(1)
	} else {
		m.evicted.Add(int64(l.events.n))
		l.clear()
	}
	if l.sealed && l.first > l.last {
		l.clear()
	}
	l.settle(0)
}
