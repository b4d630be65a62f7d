package eventstore

// standing is how a log is filed and charged.
type standing struct {
	place  place
	acked  bool  // has events that were acknowledged
	charge int64 // of the log and its events
	spare  int64 // what eviction could free of it now
}

func (l *memoryLog) stand() standing {
	if !l.kept {
		return standing{}
	}
	to := standing{place: running, acked: l.ackedBytes > 0, charge: l.overhead() + l.bytes, spare: l.ackedBytes}
	switch {
	case l.sealed && l.written:
		to.place, to.spare = done, to.charge
	case l.sealed:
		to.place, to.spare = owed, to.charge
	case l.backlog && l.bytes > 0:
		to.place, to.spare = backlog, l.bytes
	}
	return to
}

// settle makes lists, registries and totals agree with the log. Whoever changes a log calls it before the session's lock is
// released. reserved is what the store's total was already charged for the change.
func (l *memoryLog) settle(reserved int64) {
	s, m := l.session, l.session.store
	was, to := l.standing, l.stand()
	unread := int64(0)
	if to.place == backlog || to.place == owed {
		unread = to.spare - l.ackedBytes
	}
	if was == to && unread == l.unread {
		return
	}
	charge, spare := to.charge-was.charge, to.spare-was.spare
	s.bytes += charge
	s.spare += spare
	began, ended := was.place == nowhere, to.place == nowhere
	switch {
	case began:
		s.logs.hold(l.name, l)
		if s.held++; s.held == 1 {
			charge += s.overhead()
			if s.principal != "" {
				m.mu.Lock()
				m.adopt(s)
				m.mu.Unlock()
			}
		}
	case ended:
		if !l.gone {
			s.logs.release(l.name, l)
		}
		if s.held--; s.held == 0 {
			charge -= s.overhead()
		}
	}
	if charge != reserved {
		m.used.Add(charge - reserved)
	}
	o := s.owner
	if o.principal != "" {
		o.bytes.Add(charge)
		o.spare.Add(spare)
	}
	if spare != 0 {
		m.spare.Add(spare)
	}
	moved := was.place != to.place || was.acked != to.acked
	if moved {
		s.shelf.move(l, to, nil)
	}
	if moved || unread != l.unread || int(o.class.Load()) != s.class() {
		m.mu.Lock()
		if moved {
			m.shelf.move(l, to, o)
		}
		m.owners.file(s, unread-l.unread)
		l.unread = unread
		switch {
		case began && s.held == 1:
			m.sessions.hold(s.name, s)
		case ended && s.held == 0:
			m.sessions.release(s.name, s)
			m.leave(s)
		}
		m.mu.Unlock()
	}
	l.standing = to
	if ended {
		l.acks = nil
	}
}
