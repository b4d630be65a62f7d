package main

import (
	"context"
	"net/http"
	"time"
)

// remove deletes the session; its streams must end, and nothing of it be left.
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

// leave is a client that disappears.
func (s *session) leave() {
	s.gone.Store(true)
	s.left.Store(true)
	s.cutAll(true)
	s.ledger.count("disappeared")
}

// cutAll cuts every connection that reads a stream.
func (s *session) cutAll(reset bool) {
	s.wires.Range(func(w, _ any) bool {
		w.(*wire).sever(reset) //nolint:forcetypeassert // nothing else is there
		return true
	})
}

// overstay comes back when the session must have expired.
func (s *session) overstay(ctx context.Context) {
	s.listen.end()
	s.listen.work.Wait()
	s.pool.close()

	s.alive()
	// Of a call that was lost before its first id the tool may still run, and ask: as long as it does, the session is in use.
	if !s.wait(s.job.IdleTTL + s.job.IdleTTL/4 + 2*s.job.Longest + 5*time.Second) {
		s.leave()
		return
	}
	s.gone.Store(true)
	status, answer, w, err := s.short(ctx, http.MethodPost, s.header(), `{"jsonrpc":"2.0","id":"late","method":"ping"}`)
	if err != nil || status != http.StatusNotFound {
		s.faultf(w, "ping after the session's life", "status %d, %v: %s", status, err, answer)
	}
	s.ledger.count("overstayed")
}
