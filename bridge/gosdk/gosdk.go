// Package gosdk puts servers written with the official Go SDK (github.com/modelcontextprotocol/go-sdk) behind rejoin. Tools,
// prompts and resources stay as they are; what they send from a handler's context travels on the stream of their own call.
//
//	srv, err := rejoin.NewServer(gosdk.New(mcpServer), rejoin.Config{})
//
// A handler's context has the values of the HTTP request that carries its call, so rejoin.HandleFromContext works in it, and ends
// with rejoin's cause. RequestExtra.CloseSSEStream is set where the client can poll.
package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// New bridges s, to which it adds one receiving middleware: call it after your own AddReceivingMiddleware, for what a middleware
// added later sends by itself travels on the standalone stream. Calling it twice is harmless.
func New(s *mcp.Server) rejoin.App {
	a := newApp(func(*http.Request) *mcp.Server { return s })
	a.adopt(s)
	return a
}

// NewFunc chooses a server for each session, as mcp.NewStreamableHTTPHandler does. Nil refuses with 400.
func NewFunc(f func(*http.Request) *mcp.Server) rejoin.App { return newApp(f) }

// Principal is a rejoin.Config.Principal that takes the user from the SDK's auth.RequireBearerToken.
func Principal(r *http.Request) string {
	if t := auth.TokenInfoFromContext(r.Context()); t != nil {
		return t.UserID
	}
	return ""
}

type app struct {
	choose   func(*http.Request) *mcp.Server
	modern   http.Handler
	adopted  sync.Map // weak.Pointer[mcp.Server]: it has the middleware
	carriers sync.Map // weak.Pointer[mcp.RequestExtra] to *carrier
}

func newApp(choose func(*http.Request) *mcp.Server) *app {
	a := &app{choose: choose}
	a.modern = mcp.NewStreamableHTTPHandler(a.server, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, MaxRequestBodyBytes: -1, // rejoin has checked both
	})
	return a
}

// server chooses the server of a request.
func (a *app) server(r *http.Request) *mcp.Server {
	s := a.choose(r)
	if s != nil {
		a.adopt(s)
	}
	return s
}

// adopt adds the middleware to a server that has not got it.
func (a *app) adopt(s *mcp.Server) {
	key := weak.Make(s)
	if _, has := a.adopted.LoadOrStore(key, nil); has {
		return
	}
	runtime.AddCleanup(s, func(key weak.Pointer[mcp.Server]) { a.adopted.Delete(key) }, key)
	s.AddReceivingMiddleware(a.receive)
}

func (a *app) Modern() http.Handler { return a.modern }

func (a *app) Open(r *http.Request, s *rejoin.Session, saved []byte) (rejoin.AppSession, error) {
	server := a.server(r)
	if server == nil {
		return nil, rejoin.Errorf(rejoin.CodeInvalidRequest, "there is no server for this request")
	}
	c := &session{app: a, s: s, calls: map[string]*carrier{}, asked: map[jsonrpc.ID]*question{}}
	c.ready.L = &c.mu
	opts, err := c.restore(r, saved)
	if err != nil {
		return nil, err
	}
	// Not with r's context: handlers' contexts would have its values, whichever request carries their call.
	ss, err := server.Connect(context.Background(), c, opts)
	c.mu.Lock()
	c.ss = ss
	c.mu.Unlock()
	return c, err
}

