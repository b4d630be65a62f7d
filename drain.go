package rejoin

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/rejoin-mcp/rejoin/core"
)

// DrainError says what a Drain left behind.
type DrainError struct{ Running, Unfetched int }

func (e *DrainError) Error() string {
	return fmt.Sprintf("rejoin: drained with %d requests running and %d responses not fetched", e.Running, e.Unfetched)
}

// Draining reports whether Drain or Close was called; for readiness probes.
func (s *Server) Draining() bool { return s.draining.Load() }

// Drain refuses new sessions and new requests (503), ends idle standalone streams and the modern era's subscriptions/listen, goes on
// serving polls, and returns nil once no request runs and each response has been written to a client (or Retain has passed). The
// streams of running requests stay open until then: nobody could take them over. When ctx ends, what is left is answered with an error
// and Drain returns a *DrainError that counts it. Sessions are not ended by a clean drain: a client that is still reading, or about to
// poll, must not be told that its session is gone. Call it before http.Server.Shutdown.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	s.hush()
	s.each(core.In{Op: core.Drain})
	for {
		left := s.left()
		if left == (DrainError{}) {
			// Sessions stay, for clients whose poll is on its way; those that cannot poll lose their standalone stream now.
			s.each(core.In{Op: core.Drain, Flags: core.Final})
			s.nudge() // another drain may wait
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			if left = s.left(); left != (DrainError{}) { // the last one may have ended in this very moment
				s.Close()
				return &left
			}
		}
	}
}

// left counts what a drain still waits for.
func (s *Server) left() (left DrainError) {
	left.Running = int(s.modern.Load())
	for _, n := range s.all() {
		n.mu.Lock()
		if !n.over {
			left.Running += n.m.Running()
			left.Unfetched += n.m.Unfetched()
		}
		n.mu.Unlock()
	}
	return left
}

// nudge makes a drain look again.
func (s *Server) nudge() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Close answers every request with an error, ends every stream and session, and waits for nothing. Idempotent.
// It fits http.Server.RegisterOnShutdown.
func (s *Server) Close() {
	s.draining.Store(true)
	s.kill()
	s.each(core.In{Op: core.Stop})
}

// each steps all sessions.
func (s *Server) each(in core.In) {
	for _, n := range s.all() {
		in.Rand = rand.Uint32() //nolint:gosec // spreads retries
		_ = n.do(in)            // nothing of it can be refused
	}
}
