package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// stream follows one stream of the server from connection to connection.
type stream struct {
	s       *Session
	name    string        // for traces; "": the standalone stream
	at      position      // after the last event id, also of connections that carried none since
	retry   time.Duration // what the server said last; negative: nothing
	after   time.Duration // what its last refusal said, for one wait
	failed  int           // attempts in a row that brought nothing
	since   time.Time     // of the first of them
	last    error         // how the last connection ended
	quiet   int           // polls in a row that brought an event id and no message
	reached func(at position)
	opened  func() // if set, is told of each answer to a poll, or that there is none
	// take is given each message, and where it stands. It may wait. true: the stream is over.
	take func(m jsonrpc.Message, before, at position) bool
}

var (
	// errEnded, never wrapped, means that the stream is to be asked for again.
	errEnded   = errors.New("client: the stream ended")
	errNothing = errors.New("client: the server ended the stream and sent nothing")
)

// read takes what one connection brings. nil: the stream is over.
func (f *stream) read(ctx context.Context, a *answer) error {
	defer a.close()
	if a.kind != "text/event-stream" {
		return fmt.Errorf("%w: Content-Type %q", ErrProtocol, a.kind)
	}
	start, from, plain, loud := time.Now(), f.at, false, false
	r := sse.NewReader(a, f.s.cfg.MaxEventBytes)
	var err error
	for over := false; err == nil && !over; {
		if a.idle = 0; f.at.id != "" || f.name == "" {
			a.idle = f.s.cfg.IdleTimeout
		}
		var e sse.Event
		if e, err = r.Next(); err != nil {
			break
		}
		var message bool
		message, over, err = f.event(e)
		loud = loud || message
		plain = plain || message && !e.HasID
	}
	f.last = err
	f.s.trace(TraceEvent{Kind: TraceEnd, Stream: f.name, Err: clean(err)})
	switch {
	case err == nil:
		a.drain()
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, sse.ErrTooLarge):
		return fmt.Errorf("%w: an event over Config.MaxEventBytes", ErrProtocol)
	case errors.Is(err, ErrProtocol):
		return err
	}
	// What kind of progress it was decides how soon the next poll may come. Messages with ids count by those: a server that repeats
	// them makes none.
	moved := f.at.id != from.id
	switch {
	case plain, moved && loud:
		f.failed, f.quiet = 0, 0
	case moved:
		f.failed = 0
		f.quiet++
	case errors.Is(err, errIdle), time.Since(start) >= f.s.cfg.BackoffMax:
		f.failed = 0 // the server held it: it knows the stream
	default:
		if err = clean(err); err == nil {
			err = errNothing
		}
		return f.fail(err)
	}
	return errEnded
}

// event takes one event, which is a message or is not.
func (f *stream) event(e sse.Event) (message, over bool, err error) {
	if e.Retry >= 0 {
		f.retry = e.Retry
		f.s.trace(TraceEvent{Kind: TraceRetry, Stream: f.name, Wait: e.Retry})
	}
	before := f.at
	if e.HasID {
		if !sendable(e.ID) {
			return false, false, fmt.Errorf("%w: an event id of %d bytes cannot be sent back", ErrProtocol, len(e.ID))
		}
		if e.ID != before.id {
			f.at = position{before.n + 1, e.ID}
		}
	}
	// Some servers keep a primer's data as {}.
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 || string(data) == "{}" || e.Name != "" && e.Name != "message" {
		if e.HasID {
			f.reached(f.at) // first, so that whoever is told of it finds it in Token
			f.s.trace(TraceEvent{Kind: TracePrimer, Stream: f.name, EventID: e.ID})
		}
		return false, false, nil
	}
	over, err = eachMessage(e.Data, func(m jsonrpc.Message, last bool) bool {
		f.s.trace(TraceEvent{Kind: TraceMessage, Stream: f.name, EventID: e.ID, Method: string(m.Method), Bytes: len(m.Raw)})
		at := f.at
		if !last {
			at = before // of a batch, the id stands behind the last
		}
		return f.take(m, before, at)
	})
	return err == nil, over, err
}

// eachMessage passes one message or, as servers of 2025-03-26 may send, several to take, until that says that it is over. A batch is read twice
// instead of being kept, since its messages may be many: once to see that it is right to its end.
func eachMessage(raw []byte, take func(m jsonrpc.Message, last bool) (over bool)) (over bool, err error) {
	if !jsonrpc.IsBatch(raw) {
		m, err := jsonrpc.Parse(raw, maxJSONDepth)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return take(m, true), nil
	}
	left := 0
	for _, err := range jsonrpc.Batch(raw, maxJSONDepth) {
		if left++; err != nil {
			return false, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
	}
	for m, err := range jsonrpc.Batch(raw, maxJSONDepth) {
		if left--; err == nil && take(m, left == 0) { // it was right a moment ago
			return true, nil
		}
	}
	return false, nil
}

func clean(err error) error {
	if err == io.EOF { //nolint:errorlint // a clean end, and io.ErrUnexpectedEOF is none
		return nil
	}
	return err
}

// poll asks for the stream once. errEnded: ask again; nil: it is over; anything else: so is it, without a response.
//
// Specification 2025-11-25, basic/transports, "Resumability and Redelivery": a GET with the last event id.
func (f *stream) poll(ctx context.Context) error {
	f.s.trace(TraceEvent{Kind: TracePoll, Stream: f.name, EventID: f.at.id})
	a, err := f.s.do(ctx, http.MethodGet, acceptStream, nil, f.at.id)
	if f.opened != nil {
		f.opened()
	}
	if err != nil {
		f.last = err
		f.s.trace(TraceEvent{Kind: TraceEnd, Stream: f.name, Err: err})
		if ctx.Err() != nil || errors.Is(err, ErrRedirect) || errors.Is(err, ErrProtocol) {
			return err
		}
		return f.fail(err)
	}
	f.s.trace(TraceEvent{Kind: TraceHead, Stream: f.name, Status: a.status})
	switch {
	case a.status == http.StatusOK:
		return f.read(ctx, a)
	case a.status == http.StatusNoContent: // WHATWG, server-sent events: do not reconnect
		a.close()
		return ErrNoResponse
	}
	defer a.close()
	err = f.s.refused(a)
	f.last = err
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case passing(a.status):
		f.after = retryAfter(a.header)
		return f.fail(err)
	case f.at.id == "":
		return err
	case a.status == http.StatusBadRequest, a.status == http.StatusGone, a.status == http.StatusNotFound && f.s.ID() == "":
		return fmt.Errorf("%w: %w", ErrExpired, err)
	}
	return err
}

// passing reports whether a refusal may be over the next time: also one of a connection that the server has not missed yet (409).
func passing(status int) bool {
	switch status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= http.StatusInternalServerError
}
