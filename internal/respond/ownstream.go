package respond

import (
	"net/http"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// ownStream is the state of a stream that the Relay has begun before the handler has: messages of ours come first, and what the handler answers
// becomes an event.
type ownStream struct {
	begun  bool
	headed bool   // the handler has begun its response
	stream bool   // the handler's response is a stream of events, which goes on as it is
	body   []byte // of any other response
}

// passes reports whether what the handler writes is passed on as it is. header is the handler's.
func (o *ownStream) passes(header http.Header) bool {
	if !o.headed {
		o.headed, o.stream = true, IsStream(header)
	}
	return o.stream
}

// Send sends a message to the client, as an event between two of the handler's. It begins a stream if there is no response yet. It drops the
// message if the client cannot get it: it accepts no stream, nothing can be flushed and it accepts JSON, or the response is not a stream. After the Relay has
// left, the Collector gets the message. An error: the response has ended, or the client cannot be reached.
func (r *Relay) Send(message []byte) error { return r.SendAnd(message, nil) }

// SendAnd is Send. It calls sent when the message was written to the client, perhaps after SendAnd has returned, and not if it was dropped. sent
// must be quick: it delays the response.
func (r *Relay) SendAnd(message []byte, sent func()) error {
	return r.in.order(relayOrder{begin: true, message: message, sent: sent})
}

// Begin begins a stream if there is no response yet and the client can get one, so that comments keep it alive.
func (r *Relay) Begin() { _ = r.in.order(relayOrder{begin: true}) } // a failure ends the request

// sendOwn does what Send and Begin ask for.
func (r *Relay) sendOwn(o relayOrder) error {
	message := o.message
	if !r.headed {
		if !r.cfg.Stream || r.cfg.JSON && !r.out.CanFlush() {
			return nil
		}
		r.beginOwn()
		if message == nil {
			r.out.Limit()
			return r.sent(r.out.flush())
		}
	}
	switch {
	case message == nil, !r.stream:
		return nil
	case !r.between:
		r.waiting = append(r.waiting, o)
		return nil
	}
	return r.sendNow(o)
}

func (r *Relay) sendNow(o relayOrder) error {
	err := r.send(sse.AppendEvent(nil, nil, o.message))
	if err == nil && o.sent != nil {
		o.sent()
	}
	return err
}

// beginOwn sends the head of a stream of the Relay's own.
func (r *Relay) beginOwn() {
	r.headed, r.events, r.stream, r.between, r.own.begun = true, true, true, true, true
	delete(r.out.w.Header(), "Content-Length") // of an outer middleware
	r.out.Head()
	r.out.Begin()
}

// passed sends what waits, now that something of the handler's was written.
func (r *Relay) passed(err error) error {
	for err == nil && r.between && len(r.waiting) > 0 {
		next := r.waiting[0]
		r.waiting = r.waiting[1:]
		err = r.sendNow(next)
	}
	return err
}

// finishOwn makes an event of the response of a handler that has not begun a stream itself.
func (r *Relay) finishOwn() {
	if len(r.own.body) > 0 && r.err == nil {
		_ = r.send(sse.AppendEvent(nil, nil, r.own.body)) // the client may be gone
		r.own.body = nil
	}
}
