package rejoin

import (
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Stats are numbers of a server. Sessions, Streams, Connections, Parked, Tasks, TasksRunning and StoredBytes are gauges; all other fields count
// since NewServer. Of these fields only Connections, Refused, WritesTimedOut, StoreFailed and those about tasks and the store include requests of
// the modern era.
type Stats struct {
	Sessions    int64
	Streams     int64 // running, and ended ones that are kept
	Connections int64
	Parked      int64 // streams of requests that run and have no reader
	StoredBytes int64 // in the event store

	Tasks        int64 // that run, and ended ones that are kept
	TasksRunning int64
	TasksMade    int64 // calls that became a task

	Opened    int64 // sessions that were opened
	Closed    int64 // times that a client was disconnected
	Resumed   int64 // times that a client came back to a stream
	TakenOver int64 // connections that were replaced by a newer one
	Abandoned int64 // requests that were cancelled because the client did not come back
	Doubted   int64 // sessions whose client did not come back in time, so that it is not disconnected again
	Moved     int64 // sessions that another process took over (eventstore.ErrFenced)
	Adopted   int64 // sessions that this process took over from one that is lost
	Away      int64 // requests that were not served because the directory did not answer
	Held      int64 // GETs that could not be served and were answered by a stream that ends at once

	Forwarded   int64 // requests for sessions of other processes that were answered by these processes
	Received    int64 // requests that other processes forwarded to this one
	Misdirected int64 // requests that said so and were refused: this process did not own the session, or another one was meant
	Unreachable int64 // requests whose owner could not be reached, so that they were not sent
	OwnerLost   int64 // requests whose owner was lost, or did not answer, after they were sent
	Foreign     int64 // answers to forwarded requests that were not of a rejoin server, but of something in between
	Unsearched  int64 // requests for sessions that were not looked up, because too many ids were unknown

	Evicted        int64 // events that the store dropped because it had no room
	Expired        int64 // polls for events that were gone
	StoreFailed    int64 // failed operations of the store, and times that it had lost events
	Refused        int64 // requests that the transport refused
	WritesTimedOut int64 // connections whose client stopped reading
	Full           int64 // messages that the store had no room for
}

// counters are the counters that the engine does not have.
type counters struct {
	opened, doubted, moved, refused, full, tasks, adopted, away, held atomic.Int64

	forwarded, received, misdirected, unreachable, ownerLost, foreign, unsearched atomic.Int64
}

// Stats returns the numbers as they are now, for expvar, Prometheus or a log line.
func (srv *Server) Stats() Stats {
	c, e := &srv.stats, &srv.engine.Counters
	out := Stats{
		Opened: c.opened.Load(), Closed: e.Closed.Load(), Resumed: e.Resumed.Load(), TakenOver: e.TakenOver.Load(),
		Abandoned: e.Abandoned.Load(), Doubted: c.doubted.Load(), Moved: c.moved.Load(), Expired: e.Expired.Load(),
		StoreFailed: e.StoreFailed.Load(), Refused: c.refused.Load(), WritesTimedOut: e.WritesTimedOut.Load(), Full: c.full.Load(),
	}
	out.Adopted, out.Away, out.Held = c.adopted.Load(), c.away.Load(), c.held.Load()
	out.Forwarded, out.Received, out.Misdirected = c.forwarded.Load(), c.received.Load(), c.misdirected.Load()
	out.Unreachable, out.OwnerLost, out.Foreign, out.Unsearched = c.unreachable.Load(), c.ownerLost.Load(), c.foreign.Load(), c.unsearched.Load()
	if u := eventstore.AccountantOf(srv.cfg.Store); u != nil {
		out.StoredBytes, out.Evicted = u.Usage()
	}
	if srv.tasks != nil {
		running, _, kept := srv.tasks.Count()
		out.Tasks, out.TasksRunning = int64(kept), int64(running)
	}
	out.TasksMade = c.tasks.Load()
	out.Connections = srv.modernRunning.Load() + srv.listensRunning.Load()
	for _, s := range srv.all() {
		if l, ok := s.engine.Load(); ok {
			out.Sessions++
			out.Connections += int64(l.Connections)
			out.Streams += int64(l.Streams)
			out.Parked += int64(l.Parked)
		}
	}
	return out
}
