package gosdk

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/safe"
	"github.com/rejoin-mcp/rejoin/internal/stack"
)

// incoming is a call or notification that the SDK is handling, or a subscription that is being restored. Of what the bridge gives the SDK, only the
// RequestExtra reaches the middleware, so its identity is the key in session.incoming. Only the session may refer to an incoming. The SDK
// keeps a few things of a session that has ended, such as the last request of its queue; if these led to an incoming, they would keep the whole
// session in memory.
type incoming struct {
	ctx     context.Context // of the call or notification
	session *rejoin.Session
	key     weak.Pointer[mcp.RequestExtra]
	call    *rejoin.Call                            // nil: no call of the client
	stop    func() bool                             // stops the AfterFunc of ctx
	cancel  atomic.Pointer[context.CancelCauseFunc] // of the handler's context
	ended   atomic.Pointer[error]                   // why the session has ended: ctx may end a moment later
}

// sessionKey is the key of the session in the context of Server.Connect, from which the SDK derives the contexts of handlers.
type sessionKey struct{}

// newIncoming returns an incoming and its RequestExtra. The caller puts it into s.incoming.
func (s *session) newIncoming(ctx context.Context, header http.Header) (*mcp.RequestExtra, *incoming) {
	extra := &mcp.RequestExtra{Header: header, TokenInfo: auth.TokenInfoFromContext(ctx)}
	return extra, &incoming{ctx: ctx, session: s.session, key: weak.Make(extra)}
}

// incomingOf finds the message that a handler was called for; nil if it did not come through this bridge.
func incomingOf(ctx context.Context, extra *mcp.RequestExtra) *incoming {
	s, ok := ctx.Value(sessionKey{}).(*session)
	if !ok || extra == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.incoming[weak.Make(extra)]
}

// deleteWith deletes in, a notification, when extra is garbage: a notification has no response, and the SDK may drop it without calling the
// middleware.
func (s *session) deleteWith(extra *mcp.RequestExtra, in *incoming) {
	weakSession := weak.Make(s) // s refers to extra, so a cleanup that referred to s would keep extra alive
	runtime.AddCleanup(extra, func(key weak.Pointer[mcp.RequestExtra]) {
		if s := weakSession.Value(); s != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.incoming, key)
		}
	}, in.key)
}

// handlerContext derives a handler's context from the SDK's. It has the values of both, and ends when the SDK's ends, or with a cause of rejoin
// when the call or the session has ended.
func (in *incoming) handlerContext(sdk context.Context) context.Context {
	both := &mergedContext{sdk, in.ctx}
	ctx, cancel := context.WithCancelCause(both)
	in.cancel.Store(&cancel)
	in.cancelHandler() // the call may have ended before in.cancel was set
	cause := in.cause()
	if ctx.Err() == nil || cause == nil {
		return ctx
	}
	// The SDK may have been first, and then ctx has its cause.
	ended, end := context.WithCancelCause(context.WithoutCancel(both))
	end(cause)
	return ended
}

// cause returns why the call or its session has ended; nil if neither has.
func (in *incoming) cause() error {
	if in.ctx.Err() != nil {
		return context.Cause(in.ctx)
	}
	if cause := in.ended.Load(); cause != nil {
		return *cause
	}
	return nil
}

// cancelHandler ends the handler's context, if there is one and the call or its session has ended.
func (in *incoming) cancelHandler() {
	cancel, cause := in.cancel.Load(), in.cause()
	if cancel != nil && cause != nil {
		(*cancel)(cause)
	}
}

// middleware gives a handler the context of its call. It answers the call if the handler panics or ends its goroutine: the SDK recovers neither.
func middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		stack.To16K(false) // the SDK starts a goroutine for each call; the check of a tool's arguments needs that much

		log := slog.Default
		var call *rejoin.Call
		if in := incomingOf(ctx, req.GetExtra()); in != nil {
			ctx, log, call = in.handlerContext(ctx), in.session.Logger, in.call
		} else if request, ok := ctx.Value(modernKey{}).(context.Context); ok {
			var stop func()
			ctx, stop = modernContext(ctx, request)
			defer stop()
			closeByTask(ctx, req.GetExtra())
		}
		returned := safe.Run(func() { result, err = next(ctx, method, req) }, func(what any, stack string) {
			if what == safe.ErrGoexit { //nolint:errorlint // safe.Run does not wrap it
				log().Error("rejoin: a handler did not return", "method", method)
				if call != nil { // the SDK cannot answer: its goroutine ends here
					_ = call.Fail(rejoin.Errorf(rejoin.CodeInternal, "internal error")) // the call may have ended
				}
				return
			}
			log().Error("rejoin: panic in a handler", "method", method, "panic", what, "stack", stack)
			err = internalError()
		})
		switch {
		case !returned:
			return nil, err
		case err == nil && isNil(result) && !strings.HasPrefix(method, "notifications/"):
			log().Error("rejoin: a handler returned neither a result nor an error", "method", method)
			return nil, internalError()
		}
		return result, decodable(err)
	}
}

// modernKey is the key of a modern request's context in itself.
type modernKey struct{}

// modernContext derives a handler's context from the SDK's. It ends when the SDK's ends, but with the cause of the request's. The SDK's has that
// cause or another, by chance: when the request ends, the SDK also stops to read, which ends its contexts too.
func modernContext(sdk, request context.Context) (_ context.Context, stop func()) {
	ctx, timeUp := context.WithoutCancel(sdk), func() {}
	if d, ok := sdk.Deadline(); ok {
		ctx, timeUp = context.WithDeadline(ctx, d)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unwatch := context.AfterFunc(sdk, func() {
		switch {
		case request.Err() == nil:
			cancel(context.Cause(sdk))
		case !errors.Is(request.Err(), context.DeadlineExceeded): // otherwise ctx ends by itself
			cancel(context.Cause(request))
		}
	})
	return ctx, func() {
		unwatch()
		cancel(nil)
		timeUp()
	}
}

// closeByTask lets a tool of a modern call make its call a task by the SDK's own function. That function does nothing if the client takes no tasks.
func closeByTask(ctx context.Context, extra *mcp.RequestExtra) {
	if h := rejoin.HandleFromContext(ctx); extra != nil && h.Resumable() {
		extra.CloseSSEStream = func(mcp.CloseSSEStreamArgs) {
			_ = h.CloseStream(0) // the SDK's function returns no error, and a tool need not know
		}
	}
}

func internalError() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}

// isNil reports whether there is no result. The SDK dereferences a result that is a nil pointer, in a place where nothing recovers the panic,
// and sends older clients the result null.
func isNil(result mcp.Result) bool {
	v := reflect.ValueOf(result)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// mergedContext adds the values of a call to the SDK's context. The SDK's own values come first: package context finds the parent's
// cancellation through one of them.
type mergedContext struct {
	context.Context
	values context.Context
}

func (c *mergedContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
