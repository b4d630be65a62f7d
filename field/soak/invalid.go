package main

import (
	"context"
	"net/http"
	"strings"
)

// sendInvalid sends an invalid request, which must be refused and must not change the session.
func (s *session) sendInvalid(ctx context.Context) {
	const ping = `{"jsonrpc":"2.0","id":"rubbish","method":"ping"}`
	h, method, body, want := s.header(), http.MethodPost, ping, 0
	kind := s.r.IntN(9)
	switch kind {
	case 0:
		body, want = `{"jsonrpc":"2.0","id":1,`, http.StatusBadRequest
	case 1:
		h["Mcp-Session-Id"], want = "AAAAAAAAAAAAAAAAAAAAAA", http.StatusNotFound
	case 2:
		h["Mcp-Protocol-Version"], want = "1999-01-01", http.StatusBadRequest
	case 3:
		h["Accept"], want = "text/html", http.StatusNotAcceptable
	case 4:
		method, body, h["Last-Event-ID"], want = http.MethodGet, "", "nonsense", http.StatusBadRequest
	case 5:
		method, body, h["Last-Event-ID"], want = http.MethodGet, "", "AAAAAAAAAAAAAAAAAAAAAA.1", http.StatusBadRequest
	case 6:
		method, body, want = http.MethodPut, "", http.StatusMethodNotAllowed
	case 7:
		body, want = `[]`, http.StatusBadRequest
	case 8:
		if s.r.IntN(20) > 0 {
			return
		}
		body, want = `{"jsonrpc":"2.0","id":1,"method":"ping","params":"`+strings.Repeat("x", 5<<20)+`"}`, http.StatusRequestEntityTooLarge
	}
	s.ledger.count("rubbish")
	status, answer, w, err := s.short(ctx, method, h, body)
	if s.gone.Load() || kind == 8 && err != nil { // the server may refuse the request before all of it was sent
		return
	}
	if err != nil || status != want && !s.explained(status, nil) {
		s.faultf(w, "rubbish", "status %d and not %d, %v: %s", status, want, err, answer)
	}
	if kind != 1 && kind != 8 {
		s.noteContact()
	}
}
