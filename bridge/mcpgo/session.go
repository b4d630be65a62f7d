package mcpgo

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// session is rejoin's AppSession. To mcp-go a session is a line: one is registered for as long as the session lasts, and leads to its
// standalone stream; each call has one of its own, which mcp-go knows only from the context.
type session struct {
	app    *app
	s      *rejoin.Session
	memory *memory
	main   *line
	notes  backlog

	mu         sync.Mutex
	registered bool
	over       bool
}

func newSession(a *app, s *rejoin.Session) *session {
	m := &memory{s: s}
	m.state.LogLevel = mcp.LoggingLevelError // as mcp-go's own sessions
	return &session{app: a, s: s, memory: m, main: newLine(context.Background(), m, s, nil)}
}

// register makes mcp-go list the session. It runs hooks of the user's, which may panic.
func (n *session) register(ctx context.Context) error {
	listed := true
	defer func() {
		n.mu.Lock()
		n.registered = listed
		late := listed && n.over
		n.mu.Unlock()
		if late {
			n.unregister()
		}
	}()
	err := n.app.server.RegisterSession(n.app.server.WithContext(ctx, n.main), n.main)
	listed = err == nil
	return err
}

func (n *session) unregister() {
	n.app.server.UnregisterSession(n.app.server.WithContext(context.Background(), n.main), n.s.ID())
}

func (n *session) Ended(error) {
	n.mu.Lock()
	n.over = true
	registered := n.registered
	n.mu.Unlock()
	n.notes.end()
	n.main.out.end()
	if registered {
		n.unregister()
	}
}

// Request runs the call: mcp-go answers when its handler returns.
func (n *session) Request(call *rejoin.Call) { go n.serve(call) }

func (n *session) serve(call *rejoin.Call) {
	deepen(false)
	if err := context.Cause(call.Context()); err != nil { // a tool should not do what nobody wants any more
		_ = call.Fail(rejoin.Errorf(rejoin.CodeInternal, "cancelled"))
		return
	}
	l := newLine(call.Context(), n.memory, n.s, n.main)
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover() // nil: the handler called runtime.Goexit
		n.s.Logger().Error("rejoin: panic in a handler", "method", call.Method(), "panic", v, "stack", string(debug.Stack()))
		l.over()
		_ = call.Fail(rejoin.Errorf(rejoin.CodeInternal, "internal error")) // it may have ended
	}()
	ctx := n.app.context(call.Context(), call.Header(), l)
	result, fault := n.answer(n.app.server.HandleMessage(ctx, n.message(call)))
	if fault != nil && call.Method() == string(mcp.MethodResourcesSubscribe) && (fault.Message == errManyURIs.Error() || fault.Message == errLongURI.Error()) {
		fault.Code = rejoin.CodeInvalidParams // mcp-go takes it for a resource that there is not
	}
	if call.Method() == "initialize" && fault == nil {
		fault = n.opened(ctx)
	}
	l.over()
	returned = true
	if fault != nil {
		_ = call.Fail(fault)
		return
	}
	_ = call.Reply(result)
}

// message is a call as mcp-go gets it. It decodes ids into float64, and knows its requests by them, as hooks do: so an id that would become
// another one, perhaps that of another call, comes as a string that holds how the client spelt it.
func (n *session) message(call *rejoin.Call) json.RawMessage {
	id, params := call.ID(), call.Params()
	if call.Method() == "initialize" {
		client := n.s.Client()
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

// opened completes a session whose initialize has succeeded.
func (n *session) opened(ctx context.Context) *rejoin.Error {
	n.memory.open()
	if err := n.register(ctx); err != nil {
		n.s.Logger().Error("rejoin: mcp-go did not register a session", "error", err)
		return rejoin.Errorf(rejoin.CodeInternal, "internal error")
	}
	return nil
}

// answer takes mcp-go's response apart. Its id is not the client's, which went through float64.
func (n *session) answer(response mcp.JSONRPCMessage) (json.RawMessage, *rejoin.Error) {
	var err error
	switch r := response.(type) {
	case mcp.JSONRPCResponse:
		var result json.RawMessage
		if tool, ok := r.Result.(*mcp.CallToolResult); ok && tool != nil {
			result, err = tool.MarshalJSON() // what json.Marshal calls, before it checks and copies what it gets
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
	default: // nil for a request that has a member "result", which mcp-go takes for an answer
		return nil, rejoin.Errorf(rejoin.CodeInvalidRequest, "the message is no request")
	}
	n.s.Logger().Error("rejoin: a response is no JSON", "error", err)
	return nil, rejoin.Errorf(rejoin.CodeInternal, "internal error")
}

// Whatever mcp-go can ask of a session.
var (
	_ server.SessionWithLogging                  = (*line)(nil)
	_ server.SessionWithTools                    = (*line)(nil)
	_ server.SessionWithResources                = (*line)(nil)
	_ server.SessionWithResourceTemplates        = (*line)(nil)
	_ server.SessionWithResourceSubscriptionsErr = (*line)(nil)
	_ server.SessionWithClientInfo               = (*line)(nil)
	_ server.SessionWithElicitation              = (*line)(nil)
	_ server.SessionWithRoots                    = (*line)(nil)
	_ server.SessionWithSampling                 = (*line)(nil)
	_ server.SessionWithSubscriptionFilter       = (*line)(nil)
	_ server.SessionWithProtocolVersion          = (*line)(nil)
	_ server.SessionWithStreamableHTTPConfig     = (*line)(nil)
)
