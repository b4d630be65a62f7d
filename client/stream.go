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
	at      position      // after the last event id, which may have come over an earlier connection
	retry   time.Duration // the server's last retry; negative: none yet
	pause   time.Duration // the Retry-After of the last refusal, for one wait
	failed  int           // attempts in a row that brought nothing
	since   time.Time     // when the first of them began
	last    error         // how the last connection ended
	idOnly  int           // polls in a row that brought an event id and no message
	reached func(at position)
	polled  func() // if set, is called when a poll was answered, or could not be
	// take gets each message, and the positions before and after it. It may block. It returns true if the stream is complete.
	take func(m jsonrpc.Message, before, at position) bool
}

var (
	// errEnded means that the stream is to be polled again. It is never wrapped.
	errEnded   = errors.New("client: the stream ended")
	errNothing = errors.New("client: the server ended the stream and sent nothing")
)

// read reads the events of one connection. It returns nil if the stream is complete, and errEnded if it is to be polled again.
func (f *stream) read(ctx context.Context, a *answer) error {
	defer a.close()
	if a.kind != "text/event-stream" {
		return fmt.Errorf("%w: Content-Type %q", ErrProtocol, a.kind)
	}
	start, from := time.Now(), f.at
	messages, withoutID := false, false // some came; some of them had no event id
	r := sse.NewReader(a, f.s.cfg.MaxEventBytes)
	var err error
	for complete := false; err == nil && !complete; {
		if a.idle = 0; f.at.id != "" || f.name == "" {
			a.idle = f.s.cfg.IdleTimeout
		}
		var e sse.Event
		if e, err = r.Next(); err != nil {
			break
		}
		var message bool
		message, complete, err = f.event(e)
		messages = messages || message
		withoutID = withoutID || message && !e.HasID
	}
	f.last = err
	f.s.trace(TraceEvent{Kind: TraceEnd, Stream: f.name, Err: unlessEOF(err)})
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
	// How soon the next poll may come depends on the progress that this one made. Messages that have ids are progress only if the last id is a
	// new one: a server that repeats events makes none.
	moved := f.at.id != from.id
	switch {
	case withoutID, moved && messages:
		f.failed, f.idOnly = 0, 0
	case moved:
		f.failed = 0
		f.idOnly++
	case errors.Is(err, errIdle), time.Since(start) >= f.s.cfg.BackoffMax:
		f.failed = 0 // the server kept the connection open, so it knows the stream
	default:
		if err = unlessEOF(err); err == nil {
			err = errNothing
		}
		return f.fail(err)
	}
	return errEnded
}

// event handles one event, and reports whether it carried a message and whether the stream is complete.
func (f *stream) event(e sse.Event) (message, complete bool, err error) {
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
	// Some servers send {} as the data of a primer.
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 || string(data) == "{}" || e.Name != "" && e.Name != "message" {
		if e.HasID {
			f.reached(f.at) // before the trace: Config.Trace may rely on Token
			f.s.trace(TraceEvent{Kind: TracePrimer, Stream: f.name, EventID: e.ID})
		}
		return false, false, nil
	}
	complete, err = eachMessage(e.Data, func(m jsonrpc.Message, last bool) bool {
		f.s.trace(TraceEvent{Kind: TraceMessage, Stream: f.name, EventID: e.ID, Method: string(m.Method), Bytes: len(m.Raw)})
		at := f.at
		if !last {
			at = before // the id counts after the last message of a batch
		}
		return f.take(m, before, at)
	})
	return err == nil, complete, err
}

// eachMessage passes the message in raw to take, or each message of a batch (servers of 2025-03-26 may send one), until take returns true.
// A batch may have many messages, so they are not kept: it is parsed once to see that all of it is valid, and a second time for take.
func eachMessage(raw []byte, take func(m jsonrpc.Message, last bool) (complete bool)) (complete bool, err error) {
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
		if left--; err == nil && take(m, left == 0) { // err is nil: the first pass has seen all
			return true, nil
		}
	}
	return false, nil
}

// unlessEOF returns err, or nil if it is io.EOF: the connection ended cleanly.
func unlessEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // never wrapped, and io.ErrUnexpectedEOF is another error
		return nil
	}
	return err
}

// poll asks for the stream once, and reads what comes. It returns errEnded if the stream is to be polled again, nil if it is complete, and
// another error if it cannot be completed.
//
// Specification 2025-11-25, basic/transports, "Resumability and Redelivery": a GET with the last event id.
func (f *stream) poll(ctx context.Context) error {
	f.s.trace(TraceEvent{Kind: TracePoll, Stream: f.name, EventID: f.at.id})
	a, err := f.s.do(ctx, http.MethodGet, acceptStream, nil, f.at.id)
	if f.polled != nil {
		f.polled()
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
	case transient(a.status):
		f.pause = retryAfter(a.header)
		return f.fail(err)
	case f.at.id == "":
		return err
	case a.status == http.StatusBadRequest, a.status == http.StatusGone, a.status == http.StatusNotFound && f.s.ID() == "":
		return fmt.Errorf("%w: %w", ErrExpired, err)
	}
	return err
}

// transient reports whether the same request may be accepted later. 409 is included: the server may not know yet that the old connection
// is gone.
func transient(status int) bool {
	switch status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= http.StatusInternalServerError
}
