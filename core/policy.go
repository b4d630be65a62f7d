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

// Policy says how a stream behaves. A duration that is not positive is off, except Retry, which is at least 1 ms.
type Policy struct {
	Mode         Mode
	StreamAfter  time.Duration // how long the head waits for the response
	CloseAfter   time.Duration // how long a connection lasts before its client is detached, also if its stream has ended
	Retry        time.Duration // how long a client is told to wait
	RetryMax     time.Duration // what Retry grows to while polls come, go and bring nothing
	AbandonAfter time.Duration // a request is cancelled when its client is overdue for this time
	MaxRuntime   time.Duration // a request is cancelled when it has run for this time
	Retain       time.Duration // how long an ended stream is kept; off: as long as the session
}

// Config is what the machines of a server share.
type Config struct {
	Policy         Policy        // of the standalone stream
	SessionIdleTTL time.Duration // not positive: never
	MaxInFlight    int           // requests, not counting a few pings; not positive: no limit. A multiple of it limits In.Stale
	MaxEnded       int           // ended streams that are kept; not positive: no limit
	Remember       int           // dropped streams whose numbers are remembered
	IDBytes        int           // bytes of request ids: of kept ended streams, and again of dropped ones; not positive: no limit
	NoStandalone   bool
}

const (
	minRetry = time.Millisecond
	maxRetry = time.Hour
	// maxEmptyPolls is more than enough: a retry grows from minRetry to maxRetry in far fewer empty polls.
	maxEmptyPolls = 1000
	// A client may send getBurst GETs at once, and one for each getInterval from then on, before they are delayed, by getMaxWait at most.
	// That is well above what 64 waiting calls need that come back every second, and far below a reconnect loop.
	getBurst    = 100
	getInterval = 10 * time.Millisecond
	getMaxWait  = time.Second
)

// merge copies the fields of q that are not zero into p.
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
