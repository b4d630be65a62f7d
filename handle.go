package rejoin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Handle gives a tool access to the stream of its own request. Its methods do not wait for the network, except Ask and WaitConnected, which
// take a context; in the modern era Progress and Notify also wait, as Config.WriteTimeout allows. Safe for concurrent use, also after the
// request has ended.
type Handle struct {
	c      *Call       // nil: outside a call
	modern *modernCall // not nil: in a request of the modern era
}

var noCall Handle

// HandleFromContext returns the handle of the call that ctx belongs to. It is never nil. Outside a call its methods return ErrNoCall.
//
// A request of the modern era has no session, but its call can become a task (Config.Tasks): CloseStream and Ask make it one. Until then Progress,
// Notify and Connected serve the request's own response, whether an SDK answers it or an app of NewApp. From then on Progress sets the
// task's statusMessage, and Notify sends nothing, because tasks have no place for it.
func HandleFromContext(ctx context.Context) *Handle {
	if h, ok := ctx.Value(handleKey{}).(*Handle); ok {
		return h
	}
	return &noCall
}

// ServerFromContext returns the server for the context of a tool, or of a route behind an adapter's Middleware. For others it returns nil.
func ServerFromContext(ctx context.Context) *Server {
	srv, _ := ctx.Value(serverKey{}).(*Server)
	return srv
}

// ContextWithServer is for adapters. It returns a context in which ServerFromContext finds srv.
func ContextWithServer(ctx context.Context, srv *Server) context.Context {
	return context.WithValue(ctx, serverKey{}, srv)
}

// CloseStream disconnects the client. The server writes the events that the log has now, which takes CloseAfter at most. Then it tells the
// client when to come back, and ends the response. The call goes on, and what it sends waits in the log. If the client has no connection,
// CloseStream does nothing and returns nil.
//
// The client is told to wait for retryAfter, or for the policy's Retry if that is 0, and for up to a fifth more at random.
//
// In the modern era CloseStream makes the call a task: its client gets the task in place of the result, and asks for the result later. retryAfter
// has no effect there.
//
// An error only means that the client keeps its connection, so the tool need not fail because of it: ErrNotResumable (the client cannot
// poll, or did not come back when it was disconnected before; it cannot be given a task), ErrNoCall or ErrEnded.
func (h *Handle) CloseStream(retryAfter time.Duration) error {
	if h.c == nil {
		return h.modern.closeStream()
	}
	return h.c.s.closeStream(h.c.engine.Stream(), retryAfter)
}

// CloseStandaloneStream is CloseStream for the session's standalone stream.
func (h *Handle) CloseStandaloneStream(retryAfter time.Duration) error {
	switch {
	case h.c != nil:
		return h.c.s.closeStream(h.c.s.engine.Standalone(), retryAfter)
	case h.modern != nil:
		return ErrNotResumable // there is none
	}
	return ErrNoCall
}

// SetPolicy changes CloseAfter, Retry, RetryMax, AbandonAfter and MaxRuntime for the rest of this call. Zero fields stay as they are.
// Negative fields are off, but a negative Retry has no effect. In the modern era only AbandonAfter and MaxRuntime have an effect, and only once
// the call is a task. MaxRuntime counts from the beginning of the call.
func (h *Handle) SetPolicy(p Policy) error {
	if h.c == nil {
		return h.modern.setPolicy(p)
	}
	return operationError(h.c.s.engine.Adjust(h.c.engine.Stream(), core.Policy{
		CloseAfter: p.CloseAfter, Retry: max(p.Retry, 0), RetryMax: p.RetryMax, AbandonAfter: p.AbandonAfter, MaxRuntime: p.MaxRuntime,
	}))
}

// Resumable reports whether CloseStream can disconnect this client, in the modern era whether the call is a task or can become one.
func (h *Handle) Resumable() bool {
	if h.c == nil {
		return h.modern.resumable()
	}
	return h.c.engine.Resumable()
}

// Connected reports whether the client reads the call's stream now. That may have changed when Connected returns, so do not use it to decide
// whether to send.
func (h *Handle) Connected() bool {
	if h.c == nil {
		return h.modern.connected()
	}
	return h.c.engine.Connected()
}

