package rejoin

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Call is one request as the app sees it. The bytes it returns are the app's to keep and nobody's to change.
type Call struct {
	ctx    callContext
	s      *Session
	stream core.StreamID
	st     *stream // set before the app sees the call
	id     string  // as the client wrote it
	msg    jsonrpc.Message
	method string
	header http.Header
	handle Handle
	task   bool // the request is task-augmented
	first  bool // initialize
	done   atomic.Bool
	token  atomic.Pointer[[]byte] // progressToken, once somebody has looked for it
}

// newCall makes the call of one message. Of r only the context's values and the header live on.
func newCall(s *Session, r *http.Request, id core.StreamID, m jsonrpc.Message) *Call {
	c := &Call{s: s, stream: id, id: string(m.ID), msg: m, method: methodName(m.Method), header: r.Header}
	c.ctx.values, c.ctx.call, c.handle.c = r.Context(), c, c
	_, c.task = jsonrpc.Field(m.Params, "task")
	return c
}

// keyOf is what a request's id is compared by; "": the id itself, as nearly always.
func keyOf(id string, raw []byte) string {
	if key := jsonrpc.Key(raw); string(key) != id {
		return string(key)
	}
	return ""
}

// methodName is a string, without an allocation for what is called most.
func methodName(m []byte) string {
	switch string(m) {
	case "tools/call":
		return "tools/call"
	case "ping":
		return "ping"
	}
	return string(m)
}

// Context is the tool's context: values of the HTTP request that carries the call, the Handle and the Server; cancelled by the
// client's cancellation, DELETE, the session's end, AbandonAfter and MaxRuntime, with the reason as its cause, and after the
// response; never by a disconnect.
func (c *Call) Context() context.Context { return &c.ctx }

// Method is the request's method.
func (c *Call) Method() string { return c.method }

// Params are the request's params, nil if it has none.
func (c *Call) Params() json.RawMessage { return c.msg.Params }

// Header is the header of the HTTP request. Do not change it.
func (c *Call) Header() http.Header { return c.header }

// ID is the request's id exactly as the client wrote it; for logs. Apps answer through c, never by id.
func (c *Call) ID() json.RawMessage { return json.RawMessage(c.id) }

// Raw is the whole message, for SDKs that take messages.
func (c *Call) Raw() json.RawMessage { return c.msg.Raw }

// Handle is what the tool gets from its context too.
func (c *Call) Handle() *Handle { return &c.handle }

// Reply records the response. Only the first Reply or Fail counts; later ones return ErrEnded. result must be valid JSON.
func (c *Call) Reply(result json.RawMessage) error {
	if !c.done.CompareAndSwap(false, true) {
		return ErrEnded
	}
	if len(result) > maxEventBytes {
		c.s.srv.log.Error("rejoin: response over 16 MiB replaced by an error", "method", c.method, "session", c.s.ref, "bytes", len(result))
		return c.respondError(Errorf(CodeInternal, "the response is over 16 MiB"))
	}
	switch {
	case c.method == "tools/list":
		c.s.srv.logNoTools(c.s, c.Params(), result)
	case c.first:
		version, _ := jsonrpc.Field(result, "protocolVersion")
		name, _ := jsonrpc.Unquote(version)
		c.s.opened(name, c.header)
		c.s.srv.logNothing(c.s, result)
	}
	return c.respond(jsonrpc.AppendResult(make([]byte, 0, len(c.id)+len(result)+40), []byte(c.id), result))
}

// Fail records an error response. nil is an internal error.
func (c *Call) Fail(err *Error) error {
	if err == nil {
		err = Errorf(CodeInternal, "internal error")
	}
	if !c.done.CompareAndSwap(false, true) {
		return ErrEnded
	}
	return c.respondError(err)
}

func (c *Call) respondError(e *Error) error {
	err := c.respond(jsonrpc.AppendError(nil, []byte(c.id), e.Code, e.Message, e.Data))
	if c.first {
		c.s.end(core.OpenFailure)
	}
	return err
}

func (c *Call) respond(data []byte) error {
	// On its stream, and before the answer, after which nothing travels there.
	c.s.withdrawAll(c, c.s.failAsks(c, ErrEnded), "the request was answered")
	err := c.s.send(message{op: core.Reply, stream: c.stream, id: c.id, data: data})
	c.ctx.cancel(context.Canceled)
	c.s.failAsks(c, ErrEnded)
	return err
}
