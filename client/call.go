package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const methodCancelled = "notifications/cancelled"

// Call is a request that was sent or resumed. It has one goroutine, which ends with the call, or up to two seconds later if the server has
// to be told that the call is cancelled.
type Call struct {
	s          *Session
	id         string // as JSON
	body       []byte // what is sent; nil: the call was resumed
	initialize bool   // it is the request initialize
	ctx        context.Context
	stop       context.CancelCauseFunc
	stream     stream
	modern     *modernCall // nil: the call belongs to the legacy era
	done       chan struct{}

	mu     sync.Mutex
	queue  queue
	wake   chan struct{} // signals that the queue has grown
	room   chan struct{} // signals that the queue may have room
	result json.RawMessage
	err    error
}

// newCall makes a call that sends a request.
func (s *Session) newCall(ctx context.Context, method string, params any) (*Call, error) {
	raw, err := marshal(params)
	if err != nil {
		return nil, err
	}
	if s.isModern() {
		return s.newModernCall(ctx, method, raw)
	}
	c := s.makeCall(ctx, s.nextID())
	c.body = jsonrpc.AppendRequest(nil, []byte(c.id), method, raw)
	s.trace(TraceEvent{Kind: TracePost, Stream: c.id, Method: method})
	return c, nil
}

// makeCall makes a call of a request that was sent already, or will be.
func (s *Session) makeCall(ctx context.Context, id string) *Call {
	c := &Call{s: s, id: id, done: make(chan struct{}), wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	c.queue.unanswered = map[string]position{}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	c.stream = stream{s: s, name: id, retry: -1, take: c.take, reached: c.reached}
	return c
}

// Resume continues a call from where its token stands, in this process or another. It polls at once; from then on the call behaves as one
// that Start made. ctx is the call's, as with Start. cfg says how requests and polls are made; its OnNotification is not used, since the
// standalone stream belongs to the session. When the call has ended, the session stays alive on the server.
//
// A task tells the newest of what it said since then, and its result.
//
// url must be that of the server that the token is from: the secrets in the token are sent there.
//
// Errors: ErrToken, and the faults of url and cfg. All others come from Wait, such as ErrExpired and ErrSessionGone.
func Resume(ctx context.Context, url, token string, cfg Config) (*Call, error) {
	t, err := parseToken(token)
	if err != nil {
		return nil, err
	}
	s, err := newSession(url, cfg)
	if err != nil {
		return nil, err
	}
	s.become(t.Version)
	s.setID(t.Session)
	c := s.makeCall(ctx, t.ID)
	c.stream.at = position{1, t.Cursor}
	c.queue.at = c.stream.at
	if t.Task != "" {
		c.modern = &modernCall{method: methodCall, task: t.Task, last: t.Cursor}
	}
	s.spawn(func() {
		c.run()
		s.end(ErrLeft)
	})
	return c, nil
}

// Wait returns when the call has ended or ctx has. The end of ctx does not end the call. The result of the response is decoded into result
// with encoding/json; nil: it is dropped. While a Wait runs and no loop over Messages, the newest messages are kept and the oldest are
// dropped, so that the response is reached.
//
// Errors: *Error, if the server answered with one, together with ErrExpired if it says that the server no longer has the answer.
// ErrMayHaveRun, ErrNoResponse, ErrExpired, ErrSessionGone, ErrRetryTooLong, ErrRedirect, ErrProtocol, ErrUnanswered, *StatusError (the server
// refused the request: nothing has run; or, if there is a Token, it refused to say how the call is), *GaveUpError (Token still works),
// ErrCancelled, ErrLeft, ErrClosed; the cause of the call's context or of ctx; the error of a dial that failed.
func (c *Call) Wait(ctx context.Context, result any) error {
	c.count(&c.queue.waiters, 1)
	defer c.count(&c.queue.waiters, -1)
	select {
	case <-c.done:
	case <-ctx.Done():
		if !c.ended() {
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

// Cancel asks the server to stop the call (notifications/cancelled; in the modern era tasks/cancel, or the end of the connection if the call is
// no task) and ends it here with ErrCancelled. It returns when the server has
// been told, but after two seconds at the latest. It does nothing if the call has ended.
func (c *Call) Cancel(reason string) {
	c.stop(&cancelError{reason})
	<-c.done
}

type cancelError struct{ reason string }

func (e *cancelError) Error() string { return ErrCancelled.Error() + ": " + e.reason }

func (*cancelError) Unwrap() error { return ErrCancelled }

// Leave ends the call here, with ErrLeft. The server is told nothing, and the call runs on there: Resume continues it with the token. If
// the token is "", the call cannot be resumed, and in the modern era the server cancels it. Leave only returns the token if the call has ended.
func (c *Call) Leave() (token string) {
	c.stop(ErrLeft)
	<-c.done
	return c.Token()
}

// answered ends the call with its response.
func (c *Call) answered(m jsonrpc.Message) {
	if m.Kind == jsonrpc.Result {
		c.finish(m.Result, nil)
		return
	}
	e := decodeError(m.Err)
	if e.Reason() == rejoin.ReasonExpired {
		c.finish(nil, fmt.Errorf("%w: %w", ErrExpired, e))
		return
	}
	c.finish(nil, e)
}

// finish ends the call; only the first time counts.
func (c *Call) finish(result json.RawMessage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() {
		return
	}
	c.result, c.err = result, err
	close(c.done)
}

func (c *Call) ended() bool {
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
	if c.modern != nil {
		c.runModern()
		return
	}
	var err error
	sent := c.body == nil
	if sent {
		err = c.stream.poll(c.ctx)
	} else {
		err = c.post()
		c.body = nil
		var unsent unsentError
		if sent = !errors.As(err, &unsent); !sent {
			err = unsent.error
		}
	}
	for err == errEnded { //nolint:errorlint // never wrapped
		if c.stream.at.id == "" {
			err = fmt.Errorf("%w: %w", ErrMayHaveRun, c.stream.last)
			break
		}
		if err = c.stream.wait(c.ctx); err == nil {
			err = c.stream.poll(c.ctx)
		}
	}
	if cause := context.Cause(c.ctx); cause != nil && !c.ended() {
		err = cause
		if sent {
			c.tellCancelled(cause)
		}
	}
	c.finish(nil, err) // does nothing if the response has come
}

// post sends the request, once, whatever happens, and reads the answer. It returns errEnded if the answer is a stream that ended before
// the response.
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
	if c.initialize {
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
		return c.stream.read(c.ctx, a)
	}
	defer a.close()
	err = c.readJSON(a)
	c.s.trace(TraceEvent{Kind: TraceEnd, Stream: c.id, Err: err})
	return err
}

// readJSON reads an answer in plain JSON.
func (c *Call) readJSON(a *answer) error {
	a.idle = c.s.cfg.IdleTimeout
	raw, err := readAll(a, c.s.cfg.MaxEventBytes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMayHaveRun, err)
	}
	complete, err := eachMessage(raw, func(m jsonrpc.Message, _ bool) bool {
		c.s.trace(TraceEvent{Kind: TraceMessage, Stream: c.id, Method: string(m.Method), Bytes: len(m.Raw)})
		return c.take(m, c.stream.at, c.stream.at)
	})
	if complete || err != nil {
		return err
	}
	return fmt.Errorf("%w: JSON without the response", ErrProtocol)
}

// tellCancelled sends notifications/cancelled, with the cause as its reason. It sends nothing after Leave, since the call may be resumed,
// after Close, which ends the session, and for initialize, which may not be cancelled.
func (c *Call) tellCancelled(cause error) {
	if c.initialize || errors.Is(cause, ErrLeft) || errors.Is(cause, ErrClosed) {
		return
	}
	reason := cause.Error()
	if cancelled, ok := errors.AsType[*cancelError](cause); ok {
		reason = cancelled.reason
	}
	params := jsonrpc.AppendString([]byte(`{"requestId":`+c.id+`,"reason":`), reason)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), shortTimeout)
	defer cancel()
	c.s.trace(TraceEvent{Kind: TracePost, Method: methodCancelled})
	_ = c.s.send(ctx, jsonrpc.AppendRequest(nil, nil, methodCancelled, append(params, '}'))) // the call has ended here in any case
}
