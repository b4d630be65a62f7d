package rejoin

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Notification is one notification of the client as the app sees it. The bytes it returns are the app's to keep and nobody's to
// change.
type Notification struct {
	ctx    notificationContext
	msg    jsonrpc.Message
	header http.Header
}

// notificationContext is what a notification is delivered with: the values of the request that brought it, and nothing of its end.
type notificationContext struct {
	context.Context
	srv *Server
}

func (c *notificationContext) Value(key any) any {
	if _, ok := key.(serverKey); ok {
		return c.srv
	}
	return c.Context.Value(key)
}

func newNotification(srv *Server, r *http.Request, m *jsonrpc.Message) *Notification {
	return &Notification{ctx: notificationContext{context.WithoutCancel(r.Context()), srv}, msg: *m, header: r.Header}
}

// Context carries the values of the HTTP request that brought the notification. It never ends.
func (n *Notification) Context() context.Context { return &n.ctx }

// Method is the notification's method.
func (n *Notification) Method() string { return string(n.msg.Method) }

// Params are its params, nil if it has none.
func (n *Notification) Params() json.RawMessage { return n.msg.Params }

// Header is the header of the HTTP request. Do not change it.
func (n *Notification) Header() http.Header { return n.header }

// Raw is the whole message.
func (n *Notification) Raw() json.RawMessage { return n.msg.Raw }
