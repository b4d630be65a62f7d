package respond

import (
	"net/http"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// Leaver lets a Relay answer its client in place of the handler, which goes on without one. The goroutine that serves the request calls it.
type Leaver interface {
	// Asked returns a channel that receives when it is time to leave.
	Asked() <-chan struct{}
	// Seen is called for each notification that the handler sends in a stream before the Relay has left. The message may be kept.
	Seen(m *jsonrpc.Message)
	// Answer makes the response that the client gets instead, and what takes the rest of the handler's. Nil: the client stays. It is called at
	// most once, and not when the response of the handler has begun.
	Answer() ([]byte, *Collector)
	// Failed is called after Answer if the client could not be written to, also if the writer panics. The Relay has not left then.
	Failed()
	// Stays is called, perhaps more than once, when the client will not be left: its response has begun, or the handler has ended.
	Stays()
}

// maxLookedAt bounds the events that are looked at before the client is left. A larger one counts as the response.
const maxLookedAt = 1 << 20

// leaving is how far a Relay is with its Leaver. Its methods accept nil.
type leaving struct {
	to     Leaver       // nil: it is too late
	now    bool         // it is time to leave
	events sse.Splitter // the handler's
}

// stop gives up leaving.
func (l *leaving) stop() {
	if l == nil {
		return
	}
	if l.to != nil {
		l.to.Stays()
	}
	l.to, l.now = nil, false
}

// asked receives when it is time to leave.
func (l *leaving) asked() <-chan struct{} {
	if l == nil || l.to == nil {
		return nil
	}
	return l.to.Asked()
}

// note looks for the response in what the handler writes. When it has come, or a body that is not a stream has begun, the client stays.
func (l *leaving) note(events bool, data []byte) {
	if l == nil || l.to == nil {
		return
	}
	responded := !events
	if events {
		err := l.events.Write(data, func(message []byte) {
			switch m, err := jsonrpc.Parse(message, maxDepth); {
			case err != nil:
			case m.Kind == jsonrpc.Notification:
				l.to.Seen(&m)
			case m.Kind == jsonrpc.Result, m.Kind == jsonrpc.Failure:
				responded = true
			}
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
func (r *Relay) leave() (left bool) {
	switch {
	case r.err != nil, r.headed && !r.events, len(r.own.body) > 0:
		r.leaving.stop()
		return false
	case r.headed && !r.between:
		return false // it comes back when the event is complete
	}
	select {
	case <-r.ended: // at this moment
		r.leaving.stop()
		return false
	default:
	}
	leaver := r.leaving.to
	answer, to := leaver.Answer()
	r.leaving.stop()
	if to == nil {
		return false
	}
	defer func() { // also if the writer of a middleware panics
		if !left {
			leaver.Failed()
		}
	}()
	var err error
	switch {
	case !r.headed && (r.cfg.JSON || !r.cfg.Stream):
		r.headed = true
		err = r.sent(r.out.JSON(http.StatusOK, answer))
	case !r.headed:
		r.beginOwn()
		err = r.send(sse.AppendEvent(nil, nil, answer))
	default:
		err = r.send(sse.AppendEvent(nil, nil, answer))
		to.headed, to.stream = !r.own.begun || r.own.headed, r.own.stream || !r.own.begun
	}
	if err != nil {
		return false
	}
	r.out.Limit()                                                          // what ends the response is written after this
	r.out, r.cfg, r.waiting, r.leaving = Writer{}, RelayConfig{}, nil, nil // the handler keeps the Relay, and nothing of the request may outlive it
	r.in.to = to
	first := r.outcome.CompareAndSwap(goesOn, leftFirst)
	close(r.in.left)
	if !first { // the handler has ended without a response
		to.end(r.panicked, r.stack)
	}
	return true
}
