package eventstore

import "slices"

// phase is where a log is in its life. The comments say what may be evicted from it. The order counts: from phaseWritten on, a log is in
// a queue for its phase; from phaseBacklog on, the store's queue is its tenant's.
type phase uint8

const (
	phaseNone      phase = iota // never appended to, evicted or dropped: charged nothing
	phaseRunning                // its acknowledged events
	phaseWritten                // sealed and written out: all of it
	phaseBacklog                // its oldest events
	phaseUnwritten              // sealed, not written out: all of it, when nothing else is left
)

// rule is one of the four rules of eviction, in the order in which they are tried.
type rule uint8

const (
	ruleNone      rule = iota
	ruleAcked          // evict the oldest acknowledged event
	ruleWritten        // evict a whole log that was written out
	ruleBacklog        // evict the oldest event of a backlog
	ruleUnwritten      // evict a whole log that was not written out
)

// evictionQueues hold the logs that something can be evicted from, in the order in which the logs joined. Each session has them for
// its logs, and the store for all logs; but the store's backlog and unwritten logs are in the queues of their tenants. The caller
// locks.
type evictionQueues struct {
	acked                       logQueue
	written, backlog, unwritten logQueue
}

func newEvictionQueues(scope uint8) evictionQueues {
	return evictionQueues{
		acked:     logQueue{scope: scope, acked: true},
		written:   logQueue{scope: scope},
		backlog:   logQueue{scope: scope},
		unwritten: logQueue{scope: scope},
	}
}

// victim returns the log to evict from first, and the rule to do it by.
func (e *evictionQueues) victim() (*memoryLog, rule) {
	switch {
	case e.acked.front != nil:
		return e.acked.front, ruleAcked
	case e.written.front != nil:
		return e.written.front, ruleWritten
	case e.backlog.front != nil:
		return e.backlog.front, ruleBacklog
	case e.unwritten.front != nil:
		return e.unwritten.front, ruleUnwritten
	}
	return nil, ruleNone
}

// queue returns the queue for a phase, or nil if nothing can be evicted by phase. t is the log's tenant in the store's queues, and
// nil in a session's.
func (e *evictionQueues) queue(p phase, t *tenant) *logQueue {
	switch {
	case p < phaseWritten:
		return nil
	case p == phaseWritten:
		return &e.written
	case t != nil:
		return &t.queues[kindOf(p)]
	case p == phaseBacklog:
		return &e.backlog
	}
	return &e.unwritten
}

// move moves a log from the queues of its old account to those of the new one. t is as for queue.
func (e *evictionQueues) move(l *memoryLog, to account, t *tenant) {
	was := l.account
	if to.phase != was.phase {
		if q := e.queue(was.phase, t); q != nil {
			q.remove(l)
		}
		if q := e.queue(to.phase, t); q != nil {
			q.push(l)
		}
	}
	switch {
	case to.acked && !was.acked:
		if l.ackedLinks == nil {
			l.ackedLinks = new(ackedLinks)
		}
		e.acked.push(l)
	case was.acked && !to.acked:
		e.acked.remove(l)
	}
}

// rotate puts a backlog last. Backlogs lose one event each in turn, so that one is not emptied while others keep everything.
func (e *evictionQueues) rotate(l *memoryLog) {
	e.backlog.remove(l)
	e.backlog.push(l)
}

// evictionSources are the tenants that may have to give all they have for one Append: the tenant that appends, and the tenants that
// have already given for it, by any rule, although their class may be lower by now. Otherwise an Append for which couldFit found room
// could be refused after others have given.
type evictionSources struct {
	own    *tenant
	others []*tenant
}

// add adds a tenant once.
func (from *evictionSources) add(t *tenant) {
	if t != from.own && !slices.Contains(from.others, t) {
		from.others = append(from.others, t)
	}
}

// makeRoom evicts until need more bytes fit in the total, for an Append of a tenant that comes to be of that class. It returns what
// is left to evict. If from is nil, it evicts only by the rules ruleAcked and ruleWritten. The caller holds no lock.
func (m *Memory) makeRoom(need int64, class int, from *evictionSources) remaining {
	for m.used.Load() > m.total-need {
		m.mu.Lock()
		l, by := m.queues.victim()
		if l == nil && from != nil {
			l, by = m.tenants.victim(class, from)
		}
		m.mu.Unlock()
		switch {
		case l == nil && from == nil:
			return unsentLeft
		case l == nil:
			return noneLeft
		}
		l.session.mu.Lock()
		if l.applies(by) { // the log may have changed before it was locked; then another one is first
			var d totals
			t := l.session.tenant
			was := int(t.class.Load())
			l.evict(by, &d)
			d.addTo(m)
			if from != nil && was >= class && int(t.class.Load()) < class {
				m.mu.Lock()
				if first, _ := t.first(); first != nil {
					from.add(t)
				}
				m.mu.Unlock()
			}
			if by == ruleBacklog {
				l.hadTurn()
			}
		}
		l.session.mu.Unlock()
	}
	return anyLeft
}

// applies reports whether a rule still applies to l.
func (l *memoryLog) applies(by rule) bool {
	switch by {
	case ruleAcked:
		return l.account.acked
	case ruleWritten:
		return l.account.phase == phaseWritten
	case ruleBacklog:
		return l.account.phase == phaseBacklog
	case ruleUnwritten:
		return l.account.phase == phaseUnwritten
	}
	return false
}

// hadTurn puts a backlog last, because an event of it was evicted.
func (l *memoryLog) hadTurn() {
	if l.account.phase != phaseBacklog {
		return
	}
	m := l.session.store
	l.session.queues.rotate(l)
	m.mu.Lock()
	m.tenants.rotate(l)
	m.mu.Unlock()
}

// evict evicts one event of l, or all of l, as the rule says. A sealed log that has no events left goes whole: what remains is not
// worth its overhead. d is as for reconcile.
func (l *memoryLog) evict(by rule, d *totals) {
	if by == ruleAcked || by == ruleBacklog {
		l.shift()
		d.evictions++
	} else {
		d.evictions += int64(l.events.n)
		l.clear()
	}
	if l.sealed && l.first > l.last {
		l.clear()
	}
	l.reconcile(d)
}
