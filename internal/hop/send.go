package hop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// ForeignError is the answer of something between two processes: the router of the owner, its middleware, a mesh, a limiter. It proves nothing about the
// session.
type ForeignError struct {
	Status int
	Header http.Header // only what a client may see
	Body   []byte      // nil: it was too large, or the client must not see the answer
}

func (f *ForeignError) Error() string {
	return fmt.Sprintf("something in between has answered with status %d", f.Status)
}

// Passes reports whether a client may see the answer: it is about the client's credentials, or its rate.
func (f *ForeignError) Passes() bool { return f.Body != nil }

// maxForeign limits the body of an answer that is not of this package's own making.
const maxForeign = 64 << 10

// Answer is the answer of an owner.
type Answer struct {
	Status int

	p      *peer
	sent   *http.Request // as it was sent
	res    *http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	waits  atomic.Int64 // since when it waits for the owner, as peer.now; 0: it does not
	mayGo  atomic.Bool  // its client has all that was read, between two events, and can come back
	mayEnd atomic.Bool  // it has Stream.MayEnd, and is between two events
	isCall bool         // Request.IsCall
	way    way

	body    []byte // of the request, until the head of the answer has come
	sending bytes.Reader
	again   atomic.Bool // the body was asked for once more
}

// Send sends a request to the owner of its session, and returns when the head of the answer has come. The caller calls Close. The errors are those of
// this package, *ForeignError, and others: then the request may have arrived.
func (f *Forwarder) Send(o Owner, q *Request) (*Answer, error) {
	ctx, cancel := context.WithCancelCause(q.Context())
	a := &Answer{ctx: ctx, cancel: cancel, isCall: q.IsCall}
	p, err := f.add(o, a)
	if err != nil {
		cancel(err)
		return nil, err
	}
	ok := false
	defer func() {
		if !ok {
			a.Close()
		}
	}()
	if p.rests() {
		return nil, ErrUnreached
	}
	note := p.note
	if q.NoFlush || q.Left > 0 {
		note = p.values(Note{NoFlush: q.NoFlush, Left: q.Left})
	}
	if !q.AskUntil.IsZero() {
		if err := p.ask(ctx, q); err != nil {
			return nil, err
		}
	}
	a.way.hooks.WroteRequest = a.sentAll
	out := q.out(httptrace.WithClientTrace(ctx, a.way.trace()), p.at, q.Method, note)
	if len(q.Sent) > 0 {
		a.sending.Reset(q.Sent)
		out.ContentLength, out.Body = int64(len(q.Sent)), io.NopCloser(&a.sending) // net/http sends what it knows to be in memory with the header
		// Without the two header fields for that, net/http uses this only if it has written nothing at all to a connection that was idle.
		a.body, out.GetBody = q.Sent, a.bodyAgain
	}
	a.begin(out)
	res, err := f.roundTrip(out) //nolint:bodyclose // Answer.Close does it, also where Send fails
	a.body = nil
	a.waits.Store(0)
	if err != nil {
		switch cause := context.Cause(ctx); {
		case cause == nil && a.way.unreached(err), errors.Is(cause, ErrSilent) && a.way.unreached(nil):
			p.rest(false)
			return nil, fmt.Errorf("%w: %w", ErrUnreached, err)
		case cause != nil:
			return nil, cause
		}
		return nil, err
	}
	p.rest(true)
	if res.Close {
		p.closes()
	}
	a.res, a.Status = res, res.StatusCode
	switch mark := res.Header.Get(Mark); {
	case mark == "":
		// What is in between may stop in the middle, and probes say nothing about it.
		late := time.AfterFunc(f.cfg.Lease/parts, func() { cancel(ErrSilent) })
		defer late.Stop()
		return nil, foreign(res)
	case mark != o.Incarnation:
		return nil, ErrReplaced
	case res.StatusCode == http.StatusMisdirectedRequest:
		p.alive()
		return nil, ErrMisdirected
	}
	p.alive()
	ok = true
	return a, nil
}

// begin notes that the request is about to be sent.
func (a *Answer) begin(out *http.Request) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.sent = out
	a.waits.Store(a.p.now())
}

func (a *Answer) bodyAgain() (io.ReadCloser, error) {
	a.again.Store(true)
	return io.NopCloser(bytes.NewReader(a.body)), nil
}

// sentAll lets go of the body: net/http keeps the request as long as the answer lasts. The goroutine that has read the body calls it.
func (a *Answer) sentAll(httptrace.WroteRequestInfo) {
	if !a.again.Load() {
		a.sending.Reset(nil)
	}
}

// Close ends the exchange. A body that was not read to its end breaks the connection to the owner.
func (a *Answer) Close() {
	a.p.remove(a)
	a.cancel(errOver)
	if a.res != nil {
		_ = a.res.Body.Close()
	}
}

// foreign makes an error of an answer that is not an owner's.
func foreign(res *http.Response) *ForeignError {
	e := &ForeignError{Status: res.StatusCode}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
	default:
		return e
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxForeign+1))
	if err != nil || len(body) > maxForeign {
		return e
	}
	if body == nil {
		body = []byte{}
	}
	e.Body, e.Header = body, http.Header{}
	for _, name := range [...]string{"Www-Authenticate", "Retry-After", "Content-Type"} {
		if values := res.Header[name]; len(values) > 0 {
			e.Header[name] = values
		}
	}
	return e
}

// way is how far a request has come on its way.
type way struct {
	looked, connected atomic.Bool
	hooks             httptrace.ClientTrace
}

func (w *way) trace() *httptrace.ClientTrace {
	w.hooks.GetConn = func(string) { // again, if a connection that was idle had ended before anything was written to it
		w.looked.Store(true)
		w.connected.Store(false)
	}
	w.hooks.GotConn = func(httptrace.GotConnInfo) { w.connected.Store(true) }
	return &w.hooks
}

// unreached reports whether the request has provably not arrived. A Transport of the user may not tell how far it came.
func (w *way) unreached(err error) bool {
	if w.looked.Load() {
		return !w.connected.Load()
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
