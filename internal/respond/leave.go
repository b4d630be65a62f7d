package respond

import (
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// Leave lets a Relay answer its client in place of the handler, which goes on without one.
type Leave struct {
	ID    []byte          // of the request: when its response has come, it is too late
	After time.Duration   // leave when the request has run for so long; not positive: only when asked
	Asked <-chan struct{} // receives: leave now
	// Answer makes the response that the client gets instead, and what takes the rest of the handler's. Nil: the client stays.
	Answer func() ([]byte, *Collector)
	// Failed is called after Answer if the client could not be written to. The Relay has not left then.
	Failed func()
}

// maxLookedAt bounds the events that are looked at before the client is left. A larger one counts as the response.
const maxLookedAt = 1 << 20

// leaving is how far a Relay is with its Leave. The zero value never leaves.
type leaving struct {
	cfg    *Leave
	timer  *time.Timer
	due    <-chan time.Time
	asked  <-chan struct{}
	now    bool         // it is time to leave
	events sse.Splitter // the handler's
}

func (l *leaving) start(cfg *Leave) {
	if cfg == nil {
		return
	}
	l.cfg, l.asked, l.events.Max = cfg, cfg.Asked, maxLookedAt
	if cfg.After > 0 {
		l.timer = time.NewTimer(cfg.After)
		l.due = l.timer.C
	}
}

// stop gives up leaving.
func (l *leaving) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cfg, l.due, l.asked, l.now = nil, nil, nil, false
}

// note looks for the response in what the handler writes. When it has come, or a body that is not a stream has begun, the client stays.
func (l *leaving) note(stream bool, data []byte) {
	if l.cfg == nil {
		return
	}
	responded := !stream
	if stream {
		err := l.events.Write(data, func(message []byte) {
			m, err := jsonrpc.Parse(message, maxDepth)
			responded = responded || err == nil && (m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure)
		})
		responded = responded || err != nil
	}
	if responded {
		l.stop()
	}
}

// maxDepth bounds the nesting of the messages that are looked at. A deeper one does not count as a response.
const maxDepth = 256

// leave answers the client, and lets the Collector take what the handler writes from now on. It reports whether it has.
func (r *Relay) leave() bool {
	switch {
	case r.err != nil, r.headed && !r.stream, len(r.own.body) > 0:
		r.leaving.stop()
		return false
	case r.headed && !r.between:
		return false // it comes back when the event is complete
	}
	cfg := r.leaving.cfg
	r.leaving.stop()
	answer, to := cfg.Answer()
	if to == nil {
		return false
	}
	var err error
	switch {
	case r.headed:
		err = r.send(sse.AppendEvent(nil, nil, answer))
		to.headed, to.stream = !r.own.begun || r.own.headed, r.own.stream || !r.own.begun
	case r.cfg.JSON:
		err = r.sent(r.out.JSON(http.StatusOK, answer))
	default:
		err = r.sendOwn(answer)
	}
	if err != nil {
		cfg.Failed()
		return false
	}
	r.out.Limit() // what ends the response is written after this
	r.in.to = to
	close(r.in.left)
	return true
}
