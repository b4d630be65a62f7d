package eventstore

import "math"

// remaining is what is left to evict for an Append.
type remaining uint8

const (
	anyLeft    remaining = iota // nothing was evicted yet, or enough was
	unsentLeft                  // only what clients were not sent yet
	noneLeft
)

// Pinned bytes are those that cannot be evicted.
const (
	smallBytes  = 4 << 10  // a tenant may pin this much although others fill the store, up to a quarter more than its limit
	urgentBytes = 64 << 10 // a tenant that pins more may not use the reserve for urgent events
	shortBytes  = 64 << 10 // this much unacknowledged is worth a poll, in a store that is half full of pinned bytes
)

// admission is the room for the events of one Append or Restore.
type admission struct {
	totals             // by what was evicted in the session, less what is reserved for the events
	charge       int64 // of the events, less that of those that they replace
	seal, urgent bool
	left         remaining        // after makeRoom
	from         *evictionSources // not nil: makeRoom has evicted for this Append what was not sent yet, so the events could fit
}

// admit makes room in the backlog and the session for the events, and reserves it in the store's total. It reports false without an
// error if only the total is short: then the caller must call makeRoom, check everything again, and call admit again. The session's
// lock is held.
func (l *memoryLog) admit(a *admission) (ok bool, err error) {
	s, m, e := l.session, l.session.store, a.charge
	limit := m.perSession - s.overhead() - l.sessionCost(e) // evictions do not change it: an unsealed log stays kept
	cost := l.storeCost(e)
	if s.bytes > limit || l.backlog || s.principal != "" || m.used.Load() > m.total-cost {
		if !a.seal && a.from == nil && !l.couldFit(e, a.urgent) {
			return false, ErrFull
		}
		if l.backlog && !a.seal {
			for l.bytes > m.perBacklog-e {
				l.evict(ruleBacklog, &a.totals)
			}
		}
		for s.bytes > limit {
			v, by := s.queues.victim()
			if v == nil {
				break // a seal or an urgent event may exceed the limit
			}
			v.evict(by, &a.totals)
			if by == ruleBacklog {
				v.hadTurn()
			}
		}
		cost = l.storeCost(e)
	}
	for {
		used, more := m.used.Load(), cost+a.used // the room that was evicted is still reserved
		if used+more > m.total {
			a.addTo(m)
			a.totals = totals{}
			used, more = m.used.Load(), cost
			switch {
			case a.left == anyLeft, a.left == unsentLeft && used > m.total+m.total/4-cost:
				return false, nil
			case a.left == unsentLeft:
			case !a.seal && !l.mayExceed(cost, a.urgent):
				return false, ErrFull
			}
		}
		if more <= 0 {
			return true, nil
		}
		if m.used.CompareAndSwap(used, used+more) {
			a.used -= more
			return true, nil
		}
	}
}

// makeRoom makes room in the store for the events. It releases the session's lock meanwhile: the log to evict from may be another
// session's, and no goroutine holds the mu of two sessions.
func (l *memoryLog) makeRoom(a *admission) {
	s := l.session
	need := l.storeCost(a.charge)
	own, held := s.appender()
	class := classOf(held + need)
	spare := a.left == anyLeft && l.sparesUnsent(need, a.seal)
	if !spare && a.from == nil {
		a.from = &evictionSources{own: own}
	}
	s.mu.Unlock()
	if spare {
		a.left = s.store.makeRoom(need, 0, nil)
	} else {
		a.left = s.store.makeRoom(need, class, a.from)
	}
	s.mu.Lock()
}

// couldFit reports whether events of charge e would fit if everything were evicted that may be. So nothing is evicted in vain,
// unless others append meanwhile.
func (l *memoryLog) couldFit(e int64, urgent bool) bool {
	s, m := l.session, l.session.store
	if l.backlog && e > m.perBacklog || s.bytes-s.evictable > urgentLimit(m.perSession, urgent)-s.overhead()-l.sessionCost(e) {
		return false
	}
	cost := l.storeCost(e)
	if s.principal != "" && !l.backlog && !l.withinBound(cost, urgent) && !l.mayExceed(cost, urgent) {
		return false
	}
	if m.used.Load() <= m.total-cost { // the usual case
		return true
	}
	own, held := s.appender()
	m.mu.Lock()
	evictable := m.evictable.Load() - m.tenants.protected(classOf(held+cost), own)
	m.mu.Unlock()
	return m.used.Load()-evictable <= m.total-cost || l.mayExceed(cost, urgent)
}

func (m *Memory) small() int64 { return min(smallBytes, m.total>>10) }

// urgentLimit is a limit with the reserve for urgent events.
func urgentLimit(limit int64, urgent bool) int64 {
	if !urgent || limit == math.MaxInt64 {
		return limit
	}
	return limit + limit/16
}

// withinBound reports whether a principal would pin no more than is left for others.
func (l *memoryLog) withinBound(cost int64, urgent bool) bool {
	m := l.session.store
	if m.total == math.MaxInt64 {
		return true
	}
	return l.pinned()+cost <= urgentLimit(m.total-(m.used.Load()-m.evictable.Load()), urgent)
}

// pinned is what the log's tenant holds that cannot be evicted.
func (l *memoryLog) pinned() int64 {
	t, held := l.session.appender()
	if t.principal != "" {
		return held - t.evictable.Load()
	}
	return held - l.session.evictable
}

// mayExceed reports whether events are recorded although nothing is left to evict: its tenant holds little, or it is urgent.
func (l *memoryLog) mayExceed(cost int64, urgent bool) bool {
	m := l.session.store
	if m.total == math.MaxInt64 {
		return true
	}
	own, all := l.pinned()+cost, m.used.Load()-m.evictable.Load()+cost
	return own <= m.small() && all <= m.total+m.total/4 || urgent && own <= urgentBytes && all <= m.total+m.total/16
}

// sessionCost is what more events of charge e add to the session's charge.
func (l *memoryLog) sessionCost(e int64) int64 {
	if !l.kept {
		e += l.overhead()
	}
	return e
}

// storeCost is what it adds to the store's charge. A session's first log also brings the session's overhead.
func (l *memoryLog) storeCost(e int64) int64 {
	e = l.sessionCost(e)
	if l.session.keptLogs == 0 {
		e += l.session.overhead()
	}
	return e
}

// overhead is what a log is charged besides its events.
func (l *memoryLog) overhead() int64 {
	return logCharge + heapSize(len(l.name))
}

// sparesUnsent reports whether an Append evicts nothing that clients were not sent yet, while the store exceeds its limit by less
// than a quarter. That is so if its tenant holds little.
func (l *memoryLog) sparesUnsent(cost int64, seal bool) bool {
	m := l.session.store
	if m.total == math.MaxInt64 {
		return false
	}
	_, held := l.session.appender()
	if !seal && !l.backlog {
		held = l.pinned()
	}
	return held+cost <= m.small()
}
