package gosdk

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
)

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
	sent   map[string]*jsonrpc.Request // what the SDK has not answered, by the same id
	calls  map[string]*carrier         // by the id that the SDK knows the request by; nil: the session is over
	notes  backlog
	asked  map[jsonrpc.ID]*question

	carriers map[weak.Pointer[mcp.RequestExtra]]*carrier // of calls until they are answered, of notifications until they are handled

	memory *memory
}

// Request gives the call an id of our own: the SDK decodes ids through float64.
func (c *session) Request(call *rejoin.Call) {
	params, refused := c.memory.begin(call)
	if refused != nil {
		_ = call.Fail(refused)
		return
	}
	extra, k := c.newCarrier(call.Context(), call.Header())
	if h := call.Handle(); h.Resumable() {
		extra.CloseSSEStream = func(args mcp.CloseSSEStreamArgs) {
			_ = h.CloseStream(args.RetryAfter) // the tool cannot be told, and need not know
		}
	}
	k.call = call
	c.start(k, &jsonrpc.Request{Method: call.Method(), Params: params, Extra: extra})
}

// start hands a call to the SDK, unless the session is over.
func (c *session) start(k *carrier, m *jsonrpc.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over { // rejoin has answered for it
		return
	}
	name := c.newID()
	c.calls[name], c.carriers[k.key] = k, k
	m.ID = makeID(name)
	if c.sent == nil {
		c.sent = map[string]*jsonrpc.Request{}
	}
	c.sent[name] = m
	c.push(m)
	k.stop = context.AfterFunc(k.ctx, func() {
		k.propagate()
		c.cancelled(name, context.Cause(k.ctx))
	})
}

// newID makes an id that no other session has: contexts of other sessions come by here. With the lock, or before there is a need.
func (c *session) newID() string {
	c.lastID++
	return string(c.s.Ref()) + "." + strconv.FormatUint(c.lastID, 10)
}

func (c *session) Notification(n *rejoin.Notification) {
	params := n.Params()
	if n.Method() == "notifications/initialized" {
		c.memory.initialized()
		params = nil // the SDK would keep them, and they say nothing
	}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	ok, first := c.notes.admit(bounds.NoteSize(n.Raw(), n.Header()))
	if ok {
		extra, k := c.newCarrier(n.Context(), n.Header())
		c.carriers[k.key] = k
		c.forgetWith(extra, k)
		m := &jsonrpc.Request{Method: n.Method(), Params: params, Extra: extra}
		if len(n.Raw()) > largeNote {
			c.notes.open.large = append(c.notes.open.large, m)
		}
		c.push(m)
		c.fence()
	}
	c.mu.Unlock()
	if first {
		c.s.Logger().Warn("rejoin: notifications of the client are dropped: too many wait for their handlers", "method", n.Method())
	}
}

// cancelled tells the SDK, in whose queue the request may still be, and whose middleware may be outside of ours.
func (c *session) cancelled(name string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[name] != nil {
		c.push(cancellation(name, cause))
	}
}

func cancellation(name string, cause error) *jsonrpc.Request {
	params, _ := json.Marshal(map[string]string{"requestId": name, "reason": cause.Error()}) //nolint:errchkjson // strings cannot fail
	return &jsonrpc.Request{Method: "notifications/cancelled", Params: params}
}

// Ended ends the reading and has the SDK close, which waits for all handlers. Their contexts have ended by then; those of handlers that begin
// later end when they are made.
func (c *session) Ended(cause error) {
	c.mu.Lock()
	ss := c.ss
	carriers := slices.Collect(maps.Values(c.carriers))
	c.mu.Unlock()
	for _, k := range carriers {
		k.over.Store(&cause)
		k.propagate() // before the SDK does it, for the sake of the cause
	}
	c.end()
	if ss != nil {
		go c.close(ss)
	}
}

// close waits for the SDK's end, and lets go what it has not answered. Programs may keep their ServerSession.
func (c *session) close(ss *mcp.ServerSession) {
	_ = ss.Close() // how it ended is for those who wait for it
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.carriers)
	c.sent = nil
}

// end lets Read return io.EOF, after a cancellation of each call: not every version of the SDK ends its contexts at io.EOF. It reports whether
// it was the first to.
func (c *session) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.queue = nil
	for name := range c.calls {
		c.push(cancellation(name, rejoin.ErrSessionEnded))
	}
	c.over, c.calls = true, nil
	c.ready.Broadcast()
	return true
}
