package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const methodCancelled = "notifications/cancelled"

// Call is a request that was sent, or taken up again. It holds one goroutine until it has ended, and two seconds longer at most where
// the server has to be told.
type Call struct {
	s     *Session
	id    string // as JSON
	body  []byte // nil: resumed
	opens bool   // initialize
	ctx   context.Context
	stop  context.CancelCauseFunc
	f     stream
	done  chan struct{}

	mu     sync.Mutex
	queue  queue
	wake   chan struct{} // the queue has grown
	room   chan struct{} // the queue may have room
	result json.RawMessage
	err    error
}

func (s *Session) newCall(ctx context.Context, method string, params any) (*Call, error) {
	raw, err := marshal(params)
	if err != nil {
		return nil, err
	}
	c := s.makeCall(ctx, s.nextID())
	c.body = jsonrpc.AppendRequest(nil, []byte(c.id), method, raw)
	s.trace(TraceEvent{Kind: TracePost, Stream: c.id, Method: method})
	return c, nil
}

func (s *Session) makeCall(ctx context.Context, id string) *Call {
	c := &Call{s: s, id: id, done: make(chan struct{}), wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	c.queue.open = map[string]position{}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	c.f = stream{s: s, name: id, retry: -1, take: c.take, reached: c.reached}
	return c
}

// Resume goes on with a call, in this process or another, from where the token stands. It polls at once and does what Start does from
// then on; cfg is that of the session, as far as it is about requests and polling (OnNotification is not: the standalone stream is the
// session's own). ctx is the call's, as with Start. The session, which lives on the server, is left alone when the call has ended.
//
// url must be that of the server that the token is from: the token's secrets are sent there.
//
// ErrToken, or a fault of cfg. All else comes with Wait: ErrExpired, ErrSessionGone.
func Resume(ctx context.Context, url, token string, cfg Config) (*Call, error) {
	t, err := parseToken(token)
	if err != nil {
		return nil, err
	}
	s, err := newSession(url, cfg)
	if err != nil {
		return nil, err
	}
	s.id, s.version = t.Session, t.Version
	c := s.makeCall(ctx, t.ID)
	c.f.at = position{1, t.Cursor}
	c.queue.at = c.f.at
	s.spawn(func() {
		c.run()
		s.end(ErrLeft)
	})
	return c, nil
}

// Wait returns when the call has ended, or ctx has; that alone ends no call. result gets the response's result by encoding/json; nil:
// it is dropped. While nobody but Wait waits, the newest messages are kept for Messages and the oldest are dropped, so that the
// response is reached.
//
// *Error: the server answered with one; with ErrExpired, if that says that it no longer has the answer. ErrMayHaveRun, ErrNoResponse,
// ErrExpired, ErrSessionGone, ErrRetryTooLong, ErrRedirect, ErrProtocol, *StatusError (the server refused the request: nothing has run),
// *GaveUpError (Token still works), ErrCancelled, ErrLeft, ErrClosed; the cause of the call's context, or of ctx; that of a dial that
// failed.
func (c *Call) Wait(ctx context.Context, result any) error {
	c.count(&c.queue.waiters, 1)
	defer c.count(&c.queue.waiters, -1)
	select {
	case <-c.done:
	case <-ctx.Done():
		if !c.over() {
			return context.Cause(ctx)
		}
	}
	if c.err != nil || result == nil {
		return c.err
	}
	if raw, ok := result.(*json.RawMessage); ok {
		*raw = c.result
		return nil
	}
	if err := json.Unmarshal(c.result, result); err != nil {
		return fmt.Errorf("client: the result: %w", err)
	}
	return nil
}

// Done is closed when the call has ended.
func (c *Call) Done() <-chan struct{} { return c.done }

// Cancel asks the server to stop the call (notifications/cancelled) and ends it here with ErrCancelled. It returns when the server has
// been told, within two seconds in any case. It does nothing if the call has ended.
func (c *Call) Cancel(reason string) {
	c.stop(&cancelError{reason})
	<-c.done
}

type cancelError struct{ reason string }

func (e *cancelError) Error() string { return ErrCancelled.Error() + ": " + e.reason }

func (*cancelError) Unwrap() error { return ErrCancelled }

// Leave ends the call here and not on the server, which is told nothing: it ends with ErrLeft, and Resume goes on with the token. "": it
// cannot be resumed. Of a call that has ended, it is just the token.
func (c *Call) Leave() (token string) {
	c.stop(ErrLeft)
	<-c.done
	return c.Token()
}

func (c *Call) answered(m jsonrpc.Message) {
	if m.Kind == jsonrpc.Result {
		c.finish(m.Result, nil)
		return
	}
	e := decodeError(m.Err)
	if e.reason() == "expired" {
		c.finish(nil, fmt.Errorf("%w: %w", ErrExpired, e))
		return
	}
	c.finish(nil, e)
}

// finish ends the call; only the first time counts.
func (c *Call) finish(result json.RawMessage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return
	}
	c.result, c.err = result, err
	close(c.done)
}

