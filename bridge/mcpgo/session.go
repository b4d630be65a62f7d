package mcpgo

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/safe"
	"github.com/rejoin-mcp/rejoin/internal/stack"
)

// session is a rejoin.AppSession. To mcp-go it is several sessions with one id, each a clientSession. One is registered as long as the session
// lasts; messages to it go to the standalone stream. Each call has another one in its context, whose messages go to the stream of the call.
type session struct {
	app     *app
	session *rejoin.Session
	state   *sessionState
	main    *clientSession // the registered one
	backlog backlog

	mu         sync.Mutex
	registered bool
	ended      bool
	cause      error // why it has ended
}

func newSession(a *app, rs *rejoin.Session) *session {
	st := &sessionState{session: rs}
	st.saved.LogLevel = mcp.LoggingLevelError // the default of mcp-go's own sessions
	return &session{app: a, session: rs, state: st, main: newClientSession(context.Background(), st, nil)}
}

// register registers the session in mcp-go. It runs hooks of the program, which may panic. If the session has ended meanwhile, register
// unregisters it.
func (s *session) register(ctx context.Context) error {
	listed := true
	defer func() {
		s.mu.Lock()
		s.registered = listed
		late := listed && s.ended
		s.mu.Unlock()
		if late {
			s.unregister()
		}
	}()
	err := s.app.server.RegisterSession(s.app.server.WithContext(ctx, s.main), s.main)
	listed = err == nil
	return err
}

// unregister unregisters the session, which has ended.
func (s *session) unregister() {
	s.mu.Lock()
	ctx := context.WithValue(context.Background(), causeKey{}, s.cause)
	s.mu.Unlock()
	s.app.server.UnregisterSession(s.app.server.WithContext(ctx, s.main), s.session.ID())
}

type causeKey struct{}

// Cause returns why a session has ended, from the context that a hook of OnUnregisterSession gets. For other contexts it returns nil. If it is
// rejoin.ErrMoved, another process goes on with the session: do not delete what that process needs.
func Cause(ctx context.Context) error {
	cause, _ := ctx.Value(causeKey{}).(error)
	return cause
}

func (s *session) Ended(cause error) {
	s.mu.Lock()
	s.ended, s.cause = true, cause
	registered := s.registered
	s.mu.Unlock()
	s.backlog.close()
	s.main.outbox.close()
	if registered {
		s.unregister()
	}
}

// Request serves the call in a new goroutine: mcp-go returns when the handler has returned.
func (s *session) Request(call *rejoin.Call) { go s.serve(call) }

func (s *session) serve(call *rejoin.Call) {
	stack.To16K(false) // mcp-go's dispatcher has a frame of 4 KiB, and decodes nested JSON

	if context.Cause(call.Context()) != nil { // the call has ended, so its tool need not start
		_ = call.Fail(rejoin.Errorf(rejoin.CodeInternal, "cancelled"))
		return
	}
	c := newClientSession(call.Context(), s.state, s.main)
	var (
		result json.RawMessage
		fault  *rejoin.Error
	)
	returned := safe.Run(func() {
		result, fault = s.handle(call, c)
		c.endCall()
	}, func(what any, stack string) {
		s.logPanic(call.Method(), what, stack)
		c.endCall()
		_ = call.Fail(rejoin.Errorf(rejoin.CodeInternal, "internal error")) // the call may have ended
	})
	if !returned {
		return
	}
	if fault != nil {
		_ = call.Fail(fault)
		return
	}
	_ = call.Reply(result)
}

func (s *session) logPanic(method string, what any, stack string) {
	s.session.Logger().Error("rejoin: panic in a handler", "method", method, "panic", what, "stack", stack)
}

