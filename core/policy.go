package core

import "time"

// Mode is the form of the answer to a POST.
type Mode uint8

// The modes.
const (
	Auto Mode = iota // JSON if the response comes before anything else has to be sent
	SSE              // always a stream
	JSON             // never a stream
)

// Policy says how a stream behaves. Durations that are not positive are off, except Retry, which is at least 1 ms.
type Policy struct {
	Mode         Mode
	StreamAfter  time.Duration // the head waits so long for the response
	CloseAfter   time.Duration // a connection is let go after so long, whether its stream runs or has ended
	Retry        time.Duration // what a client is told to wait
	RetryMax     time.Duration // what polls that come and go and bring nothing make it grow to
	AbandonAfter time.Duration // a request is cancelled when its client is overdue for so long
	MaxRuntime   time.Duration // a request is cancelled when it runs for so long
	Retain       time.Duration // an ended stream is kept for so long; off: as long as the session
}

// Config is what the machines of a server share.
type Config struct {
	Policy         Policy        // of the standalone stream
	SessionIdleTTL time.Duration // not positive: never
	MaxInFlight    int           // requests but for a few pings; not positive: no limit. In.Stale has a limit of a few times as much
	MaxEnded       int           // ended streams that are kept; not positive: no limit
	Remember       int           // dropped streams whose numbers are remembered
	IDBytes        int           // of the ids of ended streams that are kept, and again of those that are remembered; not positive: no limit
	NoStandalone   bool
}

const (
	minRetry = time.Millisecond
	maxRetry = time.Hour
	// A retry grows to the longest from the shortest in far fewer empty polls.
	maxEmpties = 1000
	// A client may start this many GETs at once, and one per getInterval from then on, before they are slowed down: well
	// above what 64 parked calls need that come back every second, far below a reconnect loop.
	getBurst    = 100
	getInterval = 10 * time.Millisecond
	getMaxWait  = time.Second
)

// merge puts what is set in q into p: zero fields stay as they are.
func (p *Policy) merge(q *Policy) {
	set := func(dst *time.Duration, v time.Duration) {
		if v != 0 {
			*dst = v
		}
	}
	set(&p.CloseAfter, q.CloseAfter)
	set(&p.Retry, q.Retry)
	set(&p.RetryMax, q.RetryMax)
	set(&p.AbandonAfter, q.AbandonAfter)
	set(&p.MaxRuntime, q.MaxRuntime)
}
