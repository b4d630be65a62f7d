package eventstore

// account is what is known of a log outside of it: what it is queued by, and what it adds to the totals of its session, its tenant
// and the store.
type account struct {
	phase     phase
	acked     bool  // it has acknowledged events
	charge    int64 // of the log and its events
	evictable int64 // what eviction could free of that now
}

// newAccount returns the account that the log should have.
func (l *memoryLog) newAccount() account {
	if !l.kept {
		return account{}
	}
	to := account{phase: phaseRunning, acked: l.ackedBytes > 0, charge: l.overhead() + l.bytes, evictable: l.ackedBytes}
	switch {
	case l.sealed && l.written:
		to.phase, to.evictable = phaseWritten, to.charge
	case l.sealed:
		to.phase, to.evictable = phaseUnwritten, to.charge
	case l.backlog && l.bytes > 0:
		to.phase, to.evictable = phaseBacklog, l.bytes
	}
	return to
}

// totals is a change of the store's totals that is not in them yet. Several changes are added at once, because each takes an atomic
// operation.
type totals struct{ used, evictable, evictions int64 }

func (d *totals) addTo(m *Memory) {
	if d.used != 0 {
		m.used.Add(d.used)
	}
	if d.evictable != 0 {
		m.evictable.Add(d.evictable)
	}
	if d.evictions != 0 {
		m.evictions.Add(d.evictions)
	}
}

// settle is reconcile for a change that comes alone.
func (l *memoryLog) settle() {
	var d totals
	l.reconcile(&d)
	d.addTo(l.session.store)
}

// reconcile makes queues, registries and totals agree with the log. Every method that changes a log calls it before it releases the
// session's lock. It adds the change of the store's totals to d; the caller adds d to them before it releases the lock.
func (l *memoryLog) reconcile(d *totals) {
	s, was := l.session, &l.account
	// The usual case is made fast: a running log stays in its queues, and none of it counts as unsent.
	if l.kept && !l.sealed && !l.backlog && was.phase == phaseRunning && was.acked == (l.ackedBytes > 0) {
		charge, evictable := l.overhead()+l.bytes-was.charge, l.ackedBytes-was.evictable
		was.charge += charge
		was.evictable += evictable
		if s.charge(charge, evictable, 0, d) {
			m := s.store
			m.mu.Lock()
			m.tenants.reclass(s)
			m.mu.Unlock()
		}
		return
	}
	to := l.newAccount()
	unsent := to.unsent(l.ackedBytes) - was.unsent(l.countedAcked())
	if was.phase != to.phase || was.acked != to.acked {
		l.move(to, unsent, d)
	} else {
		if crosses := s.charge(to.charge-was.charge, to.evictable-was.evictable, 0, d); crosses || unsent != 0 {
			m := s.store
			m.mu.Lock()
			m.tenants.add(s.tenant, unsent)
			if crosses {
				m.tenants.reclass(s)
			}
			m.mu.Unlock()
		}
		*was = to
	}
	if l.ackedLinks != nil {
		l.ackedLinks.bytes = l.ackedBytes
	}
}

// unsent is what a tenant counts as unsent of a log with that account. ackedBytes is what was acknowledged of the log.
func (a account) unsent(ackedBytes int64) int64 {
	if a.phase < phaseBacklog {
		return 0
	}
	return a.evictable - ackedBytes
}

// countedAcked is ackedBytes as the tenant's unsent has it.
func (l *memoryLog) countedAcked() int64 {
	if l.ackedLinks == nil {
		return 0
	}
	return l.ackedLinks.bytes
}

// charge adds a change of a log's account to the sums of the session and its tenant, and to d. overhead is the change of the session's
// own overhead. It reports whether the tenant belongs to another class now: then the caller must call reclass.
func (s *memorySession) charge(charge, evictable, overhead int64, d *totals) (crosses bool) {
	s.bytes += charge
	s.evictable += evictable
	charge += overhead
	d.used += charge
	d.evictable += evictable
	var now int64
	if t := s.tenant; t.principal != "" {
		t.evictable.Add(evictable)
		now = t.bytes.Add(charge)
	} else {
		now = s.charged()
	}
	was := now - charge
	return was^now > was&now // classOf(was) != classOf(now)
}

// move is the part of reconcile for a log that comes to be in other queues or registries.
func (l *memoryLog) move(to account, unsent int64, d *totals) {
	s, m, was := l.session, l.session.store, l.account.phase
	overhead := int64(0)
	switch {
	case was == phaseNone:
		s.logs.hold(l.name, l)
		if s.keptLogs++; s.keptLogs == 1 {
			overhead = s.overhead()
			if s.principal != "" {
				m.mu.Lock()
				m.joinPrincipal(s)
				m.mu.Unlock()
			}
		}
	case to.phase == phaseNone:
		if !l.gone {
			s.logs.release(l.name, l)
		}
		if s.keptLogs--; s.keptLogs == 0 {
			overhead = -s.overhead()
		}
	}
	crosses := s.charge(to.charge-l.account.charge, to.evictable-l.account.evictable, overhead, d)
	s.queues.move(l, to, nil)
	t := s.tenant
	m.mu.Lock()
	m.queues.move(l, to, t)
	if was >= phaseBacklog {
		m.tenants.left(t, kindOf(was))
	}
	if to.phase >= phaseBacklog {
		m.tenants.joined(t, kindOf(to.phase))
	}
	m.tenants.add(t, unsent)
	if crosses {
		m.tenants.reclass(s)
	}
	switch {
	case overhead > 0:
		m.sessions.hold(s.name, s)
	case overhead < 0:
		m.sessions.release(s.name, s)
		m.leavePrincipal(s)
	}
	m.mu.Unlock()
	l.account = to
	if to.phase == phaseNone {
		l.ackedLinks = nil
	}
}