// handle lets mcp-go handle a call, and returns the result or the error.
func (s *session) handle(call *rejoin.Call, c *clientSession) (json.RawMessage, *rejoin.Error) {
	ctx := s.app.context(call.Context(), call.Header(), c)
	result, fault := s.splitResponse(s.app.server.HandleMessage(ctx, s.requestFor(call)))
	if fault != nil && call.Method() == string(mcp.MethodResourcesSubscribe) && (fault.Message == errManyURIs.Error() || fault.Message == errLongURI.Error()) {
		fault.Code = rejoin.CodeInvalidParams // mcp-go uses the code of a resource that is not found
	}
	if call.Method() == "initialize" && fault == nil {
		fault = s.finishInitialize(ctx)
	}
	return result, fault
}

// requestFor returns the JSON-RPC request that mcp-go gets for a call. mcp-go decodes ids as float64, and mcp-go and hooks identify requests by
// them. If that would change an id, perhaps to the id of another call, mcp-go gets a string that contains the client's spelling.
func (s *session) requestFor(call *rejoin.Call) json.RawMessage {
	id, params := call.ID(), call.Params()
	if call.Method() == "initialize" {
		client := s.session.Client()
		params = bounds.Opening(params, client.Raw, client.Capabilities)
	}
	survives := jsonrpc.Survives(id)
	switch {
	case !survives:
		id = jsonrpc.AppendString(nil, "rejoin:"+string(id))
	case len(params) == len(call.Params()):
		return call.Raw()
	}
	return jsonrpc.AppendRequest(nil, id, call.Method(), params)
}

// finishInitialize starts to save the state and registers the session, after initialize has succeeded.
func (s *session) finishInitialize(ctx context.Context) *rejoin.Error {
	s.state.startSaving()
	if err := s.register(ctx); err != nil {
		s.session.Logger().Error("rejoin: mcp-go did not register a session", "error", err)
		return rejoin.Errorf(rejoin.CodeInternal, "internal error")
	}
	return nil
}

// splitResponse returns the result or the error of a response. Its id is ignored: it may differ from the client's, see requestFor.
func (s *session) splitResponse(response mcp.JSONRPCMessage) (json.RawMessage, *rejoin.Error) {
	var err error
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		var result json.RawMessage
		if tool, ok := r.Result.(*mcp.CallToolResult); ok && tool != nil {
			result, err = tool.MarshalJSON() // json.Marshal would also check and copy the result
		} else {
			result, err = json.Marshal(r.Result)
		}
		if err == nil {
			return result, nil
		}
	case mcp.JSONRPCError:
		fault := rejoin.Errorf(r.Error.Code, "%s", r.Error.Message)
		if r.Error.Data == nil {
			return nil, fault
		}
		if fault.Data, err = json.Marshal(r.Error.Data); err == nil {
			return nil, fault
		}
	default: // nil: a request with a member "result", which mcp-go handles as a response
		return nil, rejoin.Errorf(rejoin.CodeInvalidRequest, "the message is not a request")
	}
	s.session.Logger().Error("rejoin: a response is not valid JSON", "error", err)
	return nil, rejoin.Errorf(rejoin.CodeInternal, "internal error")
}

// A clientSession implements all optional interfaces of mcp-go's sessions.
var (
	_ server.SessionWithLogging                  = (*clientSession)(nil)
	_ server.SessionWithTools                    = (*clientSession)(nil)
	_ server.SessionWithResources                = (*clientSession)(nil)
	_ server.SessionWithResourceTemplates        = (*clientSession)(nil)
	_ server.SessionWithResourceSubscriptionsErr = (*clientSession)(nil)
	_ server.SessionWithClientInfo               = (*clientSession)(nil)
	_ server.SessionWithElicitation              = (*clientSession)(nil)
	_ server.SessionWithRoots                    = (*clientSession)(nil)
	_ server.SessionWithSampling                 = (*clientSession)(nil)
	_ server.SessionWithSubscriptionFilter       = (*clientSession)(nil)
	_ server.SessionWithProtocolVersion          = (*clientSession)(nil)
	_ server.SessionWithStreamableHTTPConfig     = (*clientSession)(nil)
)
