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
// In a cluster (Config.Cluster) nothing is refused as long as another process lives. Idle sessions are released, so that the next request anywhere
// adopts them. A session with a running request stays here and takes every request until nothing of it runs; its clients are told to come
// back, and their polls may come through other processes. New sessions, and requests that belong to no session of this process, are
// forwarded to another process. Drain returns nil when nothing runs and all sessions are released: results that were not fetched
// are the next owner's to serve.
//
// When ctx ends first, Drain calls Close and returns a *DrainError that counts what was left.
func (srv *Server) Drain(ctx context.Context) error {
	srv.engine.Drain()
	srv.cancelListens()
	if srv.node != nil {
		srv.node.lookAround(ctx) // another process may have come just now
		srv.node.forwarder.LetGo()
	} else {
		srv.each(func(s *Session) { s.engine.Drain(false) })
	}
	for {
		if _, done := srv.drained(); done {
			if srv.node != nil {
				srv.node.forwarder.End()
			}
			srv.engine.Notify() // for another Drain that waits
			return nil
		}
		select {
		case <-srv.engine.Changed():
		case <-ctx.Done():
			left, done := srv.drained()
			if done { // the last request may just have ended
				continue
			}
			srv.Close()
			if left == (DrainError{}) { // nothing is lost: clients still read
				return nil
			}
			return &left
		}
	}
}

// drained goes on with a drain. It returns what is unfinished, and whether nothing is left to wait for.
func (srv *Server) drained() (left DrainError, done bool) {
	if srv.node != nil {
		return srv.node.drained()
	}
	left = srv.unfinished()
	if done = left == (DrainError{}); done {
		// Sessions stay for clients that are about to poll. Clients that cannot poll lose their standalone stream now.
		srv.each(func(s *Session) { s.engine.Drain(true) })
	}
	return left, done
}

// lookAround is look at the beginning of a drain. Requests that come meanwhile wait for it, if no other process is known.
func (n *node) lookAround(ctx context.Context) {
	defer n.setLooked()
	n.look(ctx)
}

// look asks the directory for the members as they are now.
func (n *node) look(ctx context.Context) {
	ctx, cancel := n.deadline(ctx)
	defer cancel()
	n.member.Look(ctx)
}

// drained is Server.drained in a cluster. As long as another process may be alive, sessions are handed over to it. Without one they stay, and are
// released in the end.
func (n *node) drained() (left DrainError, done bool) {
	waits := false
	if alone := len(n.member.Others()) == 0; alone {
		left = n.srv.unfinished()
		n.srv.each(func(s *Session) { waits = !s.engine.IsStored() || waits })
		if left == (DrainError{}) && !waits {
			n.srv.each(func(s *Session) { s.engine.StopIdle() })
			if n.srv.tasks != nil {
				n.srv.tasks.Stop()
			}
		}
	} else {
		letGo := !n.letGo.Swap(true)
		n.srv.each(func(s *Session) { waits = !s.engine.HandOver(letGo) || waits })
		for _, t := range n.ownedTasks() {
			waits = !t.HandOver() || waits
		}
		left = n.srv.unfinished()
	}
	return left, left == (DrainError{}) && !waits && n.searching.Load() == 0 && !n.hasSessions()
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
		if !l.Stored {
			left.Unfetched += l.Unfetched
		}
	}
	return left
}

// Close answers every request with an error and ends every stream and session. A task that runs has failed then, with the data.reason
// ReasonShutdown, which clients can still ask for. Close does not wait for handlers or clients. More calls have no effect. It can be passed to
// http.Server.RegisterOnShutdown.
//
// In a cluster (Config.Cluster) the sessions end only in this process: other processes may adopt them at once. Calls that were forwarded to another
// process are answered with an error here, and go on there. The process leaves the cluster when its sessions have ended, in a goroutine that Close does
// not wait for, for at most 30 s.
func (srv *Server) Close() {
	if srv.node != nil {
		srv.node.setLooked() // before: no request waits for a drain that may never come
	}
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
