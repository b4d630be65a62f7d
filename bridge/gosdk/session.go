package gosdk

import (
	"context"
	"encoding/json"
	"runtime"
	"strconv"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
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
	calls  map[string]*carrier // by the id that the SDK knows the request by
	stale  int                 // of calls: those that have ended
	notes  backlog
	asked  map[jsonrpc.ID]*question

	saving sync.Mutex
	state  state
}

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
	if !c.start(k, &jsonrpc.Request{Method: call.Method(), Params: params, Extra: extra}) {
		c.app.carriers.Delete(k.key)
		_ = call.Fail(rejoin.Errorf(rejoin.CodeInternal, "too many cancelled requests are still running"))
	}
}

// start hands a call to the SDK. It reports whether the call is begun, or over.
func (c *session) start(k *carrier, m *jsonrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over: // rejoin has answered for it
		c.app.carriers.Delete(k.key)
		return true
	case c.stale >= maxStale:
		return false
	}
	name := c.newID()
	c.calls[name] = k
	m.ID = makeID(name)
	c.push(m)
	k.stop = context.AfterFunc(k.ctx, func() {
		k.propagate()
		c.cancelled(name, context.Cause(k.ctx))
	})
	return true
}

// newID makes an id that no other session has: contexts of other sessions come by here. With the lock, or before there is a need.
func (c *session) newID() string {
	c.lastID++
	return string(c.s.Ref()) + "." + strconv.FormatUint(c.lastID, 10)
}

func (c *session) Notification(n *rejoin.Notification) {
	if n.Method() == "notifications/initialized" {
		c.save(func(st *state) { st.Initialized = true })
	}
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	ok, first := c.notes.admit(len(n.Params()))
	if ok {
		extra, k := c.newCarrier(n.Context(), n.Header())
		// There is no response at which it could be forgotten, and the SDK may drop it unseen.
		runtime.AddCleanup(extra, func(key weak.Pointer[mcp.RequestExtra]) { c.app.carriers.Delete(key) }, k.key)
		c.push(&jsonrpc.Request{Method: n.Method(), Params: n.Params(), Extra: extra})
		c.fence()
	}
	c.mu.Unlock()
	if first {
		c.s.Logger().Warn("rejoin: notifications of the client are dropped: too many wait for their handlers", "method", n.Method())
	}
}

// cancelled tells the SDK, in whose queue the request may still be, and whose middleware may be outside of ours.
func (c *session) cancelled(name string, cause error) {
	params, _ := json.Marshal(map[string]string{"requestId": name, "reason": cause.Error()}) //nolint:errchkjson // strings cannot fail
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.calls[name]; k != nil {
		k.stale = true
		c.stale++
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
