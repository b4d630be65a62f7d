package respond

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/safe"
	"github.com/rejoin-mcp/rejoin/internal/sse"
	"github.com/rejoin-mcp/rejoin/internal/stack"
)

// Relay serves a request by an http.Handler that runs in a goroutine of its own, and writes what that handler writes. Only the goroutine that
// serves the request calls its methods, in this order: Start, Run, then Finish, Answer or Abort, then Close. If Run reports that it has left,
// it calls none of these. Send and Begin are for any goroutine.
type Relay struct {
	out   Writer
	in    relayWriter
	cfg   RelayConfig
	ended chan struct{} // closed when the handler has ended; nil: it was not started

	// Set before ended is closed.
	panicked any
	stack    string

	headed  bool
	events  bool // it is a stream of events that has room for those of others
	stream  bool // such a stream, and they leave at once
	between bool // what was written ends with a whole event
	tail    [3]byte
	err     error // the client cannot be reached

	outcome atomic.Int32 // what came first
	own     ownStream
	waiting []relayOrder // messages of ours that wait until the handler is between two events
	leaving *leaving     // nil: the Relay never leaves
}

// RelayConfig says what a Relay does beside writing.
type RelayConfig struct {
	WriteTimeout time.Duration
	KeepAlive    time.Duration // a comment after so much silence in a stream; not positive: none
	CannotFlush  func()        // the handler begins a stream that leaves only at its end
	WriteFailed  func(error)   // the client cannot be reached any more
	JSON, Stream bool          // what the client accepts, where the Relay has the choice
	Leave        Leaver        // nil: the client stays as long as the handler runs
}

// NewRelay makes the relay of one request.
func NewRelay(w http.ResponseWriter, cfg RelayConfig) *Relay {
	r := &Relay{out: New(w, cfg.WriteTimeout), in: newRelayWriter(w.Header().Clone()), cfg: cfg}
	if cfg.Leave != nil {
		r.in.left, r.leaving = make(chan struct{}), &leaving{to: cfg.Leave, events: sse.Splitter{Max: maxLookedAt}}
	}
	return r
}

// Stay is the Writer's.
func (r *Relay) Stay() { r.out.Stay() }

// Unbound is the Writer's.
func (r *Relay) Unbound() bool { return r.out.Unbound() }

// Start runs the handler.
func (r *Relay) Start(h http.Handler, req *http.Request) {
	r.ended = make(chan struct{})
	var w http.ResponseWriter = &r.in
	if r.out.CanFlush() {
		w = flushingRelayWriter{&r.in}
	}
	go func() {
		stack.To8K(false)
		defer r.handlerEnded()
		safe.Run(func() {
			h.ServeHTTP(w, req)
		}, func(what any, trace string) { r.panicked, r.stack = what, trace })
	}()
}

// handlerEnded tells Run that the handler has ended, or the Collector if Run has left.
func (r *Relay) handlerEnded() {
	if r.outcome.CompareAndSwap(goesOn, handlerFirst) {
		close(r.ended)
		return
	}
	<-r.in.left // leave is about to close it
	r.in.to.end(r.panicked, r.stack)
}

// What came first: the end of the handler, or that the Relay has left its client.
const (
	goesOn int32 = iota
	handlerFirst
	leftFirst
)

// Run does what the handler asks for until it has ended, or until the client has got another answer (Leaver). It reports whether it has left.
func (r *Relay) Run() (left bool) {
	var quiet QuietTimer
	defer quiet.Stop()
	defer func() { r.leaving.stop() }()
	for {
		select {
		case o := <-r.in.orders:
			o.done <- r.obey(o)
		case <-quiet.After(r.stream && r.between && r.err == nil, r.cfg.KeepAlive):
			_ = r.send(sse.AppendComment(nil)) // the failure is noted
		case <-r.leaving.asked():
			r.leaving.now = true
		case <-r.ended:
			return false
		}
		if r.leaving != nil && r.leaving.now && r.leave() {
			return true
		}
		quiet.Wrote()
	}
}

// Close waits for the handler, which must not outlive its request. Its context must have ended.
func (r *Relay) Close() {
	close(r.in.over)
	if r.ended != nil {
		<-r.ended
	}
}

