package mcpgo

import (
	"context"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
)

// New returns an app that serves s.
func New(s *server.MCPServer) rejoin.ModernApp {
	f := detectFeatures()
	return &app{server: s, modern: newModern(s, f.replacesSession), features: f}
}

type app struct {
	server   *server.MCPServer
	modern   http.Handler
	features features
	warnOnce sync.Once
}

func (a *app) Modern() http.Handler { return a.modern }

func (a *app) Open(r *http.Request, rs *rejoin.Session, saved []byte) (rejoin.AppSession, error) {
	a.warnOnce.Do(func() { a.features.warn(rs.Logger()) })
	s := newSession(a, rs)
	if saved == nil {
		return s, nil
	}
	if err := s.state.restore(saved); err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened { // a hook may panic after mcp-go has registered the session
			s.Ended(rejoin.ErrMoved) // another process may succeed
		}
	}()
	if err := s.register(context.WithoutCancel(r.Context())); err != nil {
		return nil, err
	}
	opened = true
	return s, nil
}

// context returns the context of a handler. ctx is that of its call or notification. Messages sent with the context go through c.
func (a *app) context(ctx context.Context, header http.Header, c *clientSession) context.Context {
	return a.server.WithContext(&handlerContext{Context: ctx, client: c, headerKey: a.features.headerKey, header: header}, c)
}

// handlerContext forwards the notifications that were sent through mcp-go before it returns the call's handle: so what is sent through the handle
// comes after them.
type handlerContext struct {
	context.Context
	client     *clientSession
	headerKey  any // nil: unknown
	header     http.Header
	copyHeader sync.Once // a handler may change its header, so header is copied when it is first looked up
}

func (c *handlerContext) Value(key any) any {
	if key == c.headerKey && key != nil {
		c.copyHeader.Do(func() { c.header = c.header.Clone() })
		return c.header
	}
	v := c.Context.Value(key)
	if _, ok := v.(*rejoin.Handle); ok {
		c.client.flush()
	}
	return v
}
