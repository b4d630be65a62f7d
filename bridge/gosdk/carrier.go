package gosdk

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// carrier is a message of the client on its way through the SDK, which hands its RequestExtra through to the middleware and
// nothing else of it. Nothing in here may point to that RequestExtra: carriers would never be collected.
type carrier struct {
	ctx    context.Context // rejoin's
	s      *rejoin.Session
	key    weak.Pointer[mcp.RequestExtra]
	call   *rejoin.Call // nil: a notification
	stop   func() bool  // of the watch on ctx
	stale  bool         // the call has ended, and its handler has not returned; with the session's lock
	cancel atomic.Pointer[context.CancelCauseFunc]
}

// newCarrier makes what the middleware finds again by the identity of the RequestExtra.
func (c *session) newCarrier(ctx context.Context, header http.Header) (*mcp.RequestExtra, *carrier) {
	extra := &mcp.RequestExtra{Header: header, TokenInfo: auth.TokenInfoFromContext(ctx)}
	k := &carrier{ctx: ctx, s: c.s, key: weak.Make(extra)}
	c.app.carriers.Store(k.key, k)
	return extra, k
}

// handlerContext makes a handler's context of the SDK's, whose end stays the SDK's; only a call's end comes sooner, with its cause.
func (k *carrier) handlerContext(sdk context.Context) context.Context {
	both := &values{sdk, k.ctx}
	if k.call == nil {
		return both
	}
	ctx, cancel := context.WithCancelCause(both)
	k.cancel.Store(&cancel)
	k.propagate() // it may have ended before there was anything to cancel
	return ctx
}

// propagate ends the handler's context, if there is one and the call's has ended.
func (k *carrier) propagate() {
	if cancel := k.cancel.Load(); cancel != nil && k.ctx.Err() != nil {
		(*cancel)(context.Cause(k.ctx))
	}
}

// receive is the middleware: it gives a handler the context of its call and catches its panics, which would end the process.
func (a *app) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		deepen(false) // the SDK begins a goroutine for each call
		log := slog.Default
		var call *rejoin.Call
		returned := false
		defer func() {
			if returned {
				return
			}
			v := recover()
			if v == nil { // it has called runtime.Goexit: nobody else will answer
				log().Error("rejoin: a handler did not return", "method", method)
				if call != nil {
					_ = call.Fail(rejoin.Errorf(rejoin.CodeInternal, "internal error")) // it may have been answered
				}
				return
			}
			log().Error("rejoin: panic in a handler", "method", method, "panic", v, "stack", string(debug.Stack()))
			result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
		}()
		if extra := req.GetExtra(); extra != nil {
			if v, ok := a.carriers.Load(weak.Make(extra)); ok {
				k := v.(*carrier) //nolint:forcetypeassert // the map holds nothing else
				ctx, log, call = k.handlerContext(ctx), k.s.Logger, k.call
			}
		}
		result, err = next(ctx, method, req)
		returned = true
		return result, err
	}
}

// values adds the values of a call to the SDK's context, whose own come first: its cancellation is found through one of them.
type values struct {
	context.Context
	call context.Context
}

func (c *values) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.call.Value(key)
}
