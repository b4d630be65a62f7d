package main

import (
	"context"
	"net/http"
	"time"
)

// remove deletes the session. The server must accept that, and not know the session afterwards.
func (s *session) remove(ctx context.Context) {
	was := s.gone.Swap(true)
	status, answer, w, err := s.short(ctx, http.MethodDelete, s.header(), "")
	if was {
		return
	}
	s.ledger.count("deleted")
	late := status == http.StatusNotFound && s.silentFor() >= s.job.IdleTTL
	if err != nil || status != http.StatusNoContent && !late {
		s.faultf(w, "DELETE", "status %d, %v: %s", status, err, answer)
	}
	if s.r.IntN(4) == 0 {
		if status, answer, w, err = s.short(ctx, http.MethodDelete, s.header(), ""); err != nil || status != http.StatusNotFound {
			s.faultf(w, "DELETE again", "status %d, %v: %s", status, err, answer)
		}
	}
}

// disappear cuts all streams, and never sends anything again.
func (s *session) disappear() {
	s.gone.Store(true)
	s.left.Store(true)
	s.cutAll(true)
	s.ledger.count("disappeared")
}

// cutAll cuts every connection that reads a stream.
func (s *session) cutAll(reset bool) {
	s.conns.Range(func(w, _ any) bool {
		w.(*clientConn).disconnect(reset) //nolint:forcetypeassert // nothing else is there
		return true
	})
}

// returnTooLate waits until the session must have expired, and checks that it has.
func (s *session) returnTooLate(ctx context.Context) {
	s.listen.end()
	s.listen.work.Wait()
	s.pool.close()

	s.noteContact()
	// If the client lost a call before its first id, its tool may still run and ask. That keeps the session in use.
	if !s.wait(s.job.IdleTTL + s.job.IdleTTL/4 + 2*s.job.Longest + 5*time.Second) {
		s.disappear()
		return
	}
	s.gone.Store(true)
	status, answer, w, err := s.short(ctx, http.MethodPost, s.header(), `{"jsonrpc":"2.0","id":"late","method":"ping"}`)
	if err != nil || status != http.StatusNotFound {
		s.faultf(w, "ping after the session's life", "status %d, %v: %s", status, err, answer)
	}
	s.ledger.count("overstayed")
}
