package gosdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// enqueue queues a message for Read. The caller holds s.mu.
func (s *session) enqueue(m jsonrpc.Message) {
	if !s.ended {
		s.queue = append(s.queue, m)
		s.ready.Signal()
	}
}

func (s *session) Connect(context.Context) (mcp.Connection, error) { return s, nil }

func (s *session) SessionID() string { return s.session.ID() }

// Read ignores its context: it is the context of Connect, which never ends.
func (s *session) Read(context.Context) (jsonrpc.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.ended && len(s.queue) == 0 {
		s.ready.Wait()
	}
	if len(s.queue) == 0 {
		return nil, io.EOF
	}
	m := s.queue[0]
	s.queue[0] = nil
	if s.queue = s.queue[1:]; len(s.queue) == 0 {
		s.queue = nil
	}
	return m, nil
}

// Close is called under a lock of the SDK, so it must not call the SDK.
func (s *session) Close() error {
	if s.endReading() {
		go s.session.End(nil)
	}
	return nil
}

// errRejected marks an error of Write as the error of one message. After any other error the SDK ends the session.
var errRejected = &jsonrpc.Error{Code: -32005, Message: "rejected by transport"}

func (s *session) Write(ctx context.Context, message jsonrpc.Message) error {
	switch m := message.(type) {
	case *jsonrpc.Response:
		s.respond(m)
	case *jsonrpc.Request:
		ctx, inCall := s.origin(ctx)
		switch {
		case m.IsCall():
			s.ask(ctx, m, inCall)
		case m.Method == "notifications/cancelled":
			s.withdraw(m.Params)
		case inCall && m.Method == "notifications/progress" && rejoin.HandleFromContext(ctx).Session() == nil:
			// Progress of a call that has ended is dropped. If there is a handle, rejoin does that.
		default:
			if err := s.session.Notify(ctx, m.Method, &m.Params); err != nil {
				return fmt.Errorf("%w: %w", errRejected, err)
			}
		}
	}
	return nil
}

// origin finds the call that a message is sent for. It returns the call's context, or ctx, and whether ctx belongs to a call of this session,
// which may have ended. A handler's context has a handle. The context of a middleware outside ours has only the id of the SDK's request.
func (s *session) origin(ctx context.Context) (context.Context, bool) {
	if of := rejoin.HandleFromContext(ctx).Session(); of != nil || s.app.idKey == nil {
		return ctx, of == s.session
	}
	id, _ := ctx.Value(s.app.idKey).(jsonrpc.ID)
	sdkID, _ := id.Raw().(string)
	if n, ok := strings.CutPrefix(sdkID, string(s.session.Ref())+"."); !ok || strings.Contains(n, ".") {
		return ctx, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.calls[sdkID]
	if in != nil {
		ctx = in.ctx
	}
	return ctx, in == nil || in.call != nil
}

// respond answers a call. If the call has ended meanwhile, rejoin drops the answer.
func (s *session) respond(m *jsonrpc.Response) {
	id, _ := m.ID.Raw().(string)
	s.mu.Lock()
	in, restored := s.calls[id], ""
	if request := s.unanswered[id]; request != nil {
		if in != nil && in.call == nil {
			restored, _ = member(request.Params, "uri")
		}
		clearMessage(request)
		delete(s.unanswered, id)
	}
	switch {
	case id == markerID:
		s.backlog.markerAnswered()
		s.sendMarker()
	case in != nil:
		delete(s.calls, id)
		delete(s.incoming, in.key)
	}
	s.mu.Unlock()
	switch {
	case in == nil:
		return
	case in.call == nil:
		s.restored(restored, m.Error)
		return
	}
	in.stop()
	s.state.answered(in.call, m)
	if m.Error != nil {
		_ = in.call.Fail(toRejoin(m.Error))
		return
	}
	_ = in.call.Reply(m.Result)
}

func makeID(v any) jsonrpc.ID {
	id, _ := jsonrpc.MakeID(v) // if v is not an id, the zero ID, which no request has
	return id
}

// toRejoin converts an error as the SDK's own transports do.
func toRejoin(err error) *rejoin.Error {
	e := &rejoin.Error{Message: err.Error()}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		e.Code, e.Data = int(wire.Code), wire.Data
	}
	return e
}

func toSDK(err error) error {
	if e, ok := errors.AsType[*rejoin.Error](err); ok {
		return &jsonrpc.Error{Code: int64(e.Code), Message: e.Message, Data: e.Data}
	}
	return err
}