// Panicked returns what the handler panicked with and its stack; safe.ErrGoexit if it ended its goroutine; nil if it returned.
func (r *Relay) Panicked() (what any, stack string) { return r.panicked, r.stack }

// Wrote reports whether the handler has begun its response.
func (r *Relay) Wrote() bool { return r.headed }

// Finish ends the response of a handler that has returned.
func (r *Relay) Finish() {
	r.finishOwn()
	if !r.headed {
		r.head(http.StatusOK)
	}
	r.out.Limit() // what ends the response is written after this
}

// Answer ends the response with a JSON-RPC error in place of the handler's response. Where the handler has begun one, the error can only be
// an event of its stream, and only for a request (event); otherwise the connection breaks, so that the client does not take what it has got
// for the whole.
func (r *Relay) Answer(status int, body []byte, event bool) {
	switch {
	case !r.headed:
		_ = r.out.JSON(status, body) // the client may be gone
	case r.stream && r.between && event && r.err == nil:
		_ = r.send(sse.AppendEvent(nil, nil, body))
		r.out.Limit()
	default:
		r.Abort()
	}
}

// Abort is the Writer's.
func (r *Relay) Abort() { r.out.Abort() }

// obey does one thing that the handler asked for.
func (r *Relay) obey(o relayOrder) error {
	switch {
	case r.err != nil:
		return r.err
	case o.status >= 100 && o.status < 200 && o.status != http.StatusSwitchingProtocols:
		return nil // there is nothing to say in advance
	case o.begin:
		return r.sendOwn(o)
	case r.own.begun && !r.own.passes(r.in.header):
		r.own.body = append(r.own.body, o.data...)
		return nil
	case !r.headed:
		r.head(o.status)
	}
	switch {
	case o.flush:
		r.out.Limit()
		return r.sent(r.out.flush())
	case len(o.data) > 0:
		r.note(o.data)
		r.leaving.note(r.events, o.data)
		return r.passed(r.sent(r.out.write(o.data)))
	}
	return nil
}

// send writes something of the server's own to a stream, at once.
func (r *Relay) send(piece []byte) error { return r.sent(r.out.Send(piece)) }

// sent takes the deadline off after a write. A write that failed is the request's end; but where the handler wrote what its own head does
// not allow, the client can still be reached.
func (r *Relay) sent(err error) error {
	if err == nil || errors.Is(err, http.ErrBodyNotAllowed) || errors.Is(err, http.ErrContentLength) {
		r.out.lift()
		return err
	}
	r.err = fmt.Errorf("rejoin: the client cannot be written to: %w", err)
	r.cfg.WriteFailed(r.err)
	return r.err
}

// head sends the handler's head; that of a stream with what ours have.
func (r *Relay) head(status int) {
	if status == 0 {
		status = http.StatusOK
	}
	r.headed = true
	h := r.out.w.Header()
	for name := range h { // of outer middleware
		if _, kept := r.in.header[name]; !kept {
			delete(h, name)
		}
	}
	maps.Copy(h, r.in.header)
	if IsStream(h) {
		h["Cache-Control"], h["X-Accel-Buffering"] = noCache, noBuffering
		// A response with a length or an encoding has no room for comments.
		r.events = status == http.StatusOK && h.Get("Content-Length") == "" && !door.Encoded(h["Content-Encoding"])
		r.stream = r.events && r.out.CanFlush()
		r.between = true
		if !r.out.CanFlush() {
			r.cfg.CannotFlush()
		}
	}
	r.out.w.WriteHeader(status)
}

// note keeps track of whether the handler is in the middle of an event. An event ends with an empty line.
func (r *Relay) note(data []byte) {
	data = data[max(0, len(data)-len(r.tail)):]
	copy(r.tail[:], r.tail[len(data):])
	copy(r.tail[len(r.tail)-len(data):], data)
	a, b, c := r.tail[0], r.tail[1], r.tail[2]
	switch {
	case b == '\r' && c == '\n':
		r.between = a == '\n' || a == '\r'
	case c == '\n', c == '\r':
		r.between = b == '\n' || b == '\r'
	default:
		r.between = false
	}
}
