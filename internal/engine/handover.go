package engine

import "github.com/rejoin-mcp/rejoin/core"

// HandOver lets another process go on with the session as soon as nothing runs and the store has everything: then the session ends here, with
// core.Shutdown, and is released. Until then it goes on. letGo: clients are told to come back, as far as they can. HandOver is to be called again, without
// letGo, when something may have ended. It reports whether the session has ended.
func (s *Session) HandOver(letGo bool) (done bool) {
	in := core.In{Op: core.HandOver, Rand: spread()}
	if letGo {
		in.Flags = core.LetGo
	}
	var p pass
	s.mu.Lock()
	acts := false
	if s.over == core.NoReason {
		s.step(&in, &p)
		acts = len(s.outs) > 0
	}
	if s.over == core.NoReason && s.m.AtRest() && len(s.asks) == 0 && s.isStored() {
		s.step(&core.In{Op: core.Delete, Reason: core.Shutdown}, &p)
		acts = true
	}
	done = s.over != core.NoReason
	s.mu.Unlock()
	if acts { // else it would tell the drain, which would call it again
		s.finish(&p)
	}
	return done
}

// IsStored reports whether the session has ended, or the store has all events of it.
func (s *Session) IsStored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over != core.NoReason || s.isStored()
}

// isStored reports whether the store has all events of the session, and nothing is on its way to it. Under the lock.
func (s *Session) isStored() bool {
	for _, st := range s.streams {
		if st != nil && (st.appending || st.isLocal() || st.pending != nil && len(st.pending.queue) > 0) {
			return false
		}
	}
	return true
}

// release lets other processes adopt a session that has ended here, when the last events of it are recorded. Meanwhile the store may lose what it has.
func (s *Session) release() {
	s.waitForAppends()
	s.owner.Record.Release(s.refillLogs, func(err error) {
		if err != nil {
			s.engine.Counters.StoreFailed.Add(1)
		}
		s.dropTail()
	})
}

// refillLogs gives the store all that this process still has of the session.
func (s *Session) refillLogs() error {
	s.mu.Lock()
	streams := append([]*stream(nil), s.streams...)
	s.mu.Unlock()
	for _, st := range streams {
		if st == nil {
			continue
		}
		if own, ok := st.log.(*ownLog); ok {
			if err := s.refillLog(own); err != nil {
				return err
			}
		}
	}
	return nil
}
