package rejoin

import (
	"context"
	"fmt"
)

// DrainError says what a Drain did not wait for.
type DrainError struct {
	Running   int // requests that had no response yet, tasks and requests that were forwarded to other processes among them
	Unfetched int // responses that were not written to a client
}

func (e *DrainError) Error() string {
	return fmt.Sprintf("rejoin: drained with %d requests running and %d responses not fetched", e.Running, e.Unfetched)
}

// Draining reports whether Drain or Close was called. Use it for readiness probes.
func (srv *Server) Draining() bool { return srv.engine.Draining() }

// Drain waits until the server has finished its work. Call it before http.Server.Shutdown.
//
// It refuses new sessions and new requests (503) and ends idle standalone streams and the modern era's subscriptions/listen. It still
// serves polls and tasks/…, and the streams of running requests stay open, because no other process could serve them. It returns nil when no
// request or task runs and each response has been written to a client or was kept for Retain, that of a task for Tasks.TTL. It does not end
// sessions then: a client that is still reading, or about to poll, would be told that its session is gone.
//
// When ctx ends first, Drain calls Close and returns a *DrainError that counts what was left.
func (srv *Server) Drain(ctx context.Context) error {
	srv.engine.Drain()
	srv.cancelListens()
	srv.each(func(s *Session) { s.engine.Drain(false) })
	if srv.node != nil {
		srv.node.forwarder.LetGo()
	}
	for {
		left := srv.unfinished()
		if left == (DrainError{}) {
			// Sessions stay for clients that are about to poll. Clients that cannot poll lose their standalone stream now.
			srv.each(func(s *Session) { s.engine.Drain(true) })
			if srv.node != nil {
				srv.node.forwarder.End()
			}
			srv.engine.Notify() // for another Drain that waits
			return nil
		}
		select {
		case <-srv.engine.Changed():
		case <-ctx.Done():
			if left = srv.unfinished(); left != (DrainError{}) { // the last request may just have ended
				srv.Close()
				return &left
			}
		}
	}
}

// unfinished counts what a drain waits for.
func (srv *Server) unfinished() (left DrainError) {
	left.Running = int(srv.modernRunning.Load())
	if srv.tasks != nil {
		running, unfetched, _ := srv.tasks.Count()
		left.Running += running
		left.Unfetched += unfetched
	}
	if srv.node != nil {
		left.Running += srv.node.forwarder.Waiting()
	}
	for _, s := range srv.all() {
		l, _ := s.engine.Load()
		left.Running += l.Running
		left.Unfetched += l.Unfetched
	}
	return left
}

// Close answers every request with an error and ends every stream and session. A task that runs has failed then, with the data.reason
// ReasonShutdown, which clients can still ask for. Close does not wait for handlers or clients. More calls have no effect. It can be passed to
// http.Server.RegisterOnShutdown.
//
// In a cluster (Config.Cluster) the sessions end only in this process: other processes may adopt them at once. The process leaves the cluster when its
// sessions have ended, in a goroutine that Close does not wait for, for at most 30 s.
func (srv *Server) Close() {
	srv.engine.Drain()
	srv.cancelModern() // first: a call that becomes a task after Stop finds out by it
	if srv.tasks != nil {
		srv.tasks.Stop()
	}
	srv.each(func(s *Session) { s.engine.Stop() })
	if srv.node != nil {
		srv.node.leave()
	}
}

// each calls do for each session.
func (srv *Server) each(do func(*Session)) {
	for _, s := range srv.all() {
		do(s)
	}
}
