package gosdk

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// carrier is a message of the client on its way through the SDK, which hands its RequestExtra through to the middleware and
// nothing else of it. The session has it, by that RequestExtra, and nothing outside of the session may: what the SDK keeps of a session
// that has ended, such as the last request of its queue, would keep the carrier, and the carrier the session.
type carrier struct {
	ctx    context.Context // rejoin's
	s      *rejoin.Session
	key    weak.Pointer[mcp.RequestExtra]
	call   *rejoin.Call // nil: a notification
	stop   func() bool  // of the watch on ctx
	cancel atomic.Pointer[context.CancelCauseFunc]
	over   atomic.Pointer[error] // why the session has ended: ctx may end a moment later
}

// sessionKey finds a session in what its handlers' contexts are made of: the context that the SDK was connected with.
type sessionKey struct{}

// newCarrier makes what the middleware finds again by the identity of the RequestExtra, once it is in the session's map.
func (c *session) newCarrier(ctx context.Context, header http.Header) (*mcp.RequestExtra, *carrier) {
	extra := &mcp.RequestExtra{Header: header, TokenInfo: auth.TokenInfoFromContext(ctx)}
	return extra, &carrier{ctx: ctx, s: c.s, key: weak.Make(extra)}
}

// carrierOf finds the message that a handler was called for. Nil: it is none of a session of ours.
func carrierOf(ctx context.Context, extra *mcp.RequestExtra) *carrier {
	c, ok := ctx.Value(sessionKey{}).(*session)
	if !ok || extra == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.carriers[weak.Make(extra)]
}

// forgetWith forgets a notification's carrier when the SDK has let go of extra. There is no response at which it could be forgotten, and
// the SDK may drop it unseen.
func (c *session) forgetWith(extra *mcp.RequestExtra, k *carrier) {
	owner := weak.Make(c) // what a cleanup holds lives as long as extra, which the session can reach
	runtime.AddCleanup(extra, func(key weak.Pointer[mcp.RequestExtra]) {
		if c := owner.Value(); c != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.carriers, key)
		}
	}, k.key)
}

// handlerContext makes a handler's context of the SDK's, whose end stays the SDK's; only the end of the call, or of a notification's session,
// comes sooner, with its cause.
func (k *carrier) handlerContext(sdk context.Context) context.Context {
	both := &values{sdk, k.ctx}
	ctx, cancel := context.WithCancelCause(both)
	k.cancel.Store(&cancel)
	k.propagate() // it may have ended before there was anything to cancel
	cause := k.cause()
	if ctx.Err() == nil || cause == nil {
		return ctx
	}
	ended, end := context.WithCancelCause(context.WithoutCancel(both)) // for the cause: the SDK may have been first
	end(cause)
	return ended
}

// cause is why the call, or its session, has ended; nil: neither has.
func (k *carrier) cause() error {
	if k.ctx.Err() != nil {
		return context.Cause(k.ctx)
	}
	if over := k.over.Load(); over != nil {
		return *over
	}
	return nil
}

// propagate ends the handler's context, if there is one and the call or its session has ended.
func (k *carrier) propagate() {
	cancel, cause := k.cancel.Load(), k.cause()
	if cancel != nil && cause != nil {
		(*cancel)(cause)
	}
}

// middleware gives a handler the context of its call and catches its panics, which would end the process.
func middleware(next mcp.MethodHandler) mcp.MethodHandler {
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
		if k := carrierOf(ctx, req.GetExtra()); k != nil {
			ctx, log, call = k.handlerContext(ctx), k.s.Logger, k.call
		}
		result, err = next(ctx, method, req)
		returned = true
		if err == nil && isNil(result) && !strings.HasPrefix(method, "notifications/") {
			log().Error("rejoin: a handler returned neither a result nor an error", "method", method)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
		}
		return result, readable(err)
	}
}

// isNil reports whether there is no result. The SDK looks into one that is a nil pointer, where nothing catches its panic, and tells older
// clients that the result is null.
func isNil(result mcp.Result) bool {
	v := reflect.ValueOf(result)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
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
