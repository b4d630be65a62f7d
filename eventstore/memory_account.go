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

// reconcile makes queues, registries and totals agree with the log. Every method that changes a log calls it before it releases the
// session's lock. reserved is what the store's total was already charged for the change.
func (l *memoryLog) reconcile(reserved int64) {
	s, m := l.session, l.session.store
	was, to := l.account, l.newAccount()
	unsent := int64(0)
	if to.phase == phaseBacklog || to.phase == phaseUnwritten {
		unsent = to.evictable - l.ackedBytes
	}
	if was == to && unsent == l.unsent {
		return
	}
	charge, evictable := to.charge-was.charge, to.evictable-was.evictable
	s.bytes += charge
	s.evictable += evictable
	began, ended := was.phase == phaseNone, to.phase == phaseNone
	switch {
	case began:
		s.logs.hold(l.name, l)
		if s.keptLogs++; s.keptLogs == 1 {
			charge += s.overhead()
			if s.principal != "" {
				m.mu.Lock()
				m.joinPrincipal(s)
				m.mu.Unlock()
			}
		}
	case ended:
		if !l.gone {
			s.logs.release(l.name, l)
		}
		if s.keptLogs--; s.keptLogs == 0 {
			charge -= s.overhead()
		}
	}
	if charge != reserved {
		m.used.Add(charge - reserved)
	}
	t := s.tenant
	if t.principal != "" {
		t.bytes.Add(charge)
		t.evictable.Add(evictable)
	}
	if evictable != 0 {
		m.evictable.Add(evictable)
	}
	moved := was.phase != to.phase || was.acked != to.acked
	if moved {
		s.queues.move(l, to, nil)
	}
	if moved || unsent != l.unsent || int(t.class.Load()) != s.class() {
		m.mu.Lock()
		if moved {
			m.queues.move(l, to, t)
		}
		m.tenants.requeue(s, unsent-l.unsent)
		l.unsent = unsent
		switch {
		case began && s.keptLogs == 1:
			m.sessions.hold(s.name, s)
		case ended && s.keptLogs == 0:
			m.sessions.release(s.name, s)
			m.leavePrincipal(s)
		}
		m.mu.Unlock()
	}
	l.account = to
	if ended {
		l.ackedLinks = nil
	}
}