func (c *Call) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// run sends the request and follows its stream to the end.
func (c *Call) run() {
	defer c.stop(nil)
	defer context.AfterFunc(c.s.ctx, func() { c.stop(context.Cause(c.s.ctx)) })()
	var err error
	sent := c.body == nil
	if sent {
		err = c.f.poll(c.ctx)
	} else {
		err = c.post()
		c.body = nil
		var unsent unsentError
		if sent = !errors.As(err, &unsent); !sent {
			err = unsent.error
		}
	}
	for err == errEnded { //nolint:errorlint // never wrapped
		if c.f.at.id == "" {
			err = fmt.Errorf("%w: %w", ErrMayHaveRun, c.f.last)
			break
		}
		if err = c.f.wait(c.ctx); err == nil {
			err = c.f.poll(c.ctx)
		}
	}
	if cause := context.Cause(c.ctx); cause != nil && !c.over() {
		err = cause
		if sent {
			c.tellCancelled(cause)
		}
	}
	c.finish(nil, err) // after a response it says nothing
}

// post sends the request, once whatever happens. errEnded: its stream ended too soon.
func (c *Call) post() error {
	a, err := c.s.do(c.ctx, http.MethodPost, acceptBoth, c.body, "")
	if err != nil {
		c.s.trace(TraceEvent{Kind: TraceEnd, Stream: c.id, Err: err})
		var unsent unsentError
		if errors.As(err, &unsent) || errors.Is(err, ErrRedirect) || c.ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %w", ErrMayHaveRun, err)
	}
	c.s.trace(TraceEvent{Kind: TraceHead, Stream: c.id, Status: a.status})
	switch {
	case a.status < 200 || a.status > 299:
		defer a.close()
		return c.s.refused(a)
	case a.status != http.StatusOK:
		a.close()
		return fmt.Errorf("%w: status %d for a request", ErrProtocol, a.status)
	}
	if c.opens {
		id, one := field(a.header, "Mcp-Session-Id")
		if !one {
			a.close()
			return fmt.Errorf("%w: two different session ids", ErrProtocol)
		}
		if !sendable(id) {
			a.close()
			return fmt.Errorf("%w: a session id of %d bytes cannot be sent back", ErrProtocol, len(id))
		}
		c.s.setID(id)
	}
	if a.kind != "application/json" {
		return c.f.read(c.ctx, a)
	}
	defer a.close()
	err = c.readJSON(a)
	c.s.trace(TraceEvent{Kind: TraceEnd, Stream: c.id, Err: err})
	return err
}

// readJSON takes an answer that is no stream.
func (c *Call) readJSON(a *answer) error {
	a.idle = c.s.cfg.IdleTimeout
	raw, err := readAll(a, c.s.cfg.MaxEventBytes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMayHaveRun, err)
	}
	over, err := eachMessage(raw, func(m jsonrpc.Message, _ bool) bool {
		c.s.trace(TraceEvent{Kind: TraceMessage, Stream: c.id, Method: string(m.Method), Bytes: len(m.Raw)})
		return c.take(m, c.f.at, c.f.at)
	})
	if over || err != nil {
		return err
	}
	return fmt.Errorf("%w: JSON without the response", ErrProtocol)
}

// tellCancelled tells the server that nobody waits any more, unless somebody will: after Leave and Close.
func (c *Call) tellCancelled(cause error) {
	if c.opens || errors.Is(cause, ErrLeft) || errors.Is(cause, ErrClosed) {
		return
	}
	reason := cause.Error()
	if cancelled, ok := errors.AsType[*cancelError](cause); ok {
		reason = cancelled.reason
	}
	params := jsonrpc.AppendString([]byte(`{"requestId":`+c.id+`,"reason":`), reason)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), patience)
	defer cancel()
	c.s.trace(TraceEvent{Kind: TracePost, Method: methodCancelled})
	_ = c.s.tell(ctx, jsonrpc.AppendRequest(nil, nil, methodCancelled, append(params, '}'))) // a courtesy
}
