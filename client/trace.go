package client

import "time"

// TraceKind says what happened.
type TraceKind string

// The kinds.
const (
	TracePost    TraceKind = "post"   // a message is sent: Method ("" for an answer)
	TracePoll    TraceKind = "poll"   // a stream is asked for, from EventID on ("": from now on)
	TraceDelete  TraceKind = "delete" // the session is ended
	TraceHead    TraceKind = "head"   // an answer has begun: Status
	TracePrimer  TraceKind = "primer" // an event id without a message: EventID, which Call.Token has already
	TraceMessage TraceKind = "event"  // a message: EventID, Method ("" for a response), Bytes
	TraceRetry   TraceKind = "retry"  // the server said when to come back: Wait
	TraceEnd     TraceKind = "close"  // a connection has ended: Err, nil if it ended cleanly
	TraceWait    TraceKind = "wait"   // the next poll comes after Wait
	TraceTask    TraceKind = "task"   // the server said how a task is: EventID (the task's id, which Call.Token has already), State
)

// TraceEvent is one thing that happened on the wire. It holds ids of events and tasks, which are secrets.
type TraceEvent struct {
	Time    time.Time
	Kind    TraceKind
	Stream  string // the id of the request as JSON; "": the session's own stream, or none
	EventID string
	Method  string
	Status  int
	Bytes   int
	Wait    time.Duration
	State   string
	Err     error
}

func (s *Session) trace(e TraceEvent) {
	if s.cfg.Trace != nil {
		e.Time = time.Now()
		s.cfg.Trace(e)
	}
}