// WaitConnected waits until the client reads the call's stream, and returns nil then. It returns ErrEnded if the call ends first, and the
// cause of ctx if that ends first. In a task it returns ErrNoStream at once.
func (h *Handle) WaitConnected(ctx context.Context) error {
	switch {
	case h.c != nil:
	case h.modern.connected():
		return nil
	case h.modern == nil:
		return ErrNoCall
	case h.modern.task.made() != nil:
		return ErrNoStream
	default:
		return ErrEnded
	}
	for {
		if h.c.ctx.Err() != nil {
			return ErrEnded
		}
		reading, changed := h.c.engine.WatchConnected()
		if reading {
			return nil
		}
		select {
		case <-changed:
		case <-h.c.ctx.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Progress reports progress to the client. It does nothing if the client did not ask for progress, with a progressToken that is a string or a
// number of at most 1 KiB. total is 0 if it is unknown.
func (h *Handle) Progress(done, total float64, message string) error {
	switch {
	case h.c != nil:
	case h.modern != nil:
		return h.modern.progress(done, total, message)
	default:
		return ErrNoCall
	}
	token := h.c.progressToken()
	if token == nil {
		return nil
	}
	data, err := appendProgress(make([]byte, 0, 160+len(token)+len(message)), token, done, total, message)
	if err != nil {
		return err
	}
	return h.c.s.emit(h.c, core.Progress, data)
}

// Notify sends a notification on the call's stream, or on the standalone stream if the call has ended. params are marshalled with
// encoding/json, but a json.RawMessage, a pointer to one, and a []byte are sent as they are. nil stands for no params. To send on the
// standalone stream at any time, use Session().Notify with a context that belongs to no call.
//
// In the modern era there is no such stream: after the call Notify returns ErrEnded. The client gets no notifications/message below the logLevel in
// the _meta of its request, or without one, and none of the notifications that only a subscription may bring.
func (h *Handle) Notify(method string, params any) error {
	if h.c == nil && h.modern == nil {
		return ErrNoCall
	}
	raw, err := marshalParams(params)
	if err != nil {
		return err
	}
	if h.c == nil {
		return h.modern.notify(method, raw)
	}
	return h.c.s.notify(h.c, method, raw)
}

// Ask sends a request to the client (sampling, elicitation, roots), waits for the answer and decodes it into result, unless result is nil. A
// client without a connection gets the request when it comes back, so limit the wait with ctx. When the wait ends without an answer, the
// client is told so. An error that the client answers is an *Error. ErrNotOffered comes at once: the client did not say in initialize
// that it answers such requests (Session.CanAsk).
//
// In the modern era only a task can ask while it runs, so Ask makes the call a task. It returns ErrNotResumable if the client cannot be given
// one. The client answers when it next asks for the task.
func (h *Handle) Ask(ctx context.Context, method string, params, result any) error {
	if h.c == nil {
		return h.modern.ask(ctx, method, params, result)
	}
	return h.c.s.askAndWait(ctx, h.c, method, params, result)
}

// Stream returns the name of the call's stream, or "" outside a call.
func (h *Handle) Stream() StreamRef {
	if h.c == nil {
		return ""
	}
	return h.c.s.ref.stream(h.c.engine.StreamNumber())
}

// Session returns the call's session, or nil outside a call.
func (h *Handle) Session() *Session {
	if h.c == nil {
		return nil
	}
	return h.c.s
}

func marshalParams(params any) (json.RawMessage, error) {
	switch p := params.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return checkParams(p)
	case []byte: // encoding/json would make a string of it, and params are never a string
		return checkParams(p)
	case *json.RawMessage: // converted to any without an allocation
		if p == nil {
			return nil, nil
		}
		return checkParams(*p)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("rejoin: params: %w", err)
	}
	if string(raw) == "null" { // for example from a nil map
		return nil, nil
	}
	return raw, nil
}

// checkParams refuses invalid JSON. The client could not parse the message, and might end its session.
func checkParams(params json.RawMessage) (json.RawMessage, error) {
	if len(params) > 0 && !jsonrpc.Valid(params) {
		return nil, errInvalidParams
	}
	return params, nil
}
