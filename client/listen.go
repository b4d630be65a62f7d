package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"runtime/debug"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Listen yields the notifications of the standalone stream until ctx ends or the loop is left. The stream is resumed as those of calls are.
// If the server no longer knows the last event id, the stream begins anew, and a warning is logged. If it cannot continue, the last element
// is an error; calls are not affected. Requests go to Config.OnRequest. Run one loop of a session at a time: a server keeps only the newest
// connection. A slow loop makes the server wait.
//
// In the modern era, Listen subscribes to the changes of the lists of tools, prompts and resources. What happens while that connection is broken
// is lost.
//
// Errors: ErrNoStandalone, ErrListening, ErrClosed, ErrLeft, ErrSessionGone, ErrRetryTooLong, ErrRedirect, ErrProtocol, *StatusError,
// *GaveUpError.
func (s *Session) Listen(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		err := ErrListening
		left := false
		if s.cfg.OnNotification == nil {
			err = s.follow(ctx, nil, func(m Message) bool {
				left = !yield(m, nil)
				return !left
			})
		}
		if !left && ctx.Err() == nil && err != nil {
			yield(Message{}, err)
		}
	}
}

// listen passes the standalone stream to Config.OnNotification. It calls polled when the server has answered, and when there is no stream.
func (s *Session) listen(polled func()) {
	defer polled()
	err := s.follow(s.ctx, polled, func(m Message) bool {
		s.notified(m)
		return true
	})
	if s.ctx.Err() == nil && !errors.Is(err, ErrNoStandalone) {
		s.cfg.Logger.Warn("client: the standalone stream was given up", "error", err)
	}
}

// notified calls Config.OnNotification. A panic in it is logged.
func (s *Session) notified(m Message) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.Logger.Error("client: Config.OnNotification panicked", "method", m.Method, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	s.cfg.OnNotification(m.Method, m.Params)
}

// follow reads the standalone stream until take returns false.
func (s *Session) follow(ctx context.Context, polled func(), take func(Message) bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.ctx, func() { stop(context.Cause(s.ctx)) })()
	if s.isModern() {
		return s.followModern(ctx, polled, take)
	}
	f := stream{s: s, retry: -1, reached: func(position) {}, polled: polled}
	f.take = func(m jsonrpc.Message, _, _ position) bool {
		switch {
		case m.Kind == jsonrpc.Request:
			s.asked(ctx, m, func() {})
		case m.Kind == jsonrpc.Notification && string(m.Method) == methodCancelled:
			s.withdrawn(m.Params)
		case m.Kind == jsonrpc.Notification:
			return !take(Message{string(m.Method), m.Params})
		}
		return false
	}
	for {
		err := f.poll(ctx)
		var refusal *StatusError
		switch {
		case err == nil:
			return nil
		case f.at.id != "" && (errors.Is(err, ErrExpired) || errors.Is(err, ErrNoResponse)):
			s.cfg.Logger.Warn("client: the standalone stream begins anew, and what it brought meanwhile is lost", "error", err)
			f.at = position{}
			err = f.fail(err)
		case errors.Is(err, ErrNoResponse):
			return fmt.Errorf("%w: status %d", ErrNoStandalone, http.StatusNoContent)
		case errors.As(err, &refusal) && noStandalone(refusal.Status, s.ID()):
			return fmt.Errorf("%w: %w", ErrNoStandalone, err)
		}
		if err != errEnded { //nolint:errorlint // never wrapped
			return err
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// noStandalone reports whether a refusal means that the server has no standalone stream.
func noStandalone(status int, session string) bool {
	return status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented || status == http.StatusNotFound && session == ""
}
