package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// subscription is what a session of the modern era listens to: all that servers say outside of calls, but for resources by name and tasks.
const subscription = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`

// followModern is follow in the modern era: in place of the standalone stream it subscribes (subscriptions/listen), and again when that ends.
// What happens in between is lost: such a stream cannot be resumed.
func (s *Session) followModern(ctx context.Context, polled func(), take func(Message) bool) error {
	if polled == nil {
		polled = func() {}
	}
	f := stream{s: s, retry: -1}
	for {
		begun, agreed, left := time.Now(), false, false
		r := modernRequest{id: s.nextID(), method: "subscriptions/listen", idle: s.cfg.IdleTimeout}
		r.params = map[string]json.RawMessage{"notifications": json.RawMessage(subscription)}
		_, err := s.ask(ctx, r, func(m jsonrpc.Message) bool {
			if string(m.Method) == "notifications/subscriptions/acknowledged" {
				agreed = true
				polled()
				return true
			}
			left = !take(Message{string(m.Method), m.Params})
			return !left
		})
		polled()
		switch {
		case left:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if err = f.unsubscribed(err, agreed || time.Since(begun) >= s.cfg.BackoffMax); err != errEnded { //nolint:errorlint // never wrapped
			return err
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// unsubscribed decides about a subscription that has ended. It returns errEnded if there may be another one.
func (f *stream) unsubscribed(err error, held bool) error {
	if paused, ok := errors.AsType[pausedError](err); ok {
		f.pause, err = paused.pause, paused.error
	}
	refusal, refused := errors.AsType[*StatusError](err)
	e, answered := errors.AsType[*Error](err)
	connection, broken := errors.AsType[lostError](err)
	switch {
	case answered && e.Code == rejoin.CodeMethodNotFound, refused && noStandalone(refusal.Status, ""):
		return fmt.Errorf("%w: %w", ErrNoStandalone, err)
	case refused && transient(refusal.Status), isUnsent(err):
		return f.fail(withoutUnsent(err))
	case err == nil && held, broken && (held || errors.Is(err, errIdle)):
		f.failed = 0
		return errEnded
	case broken:
		return f.fail(connection.err)
	case err == nil:
		return f.fail(errNothing)
	}
	return err
}
