package rejoin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Handle is a tool's hold on the stream of its own request. Its methods never wait for the network, except the two that take a
// context. Safe for concurrent use, also after the request has ended.
type Handle struct {
	c      *Call   // nil: outside a call
	modern *Server // of a request of the modern era
}

var noCall Handle

// HandleFromContext returns the handle of the call that ctx belongs to. It is never nil; outside a call its methods
// return ErrNoCall. So they do for a request of the modern era, which is the SDK's own to answer and has no session, but for
// CloseStream and CloseStandaloneStream, which return ErrNotResumable there.
func HandleFromContext(ctx context.Context) *Handle {
	if h, ok := ctx.Value(handleKey{}).(*Handle); ok {
		return h
	}
	return &noCall
}

// ServerFromContext returns the server of a tool's context, or of a route behind an adapter's Middleware; else nil.
func ServerFromContext(ctx context.Context) *Server {
	s, _ := ctx.Value(serverKey{}).(*Server)
	return s
}

// ContextWithServer is for adapters: it makes ServerFromContext find s.
func ContextWithServer(ctx context.Context, s *Server) context.Context {
	return context.WithValue(ctx, serverKey{}, s)
}

// CloseStream lets the client go: what the log holds is written (for CloseAfter at most), then the time to come back after (0: the policy's; either is
// lengthened at random by up to a fifth), and the response ends. The call goes on, and what it produces waits in the log. A client that is
// away already stays away: nil.
//
// An error means only that the client keeps its connection (ErrNotResumable: it cannot poll, or has not come back before; ErrNoCall; ErrEnded). No tool needs
// to fail for it.
func (h *Handle) CloseStream(retryAfter time.Duration) error {
	if h.c == nil {
		return h.cannotClose()
	}
	return h.c.s.closeStream(h.c.stream, retryAfter)
}

// CloseStandaloneStream does the same to the session's GET stream.
func (h *Handle) CloseStandaloneStream(retryAfter time.Duration) error {
	if h.c == nil {
		return h.cannotClose()
	}
	return h.c.s.closeStream(h.c.s.standalone(), retryAfter)
}

// cannotClose is why there is no stream to close outside a call.
func (h *Handle) cannotClose() error {
	if h.modern == nil {
		return ErrNoCall
	}
	h.modern.sayOnce(saidModern, "rejoin: CloseStream has no effect for clients of the modern era, which has no resumption: nobody can poll there (Config.Eras)")
	return ErrNotResumable
}

// SetPolicy changes CloseAfter, Retry, RetryMax, AbandonAfter and MaxRuntime for the rest of this call; zero fields stay as
// they are, negative ones are off (Retry cannot be).
func (h *Handle) SetPolicy(p Policy) error {
	if h.c == nil {
		return ErrNoCall
	}
	q := core.Policy{
		CloseAfter: p.CloseAfter, Retry: max(p.Retry, 0), RetryMax: p.RetryMax,
		AbandonAfter: p.AbandonAfter, MaxRuntime: p.MaxRuntime,
	}
	return h.c.s.do(core.In{Op: core.Adjust, Stream: h.c.stream, Policy: &q})
}

// Resumable reports whether CloseStream can work for this client.
func (h *Handle) Resumable() bool {
	if h.c == nil {
		return false
	}
	s := h.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Resumable(h.c.stream)
}

// Connected reports whether the client is reading now. It may be wrong by the time you look: never use it to decide whether to
// send.
func (h *Handle) Connected() bool {
	if h.c == nil {
		return false
	}
	h.c.s.mu.Lock()
	defer h.c.s.mu.Unlock()
	return h.c.st.conn != nil
}

// WaitConnected returns nil once the client is reading (at once, if it is), ErrEnded, or ctx's error.
func (h *Handle) WaitConnected(ctx context.Context) error {
	if h.c == nil {
		return ErrNoCall
	}
	for {
		if h.c.ctx.Err() != nil {
			return ErrEnded
		}
		reading, changed := h.c.st.watch(h.c.s)
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

// Progress reports progress if the client asked for it, by a progressToken that is a string or a number of at most 1 KiB, else does nothing.
// total 0: unknown.
func (h *Handle) Progress(done, total float64, message string) error {
	if h.c == nil {
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

// Notify sends a notification on the call's stream; after the call's end, on the standalone stream. Session().Notify sends there at
// any time, with a context of no call. params are marshalled with encoding/json, but a json.RawMessage, a pointer to one, or a []byte is
// sent as it is; nil: none.
func (h *Handle) Notify(method string, params any) error {
	if h.c == nil {
		return ErrNoCall
	}
	raw, err := marshalParams(params)
	if err != nil {
		return err
	}
	return h.c.s.notify(h.c, method, raw)
}

// Request asks the client (sampling, elicitation, roots) and decodes the answer into result. A client that is away is asked when
// it comes back; bound the wait with ctx. The client's own error is an *Error; it is told when nobody waits any more.
// ErrNotOffered, at once: the client did not say in initialize that it can be asked that (Session.CanAsk).
func (h *Handle) Request(ctx context.Context, method string, params, result any) error {
	if h.c == nil {
		return ErrNoCall
	}
	raw, err := marshalParams(params)
	if err == nil {
		err = h.waitOver(ctx) // nobody is asked for whom nobody waits
	}
	if err != nil {
		return err
	}
	type answer struct {
		raw json.RawMessage
		err error
	}
	answers := make(chan answer, 1)
	cancel := h.c.s.ask(h.c, method, raw, func(raw json.RawMessage, err error) { answers <- answer{raw, err} })
	select {
	case a := <-answers:
		if a.err != nil || result == nil {
			return a.err
		}
		if err := json.Unmarshal(a.raw, result); err != nil {
			return fmt.Errorf("rejoin: the client's answer to %s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
	case <-h.c.ctx.Done():
	}
	cause := h.waitOver(ctx)
	cancel(cause.Error())
	return cause
}

// waitOver is why a question of the call has nobody any more who waits for its answer; nil: it has.
func (h *Handle) waitOver(ctx context.Context) error {
	switch cause := context.Cause(&h.c.ctx); cause {
	case nil:
		return context.Cause(ctx)
	case context.Canceled: //nolint:errorlint // our own: the response was made
		return ErrEnded
	default:
		return cause
	}
}

// Stream names the call's stream; "" outside a call.
func (h *Handle) Stream() Ref {
	if h.c == nil {
		return ""
	}
	return h.c.st.ref(h.c.s)
}

// Session is the call's session; nil outside a call.
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
	case []byte: // which would become a string, and params are never one
		return checkParams(p)
	case *json.RawMessage: // boxed without an allocation
		if p == nil {
			return nil, nil
		}
		return checkParams(*p)
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("rejoin: params: %w", err)
	}
	if string(raw) == "null" { // of a nil map, say
		return nil, nil
	}
	return raw, nil
}

// checkParams refuses what would make the client's parser fail, and its whole session with it.
func checkParams(params json.RawMessage) (json.RawMessage, error) {
	if len(params) > 0 && !jsonrpc.Valid(params) {
		return nil, errInvalidParams
	}
	return params, nil
}
