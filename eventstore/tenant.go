package eventstore

import (
	"math/bits"
	"sync/atomic"
)

// tenant is one of those that share the store: a principal with all its sessions, or a session that has no principal. Tenants are
// in classes, by powers of two of what they are charged. Of those that have unsent events, the ones of the highest class give first.
//
// Unsent is what only the rules ruleBacklog and ruleUnwritten can evict: what was not acknowledged of backlogs and unwritten logs.
type tenant struct {
	principal string       // "": the tenant is a session, and memorySession has its charge
	*sums                  // of a principal only
	class     atomic.Int32 // the class it is queued in; changed under the store's mu only

	// The store's mu guards the rest.
	unsent int64       // bytes
	queues [2]logQueue // of its backlogs and of its unwritten logs
	links  [2]tenantLink
}

// sums are those of a principal's sessions.
type sums struct {
	bytes, evictable atomic.Int64 // the charge, and what eviction could free of it
	sessions         int          // that hold something; the store's mu guards it
}

type tenantLink struct {
	prev, next *tenant
	queued     bool
}

// Indices of a tenant's queues.
const (
	kindBacklog   = 0
	kindUnwritten = 1
)

// kindOf is the kind of a log in phaseBacklog or phaseUnwritten.
func kindOf(p phase) int { return int(p-phaseBacklog) & 1 }

// ruleOf is the rule by which a log of each kind is evicted.
var ruleOf = [...]rule{kindBacklog: ruleBacklog, kindUnwritten: ruleUnwritten}

const classes = 64

func classOf(bytes int64) int { return bits.Len64(uint64(max(bytes, 0))) }

func (t *tenant) init() {
	t.queues = [2]logQueue{{scope: ofStore}, {scope: ofStore}}
}

// first returns the log that a tenant gives first.
func (t *tenant) first() (*memoryLog, rule) {
	for kind := range t.queues {
		if l := t.queues[kind].front; l != nil {
			return l, ruleOf[kind]
		}
	}
	return nil, ruleNone
}

// class is the class that a session's tenant should be in. The session's lock is held.
func (s *memorySession) class() int { return classOf(s.charged()) }

// charged is the charge of a session's tenant. The session's lock is held.
func (s *memorySession) charged() int64 {
	switch {
	case s.tenant.principal != "":
		return s.tenant.bytes.Load()
	case s.keptLogs == 0:
		return 0
	}
	return s.bytes + s.overhead()
}

// tenants are the tenants that have unsent events, by class. The store's mu guards them.
type tenants struct {
	queues [classes + 1][2]tenantQueue
	unsent [classes + 1]int64 // the sum of each class, in bytes
}

type tenantQueue struct{ front, back *tenant }

func (q *tenantQueue) push(t *tenant, kind int) {
	at := &t.links[kind]
	at.prev, at.queued = q.back, true
	if q.back == nil {
		q.front = t
	} else {
		q.back.links[kind].next = t
	}
	q.back = t
}

func (q *tenantQueue) remove(t *tenant, kind int) {
	at := &t.links[kind]
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
	*at = tenantLink{}
}

// joined queues a tenant that has got a log of a kind.
func (ts *tenants) joined(t *tenant, kind int) {
	if !t.links[kind].queued {
		ts.queues[t.class.Load()][kind].push(t, kind)
	}
}

// left removes a tenant from its queue if it has lost the last log of a kind.
func (ts *tenants) left(t *tenant, kind int) {
	if t.queues[kind].front == nil {
		ts.queues[t.class.Load()][kind].remove(t, kind)
	}
}

// add adds to the unsent bytes of a tenant.
func (ts *tenants) add(t *tenant, unsent int64) {
	ts.unsent[t.class.Load()] += unsent
	t.unsent += unsent
}

// reclass moves a session's tenant to the class of its charge. The session's lock is held, too.
func (ts *tenants) reclass(s *memorySession) {
	t := s.tenant
	from := int(t.class.Load())
	for to := s.class(); to != from; to = s.class() {
		for kind := range t.queues {
			if t.links[kind].queued {
				ts.queues[from][kind].remove(t, kind)
				ts.queues[to][kind].push(t, kind)
			}
		}
		ts.unsent[from] -= t.unsent
		ts.unsent[to] += t.unsent
		t.class.Store(int32(to)) //nolint:gosec // at most 64
		// Another session of the principal may change the charge now. Either the next round sees the new charge, or that change
		// calls for another reclass.
		from = to
	}
}

// victim returns the log to evict from first, and the rule to do it by: a log of the highest class, but of none below least, or else
// of the tenants that have to give all they have. It adds the log's tenant to those.
func (ts *tenants) victim(least int, from *evictionSources) (*memoryLog, rule) {
	for class := classes; class >= least; class-- {
		for kind := range ts.queues[class] {
			if t := ts.queues[class][kind].front; t != nil {
				from.add(t)
				return t.queues[kind].front, ruleOf[kind]
			}
		}
	}
	if l, by := from.own.first(); l != nil {
		return l, by
	}
	for _, t := range from.others {
		if l, by := t.first(); l != nil {
			return l, by
		}
	}
	return nil, ruleNone
}

// protected returns the unsent bytes that own must not take when it comes to be in class: those of all others in lower classes.
func (ts *tenants) protected(class int, own *tenant) (sum int64) {
	for c := range class {
		sum += ts.unsent[c]
	}
	if int(own.class.Load()) < class {
		sum -= own.unsent
	}
	return sum
}

// rotate puts a backlog last in its tenant's queue, and the tenant last in its class.
func (ts *tenants) rotate(l *memoryLog) {
	t := l.session.tenant
	t.queues[kindBacklog].remove(l)
	t.queues[kindBacklog].push(l)
	queue := &ts.queues[t.class.Load()][kindBacklog]
	queue.remove(t, kindBacklog)
	queue.push(t, kindBacklog)
}

// joinPrincipal makes its principal the tenant of a session that begins to hold something. The store's mu is held.
func (m *Memory) joinPrincipal(s *memorySession) {
	if s.principal == "" {
		return
	}
	t := m.principals[s.principal]
	if t == nil {
		t = &tenant{principal: s.principal, sums: &sums{}}
		t.init()
		if m.principals == nil {
			m.principals = map[string]*tenant{}
		}
		m.principals[s.principal] = t
	}
	t.sessions++
	s.tenant = t
}

// leavePrincipal undoes joinPrincipal. The store's mu is held.
func (m *Memory) leavePrincipal(s *memorySession) {
	t := s.tenant
	if t.principal == "" {
		return
	}
	if t.sessions--; t.sessions == 0 {
		delete(m.principals, t.principal)
	}
	s.tenant = &s.own
}
