package rejoin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// App is the MCP server behind the transport: a bridge to an SDK, or NewApp around a Handler.
type App interface {
	// Open starts the app's side of a session, before initialize is delivered to it, or, with what SaveState last wrote, brings
	// an existing session to this process (not yet: state is nil). s can be used at once. r is the HTTP request that caused it;
	// do not keep it. An *Error reaches the client with status 400; of any other error it sees only that there was one.
	Open(r *http.Request, s *Session, state []byte) (AppSession, error)
	// Modern serves requests of the modern era, which have no session; a disconnect cancels them, and the end of the server, with
	// ErrShutdown as the cause. What they write may come from any goroutine; it is an error once the handler has returned. Nil: modern
	// requests are refused.
	Modern() http.Handler
}

// AppSession is the app's side of one session. It is called from many goroutines, in no promised order: a Request may come after
// Ended, with its context cancelled. No method may wait for a tool or for the client, and an app must not hold a lock of its own
// that these methods take while it calls a method of Session or Call: those may call back.
type AppSession interface {
	// Request starts a request. The app calls Reply or Fail on c once, now or later, from any goroutine: also where the request has ended
	// meanwhile, when its handler has returned. Until then, or until nothing refers to c any more, it counts against Config.MaxConcurrent.
	Request(c *Call)
	// Notification delivers a notification, except notifications/cancelled, which cancels the context of its call.
	Notification(n *Notification)
	// Ended tells that the session is over. Every request's context is cancelled already. It is called once, also for a
	// session whose initialize failed.
	Ended(cause error)
}

// Notification is one notification of the client as the app sees it. The app may keep the bytes it returns, and must not change
// them.
type Notification struct {
	ctx    notificationContext
	msg    jsonrpc.Message
	header http.Header
}

// notificationContext is what a notification is delivered with: the values of the request that brought it, and the end of its session.
type notificationContext struct {
	values context.Context // of the HTTP request; its end is not the notification's
	s      *Session
}

func (c *notificationContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *notificationContext) Done() <-chan struct{} { return c.s.Done() }

func (c *notificationContext) Err() error { return c.s.lasting().Err() }

func (c *notificationContext) Value(key any) any {
	switch key.(type) {
	case serverKey:
		return c.s.srv
	case *int: // package context asks so for what can end, and must not find the request
		return c.s.lasting().Value(key)
	}
	return c.values.Value(key)
}

// newNotification makes one with bytes of its own: an app may keep it for long, and must not keep the whole body with it.
func newNotification(s *Session, r *http.Request, m *jsonrpc.Message) *Notification {
	own, _ := jsonrpc.Parse(bytes.Clone(m.Raw), maxJSONDepth) // it was parsed before
	return &Notification{ctx: notificationContext{r.Context(), s}, msg: own, header: r.Header}
}

// Context carries the values of the HTTP request that brought the notification. It ends with the session, whose end is its cause.
func (n *Notification) Context() context.Context { return &n.ctx }

// Method is the notification's method.
func (n *Notification) Method() string { return string(n.msg.Method) }

// Params are its params, nil if it has none.
func (n *Notification) Params() json.RawMessage { return n.msg.Params }

// Header is the header of the HTTP request. Do not change it.
func (n *Notification) Header() http.Header { return n.header }

// Raw is the whole message.
func (n *Notification) Raw() json.RawMessage { return n.msg.Raw }
