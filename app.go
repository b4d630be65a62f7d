package rejoin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// App is the MCP server behind the transport: NewToolApp of some tools, NewApp around a Handler, or a bridge to an SDK.
type App interface {
	// Open starts the app's side of a session. It is called before initialize is delivered to that side. s can be used at once.
	// r is the HTTP request that opens the session; do not keep it. The client gets an *Error as it is, with status 400. Any other
	// error is logged, and the client only learns that the server could not open a session (500).
	//
	// state is nil for a new session. In a cluster this process also opens sessions of processes that are lost. Then state is what
	// Session.SaveState wrote there, nil if it was not called, no initialize follows, and r is the first request of the session here, of any
	// method and without its body. An *Error ends the session (404). After any other error, or 5 s, another attempt may follow, in any process.
	Open(r *http.Request, s *Session, state []byte) (AppSession, error)
}

// ModernApp is an App that also serves requests of the modern era (Config.Eras). The apps of NewApp, NewToolApp and the bridges do. A type that
// embeds only the App interface of another app loses the method Modern.
type ModernApp interface {
	App
	// Modern returns the handler of modern requests; nil: they are refused. NewServer calls it once.
	//
	// A modern request has no session. Its context ends when its client disconnects, and when the server ends, then with ErrShutdown
	// as the cause. If a tools/call becomes a task (Config.Tasks), the handler goes on without the client: what it writes belongs to the
	// task, and its context ends with the task. If it answers with questions then (input_required), it is called again with the answers.
	// Any goroutine may write the response until the handler returns. Later writes return an error.
	//
	// An app whose server/discover announces the tasks extension is left alone: its calls do not become tasks, and it gets the methods
	// tasks/… itself. As long as that is not known, the server sends it a server/discover of its own.
	Modern() http.Handler
}

// modernHandler returns the handler of modern requests, or nil.
func modernHandler(app App) http.Handler {
	if m, ok := app.(ModernApp); ok {
		return m.Modern()
	}
	return nil
}

// AppSession is the app's side of one session. Its methods are called from many goroutines, in no promised order: a Request may come
// after Ended, with its context cancelled. They must not wait for a tool or for the client. Methods of Session and Call may call them
// back: while the app calls one of those, it must not hold a lock that these methods take.
type AppSession interface {
	// Request starts a request. The app calls Reply or Fail on c once, now or later, from any goroutine. It must do so even if the
	// request has ended meanwhile, as soon as the handler has returned. Until then, or until nothing refers to c any more, the request
	// counts against Config.MaxConcurrent.
	Request(c *Call)
	// Notification delivers a notification of the client. notifications/cancelled is not delivered: it cancels the context of its call.
	Notification(n *Notification)
	// Ended says that the session has ended, and why. The contexts of all its requests were cancelled before. It is called once, also
	// for a session whose initialize failed.
	Ended(cause error)
}

// Notification is one notification of the client. The app may keep the bytes it returns, but must not change them.
type Notification struct {
	ctx    notificationContext
	msg    jsonrpc.Message
	header http.Header
}

// notificationContext is the context of a notification. It has the values of the HTTP request that brought it, and ends with its session.
type notificationContext struct {
	values context.Context // of the HTTP request; its end is ignored
	s      *Session
}

func (c *notificationContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *notificationContext) Done() <-chan struct{} { return c.s.context().Done() }

func (c *notificationContext) Err() error { return c.s.context().Err() }

func (c *notificationContext) Value(key any) any {
	if _, server := key.(serverKey); server {
		return c.s.srv
	}
	if _, cancelKey := key.(*int); cancelKey { // see lazy.Context.Value
		return c.s.context().Value(key)
	}
	return c.values.Value(key)
}

// newNotification copies the bytes of m, because an app may keep a notification for long, and must not keep the whole body with it. It does not
// copy them if they are at least half of the body's memory. body is where m was read from; nil: unknown.
func newNotification(s *Session, r *http.Request, m *jsonrpc.Message, body []byte) *Notification {
	msg := *m
	if cap(body) == 0 || cap(body) > 2*len(m.Raw) {
		msg, _ = jsonrpc.Parse(bytes.Clone(m.Raw), maxJSONDepth) // m was parsed before, so this cannot fail
	}
	return &Notification{ctx: notificationContext{r.Context(), s}, msg: msg, header: r.Header}
}

// Context carries the values of the HTTP request that brought the notification. It ends when the session ends, with the same cause.
func (n *Notification) Context() context.Context { return &n.ctx }

// Method returns the notification's method.
func (n *Notification) Method() string { return string(n.msg.Method) }

// Params returns the params, or nil if there are none.
func (n *Notification) Params() json.RawMessage { return n.msg.Params }

// Header returns the header of the HTTP request. Do not change it.
func (n *Notification) Header() http.Header { return n.header }

// Raw returns the whole message.
func (n *Notification) Raw() json.RawMessage { return n.msg.Raw }
