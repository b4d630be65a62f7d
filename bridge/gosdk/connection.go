package gosdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

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
	if len(c.queue) == 0 {
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
		ctx, belongs := c.origin(ctx)
		switch {
		case m.IsCall():
			c.ask(ctx, m, belongs)
		case m.Method == "notifications/cancelled":
			c.withdraw(m.Params)
		case belongs && m.Method == "notifications/progress" && rejoin.HandleFromContext(ctx).Session() == nil:
			// Of a call that has ended. Where there is a handle, rejoin knows by itself.
		default:
			if err := c.s.Notify(ctx, m.Method, &m.Params); err != nil {
				return fmt.Errorf("%w: %w", errRejected, err)
			}
		}
	}
	return nil
}

// origin finds the call that something is sent for, and reports whether there is or was one in this session. A handler's context says
// so itself; a middleware's that is outside of ours knows only the id of the SDK's request.
func (c *session) origin(ctx context.Context) (context.Context, bool) {
	if s := rejoin.HandleFromContext(ctx).Session(); s != nil || c.app.idKey == nil {
		return ctx, s == c.s
	}
	id, _ := ctx.Value(c.app.idKey).(jsonrpc.ID)
	name, _ := id.Raw().(string)
	if n, ok := strings.CutPrefix(name, string(c.s.Ref())+"."); !ok || strings.Contains(n, ".") {
		return ctx, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.calls[name]; k != nil {
		ctx = k.ctx
	}
	return ctx, true
}

// respond answers a call. That it may have ended meanwhile is rejoin's business.
func (c *session) respond(m *jsonrpc.Response) {
	name, _ := m.ID.Raw().(string)
	c.mu.Lock()
	k := c.calls[name]
	if request := c.sent[name]; request != nil {
		empty(request)
		delete(c.sent, name)
	}
	switch {
	case name == fenceID:
		c.notes.handled()
		c.fence()
	case k != nil:
		delete(c.calls, name)
		delete(c.carriers, k.key)
	}
	c.mu.Unlock()
	if k == nil {
		return
	}
	k.stop()
	c.memory.finish(k.call, m)
	if m.Error != nil {
		_ = k.call.Fail(toRejoin(m.Error))
		return
	}
	_ = k.call.Reply(m.Result)
}

func makeID(v any) jsonrpc.ID {
	id, _ := jsonrpc.MakeID(v) // the zero ID, which nothing has, for what is none
	return id
}

// toRejoin sees errors as the SDK's own transports do.
func toRejoin(err error) *rejoin.Error {
	e := &rejoin.Error{Message: err.Error()}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		e.Code, e.Data = int(wire.Code), wire.Data
	}
	return e
}

func toSDK(err error) error {
	if e, ok := errors.AsType[*rejoin.Error](err); ok {
		return &jsonrpc.Error{Code: int64(e.Code), Message: e.Message, Data: e.Data}
	}
	return err
}
