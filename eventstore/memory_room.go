package eventstore

// admit makes room for an event that is charged e, and reserves it in the store's total. It returns what it reserved, or 0
// if only the total is short: then the caller must makeRoom, without the session's lock, and come again. nothingLeft: it did,
// in vain. The session's lock is held.
func (l *memoryLog) admit(e int64, seal, nothingLeft bool) (reserved int64, err error) {
	s, m := l.session, l.session.store
	if !seal && !l.possible(e) {
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
			case !nothingLeft:
				return 0, nil
			case !seal:
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
func (l *memoryLog) possible(e int64) bool {
	s, m := l.session, l.session.store
	return (!l.backlog || e <= m.perBacklog) &&
		s.bytes-s.spare <= m.perSession-s.overhead()-l.charge(e) &&
		m.used.Load()-m.spare.Load() <= m.total-l.cost(e)
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

// makeRoom evicts until need more bytes fit in the total, and reports false if there is nothing left to take. The caller
// holds no lock.
func (m *Memory) makeRoom(need int64) bool {
	for m.used.Load() > m.total-need {
		m.mu.Lock()
		l, how := m.shelf.victim()
		m.mu.Unlock()
		if l == nil {
			return false
		}
		l.session.mu.Lock()
		if l.can(how) { // it may have changed before the lock was had; then another is first
			l.evict(how)
		}
		l.session.mu.Unlock()
	}
	return true
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
	m.shelf.rotate(l)
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