// carrier is a message of the client on its way through the SDK, which hands its RequestExtra through to the middleware and
// nothing else of it. Nothing in here may point to that RequestExtra: carriers would never be collected.
type carrier struct {
	ctx    context.Context // rejoin's
	s      *rejoin.Session
	key    weak.Pointer[mcp.RequestExtra]
	call   *rejoin.Call // nil: a notification
	stop   func() bool  // of the watch on ctx
	cancel atomic.Pointer[context.CancelCauseFunc]
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

// newCarrier makes what the middleware finds again by the identity of the RequestExtra.
func (c *session) newCarrier(ctx context.Context, header http.Header) (*mcp.RequestExtra, *carrier) {
	extra := &mcp.RequestExtra{Header: header, TokenInfo: auth.TokenInfoFromContext(ctx)}
	k := &carrier{ctx: ctx, s: c.s, key: weak.Make(extra)}
	c.app.carriers.Store(k.key, k)
	return extra, k
}

// receive is the middleware: it gives a handler the context of its call and catches its panics, which would end the process.
func (a *app) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		log := slog.Default
		defer func() {
			if v := recover(); v != nil {
				log().Error("rejoin: panic in a handler", "method", method, "panic", v, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		if extra := req.GetExtra(); extra != nil {
			if v, ok := a.carriers.Load(weak.Make(extra)); ok {
				k := v.(*carrier) //nolint:forcetypeassert // the map holds nothing else
				ctx, log = k.handlerContext(ctx), k.s.Logger
			}
		}
		return next(ctx, method, req)
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

// session is rejoin's AppSession and, to the SDK, the mcp.Connection of one session.
type session struct {
	app *app
	s   *rejoin.Session

	mu     sync.Mutex
	ss     *mcp.ServerSession
	queue  []jsonrpc.Message // for Read
	ready  sync.Cond         // there is something for Read
	over   bool
	lastID uint64
	calls  map[string]*carrier // by the id that the SDK knows the request by
	asked  map[jsonrpc.ID]*question

	saving sync.Mutex
	state  state
}

// question is a request to the client that is not answered yet.
type question struct{ withdraw func(reason string) }

// Request gives the call an id of our own: the SDK decodes ids through float64.
func (c *session) Request(call *rejoin.Call) {
	extra, k := c.newCarrier(call.Context(), call.Header())
	if h := call.Handle(); h.Resumable() {
		extra.CloseSSEStream = func(args mcp.CloseSSEStreamArgs) {
			_ = h.CloseStream(args.RetryAfter) // the tool cannot be told, and need not know
		}
	}
	params := call.Params()
	if call.Method() == "initialize" {
		params = clamp(params)
	}
	k.call = call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over { // rejoin has answered for it
		c.app.carriers.Delete(k.key)
		return
	}
	c.lastID++
	name := strconv.FormatUint(c.lastID, 10)
	c.calls[name] = k
	c.push(&jsonrpc.Request{ID: makeID(name), Method: call.Method(), Params: params, Extra: extra})
	k.stop = context.AfterFunc(k.ctx, func() {
		k.propagate()
		c.cancelled(name, context.Cause(k.ctx))
	})
}

func (c *session) Notification(n *rejoin.Notification) {
	extra, k := c.newCarrier(n.Context(), n.Header())
	// There is no response at which it could be forgotten, and the SDK may drop it unseen.
	runtime.AddCleanup(extra, func(key weak.Pointer[mcp.RequestExtra]) { c.app.carriers.Delete(key) }, k.key)
	if n.Method() == "notifications/initialized" {
		c.save(func(st *state) { st.Initialized = true })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.push(&jsonrpc.Request{Method: n.Method(), Params: n.Params(), Extra: extra})
}

// cancelled tells the SDK, in whose queue the request may still be, and whose middleware may be outside of ours.
func (c *session) cancelled(name string, cause error) {
	params, _ := json.Marshal(map[string]string{"requestId": name, "reason": cause.Error()}) //nolint:errchkjson // strings cannot fail
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[name] != nil {
		c.push(&jsonrpc.Request{Method: "notifications/cancelled", Params: params})
	}
}

// Ended ends the reading, at which the SDK cancels all handlers, and then has the SDK close, which waits for them.
func (c *session) Ended(error) {
	c.end()
	c.mu.Lock()
	ss := c.ss
	c.mu.Unlock()
	if ss != nil {
		go ss.Close()
	}
}

// end lets Read return io.EOF. It reports whether it was the first to.
func (c *session) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	for _, k := range c.calls {
		k.stop()
		k.propagate() // before the SDK does it, for the sake of the cause
		c.app.carriers.Delete(k.key)
	}
	c.over, c.queue, c.calls = true, nil, nil
	c.ready.Broadcast()
	return true
}

// push queues a message for Read. With the lock.
func (c *session) push(m jsonrpc.Message) {
	if !c.over {
		c.queue = append(c.queue, m)
		c.ready.Signal()
	}
}

func (c *session) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c *session) SessionID() string { return c.s.ID() }

// Read does not look at its context: it is that of Connect, which never ends.
func (c *session) Read(context.Context) (jsonrpc.Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.over && len(c.queue) == 0 {
		c.ready.Wait()
	}
	if c.over {
		return nil, io.EOF
	}
	m := c.queue[0]
	c.queue[0] = nil
	if c.queue = c.queue[1:]; len(c.queue) == 0 {
		c.queue = nil
	}
	return m, nil
}

// Close is called with the SDK's lock, so nothing may be done here that could come back to the SDK.
func (c *session) Close() error {
	if c.end() {
		go c.s.End(nil)
	}
	return nil
}

// errRejected marks errors of Write that are about one message. Any other would end the session.
var errRejected = &jsonrpc.Error{Code: -32005, Message: "rejected by transport"}

func (c *session) Write(ctx context.Context, message jsonrpc.Message) error {
	switch m := message.(type) {
	case *jsonrpc.Response:
		c.respond(m)
	case *jsonrpc.Request:
		switch {
		case m.IsCall():
			c.ask(ctx, m)
		case m.Method == "notifications/cancelled":
			c.withdraw(m.Params)
		default:
			if err := c.s.Notify(ctx, m.Method, m.Params); err != nil {
				return fmt.Errorf("%w: %w", errRejected, err)
			}
		}
	}
	return nil
}

// respond answers a call. That it may have ended meanwhile is rejoin's business.
func (c *session) respond(m *jsonrpc.Response) {
	name, _ := m.ID.Raw().(string)
	c.mu.Lock()
	k := c.calls[name]
	delete(c.calls, name)
	c.mu.Unlock()
	if k == nil {
		return
	}
	k.stop()
	c.app.carriers.Delete(k.key)
	if m.Error != nil {
		_ = k.call.Fail(toRejoin(m.Error))
		return
	}
	c.observe(k.call, m.Result)
	_ = k.call.Reply(m.Result)
}

// ask passes a request on to the client. The SDK's pings outside of calls are about the connection, which is rejoin's to watch:
// they are answered at once, since a client that is away is no reason to close its session.
func (c *session) ask(ctx context.Context, m *jsonrpc.Request) {
	answer := func(result json.RawMessage, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, m.ID)
		c.push(&jsonrpc.Response{ID: m.ID, Result: result, Error: toSDK(err)})
	}
	if m.Method == "ping" && rejoin.HandleFromContext(ctx).Session() != c.s {
		answer(json.RawMessage("{}"), nil)
		return
	}
	q := &question{}
	c.mu.Lock()
	c.asked[m.ID] = q // the answer may come before Ask has returned
	c.mu.Unlock()
	withdraw := c.s.Ask(ctx, m.Method, m.Params, answer)
	c.mu.Lock()
	q.withdraw = withdraw
	c.mu.Unlock()
}

// withdraw takes a request back that the SDK no longer waits for.
func (c *session) withdraw(params json.RawMessage) {
	var p mcp.CancelledParams
	if json.Unmarshal(params, &p) != nil {
		return
	}
	id := makeID(p.RequestID)
	c.mu.Lock()
	q := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	if q != nil && q.withdraw != nil {
		q.withdraw(p.Reason)
	}
}

func makeID(v any) jsonrpc.ID {
	id, _ := jsonrpc.MakeID(v) // the zero ID, which nothing has, for what is none
	return id
}

// newestLegacy is the newest version that has an initialize.
const newestLegacy = "2025-11-25"

// clamp asks for no newer version than initialize can open. The SDK would open the newest of those, but go on to refuse what the
// version that was asked for does not have.
func clamp(params json.RawMessage) json.RawMessage {
	var p map[string]json.RawMessage
	var version string
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p["protocolVersion"], &version) != nil || version <= newestLegacy {
		return params
	}
	p["protocolVersion"] = json.RawMessage(`"` + newestLegacy + `"`)
	clamped, err := json.Marshal(p)
	if err != nil {
		return params
	}
	return clamped
}

// toRejoin sees errors as the SDK's own transports do.
func toRejoin(err error) *rejoin.Error {
	e := &rejoin.Error{Message: err.Error()}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		e.Code, e.Data = int(wire.Code), wire.Data
	}
	return e
}

func toSDK(err error) error {
	var e *rejoin.Error
	if errors.As(err, &e) {
		return &jsonrpc.Error{Code: int64(e.Code), Message: e.Message, Data: e.Data}
	}
	return err
}
