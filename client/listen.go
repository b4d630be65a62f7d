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

// Listen yields what the standalone stream brings, until ctx ends or the loop is left. The stream is resumed as calls are; where the
// server has lost the place, it begins anew, and a warning is logged. Where it cannot go on, an error comes last; no call is harmed by
// that. Requests go to Config.OnRequest. At most one loop of a session makes sense: a server keeps one such connection, the newest. A
// slow loop makes the server wait.
//
// ErrNoStandalone, ErrListening, ErrClosed, ErrLeft, ErrSessionGone, ErrRetryTooLong, ErrRedirect, ErrProtocol, *StatusError,
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

// listen serves Config.OnNotification.
func (s *Session) listen(opened func()) {
	defer opened()
	err := s.follow(s.ctx, opened, func(m Message) bool {
		s.notified(m)
		return true
	})
	if s.ctx.Err() == nil && !errors.Is(err, ErrNoStandalone) {
		s.cfg.Logger.Warn("client: the standalone stream was given up", "error", err)
	}
}

// notified is Config.OnNotification; a panic in it is logged, and the next notification comes all the same.
func (s *Session) notified(m Message) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.Logger.Error("client: Config.OnNotification panicked", "method", m.Method, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	s.cfg.OnNotification(m.Method, m.Params)
}

// follow reads the standalone stream until take says no.
func (s *Session) follow(ctx context.Context, opened func(), take func(Message) bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.ctx, func() { stop(context.Cause(s.ctx)) })()
	f := stream{s: s, retry: -1, reached: func(position) {}, opened: opened}
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
		case errors.As(err, &refusal) && none(refusal.Status, s.ID()):
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

// none reports whether a refusal says that there is no standalone stream.
func none(status int, session string) bool {
	return status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented || status == http.StatusNotFound && session == ""
}
