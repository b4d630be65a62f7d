// Package mcpgo puts servers written with mcp-go (github.com/mark3labs/mcp-go) behind rejoin. Tools, prompts, resources, hooks and
// middleware stay as they are; what they send with a handler's context travels on the stream of their own call.
//
//	srv, err := rejoin.NewServer(mcpgo.New(mcpServer), rejoin.Config{})
//
// # A handler's context
//
// It has the values of the HTTP request that carries its call, so rejoin.HandleFromContext works in it at any depth, and ends with
// rejoin's cause. request.Header is a copy of the header of that HTTP request. A notification handler's context ends with the session.
//
// SendNotificationToClient, SendLogMessageToClient, RequestElicitation, RequestSampling and RequestRoots use the call's stream, in the
// order in which they were called, also while the client is away. After the call's end they use the session's own stream, as do
// SendNotificationToSpecificClient, SendNotificationToAllClients and list_changed always. HandleFromContext lets what was sent before
// go ahead, so what is sent through the handle then, and a CloseStream, come after it.
//
// # Sessions
//
// A session is registered when initialize has succeeded, before the client sees the answer, and unregistered at its end, whatever ends
// it; hooks for that run on the transport's goroutine and must not block. ClientSessionFromContext is another value in each call, with the id and
// the state of the session that hooks are given; compare ids. The channel of NotificationChannel has room for 32 messages and is read until
// the call ends.
//
// Sessions track resources/subscribe: ask a session of a hook, or one from a handler's context, through
// server.SessionWithResourceSubscriptions.
//
// # Limits
//
// Handlers of notifications run one by one, in the order in which the client sent them. While one is busy, 1,024 notifications of its session
// wait, or 4 MiB of them; what comes then is dropped, which is logged once a session. A session can be subscribed to 1,000 resources, each with a
// URI of at most 8 KiB: beyond that clients get errors. Of an initialize that is
// larger than 8 KiB or has more than about 256 values, mcp-go gets the version, name, title and version of the client, and what rejoin keeps of
// its capabilities.
//
// # Eras
//
// With rejoin.Both or rejoin.Modern, requests of 2026-07-28 are served by mcp-go's own transport inside rejoin's checks and limits, but for
// the notifications of a call, which rejoin writes itself: all of them arrive before the result. A client cancels there by closing its
// connection. Handlers that ask through server.InputRequestBuilder work in both eras. A modern request has no session; that of its context
// lasts as long as the request and is known to nobody else.
//
// # Not from here
//
// mcp-go has returned before a notification reaches the event store: if that has no room for it, a warning is logged, and the sender does
// not learn of it. Handle.Notify of rejoin returns rejoin.ErrFull.
//
// Options of server.NewStreamableHTTPServer have no effect: rejoin.Config and middleware of the router take their place. A tool that runs as a
// task gets a context that ends as soon as the task is created, as with mcp-go's own transport; rejoin cannot change that.
//
// # Other versions of mcp-go
//
// Written for v1.2.1. Three things are used that mcp-go does not promise; New tries whether they hold. If not, a warning is logged once, and
// request.Header is empty, or notifications that come faster than the event store takes them can be refused
// (server.ErrNotificationChannelBlocked), or what a modern call sends right before it returns can be lost.
package mcpgo

import (
	"context"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
)

// New bridges s.
func New(s *server.MCPServer) rejoin.App {
	sdk := probed()
	return &app{server: s, modern: modern(s, sdk.swaps), sdk: sdk}
}

type app struct {
	server *server.MCPServer
	modern http.Handler
	sdk    traits
	warned sync.Once
}

func (a *app) Modern() http.Handler { return a.modern }

func (a *app) Open(r *http.Request, s *rejoin.Session, saved []byte) (rejoin.AppSession, error) {
	a.warned.Do(func() { a.sdk.warn(s.Logger()) })
	n := newSession(a, s)
	if saved == nil {
		return n, nil
	}
	if err := n.memory.restore(saved); err != nil {
		return nil, err
	}
	return n, n.register(context.WithoutCancel(r.Context()))
}

// context makes a handler's context of rejoin's. What is sent with it goes through l.
func (a *app) context(ctx context.Context, header http.Header, l *line) context.Context {
	return a.server.WithContext(&handlerContext{Context: ctx, line: l, headerKey: a.sdk.headerKey, header: header}, l)
}

// handlerContext lets the messages go ahead that mcp-go has handed over, before somebody uses the handle that he asks for: they
// were sent first.
type handlerContext struct {
	context.Context
	line      *line
	headerKey any // nil: unknown
	header    http.Header
	copied    sync.Once // header is the handler's own, to change as it likes: it is copied where somebody asks for it
}

func (c *handlerContext) Value(key any) any {
	if key == c.headerKey && key != nil {
		c.copied.Do(func() { c.header = c.header.Clone() })
		return c.header
	}
	v := c.Context.Value(key)
	if _, ok := v.(*rejoin.Handle); ok {
		c.line.flush()
	}
	return v
}
