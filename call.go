package rejoin

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"unicode/utf8"

	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/lazy"
)

// Call is one request of the client, as the app sees it. The app may keep the bytes it returns, but must not change them.
type Call struct {
	ctx    callContext
	s      *Session
	engine engine.Request
	msg    jsonrpc.Message
	header http.Header
	handle Handle
	token  atomic.Pointer[[]byte] // what progressToken returns; nil: it was not called yet

	changes uint64 // of the app's state, before the call, in a cluster
}

// newCall makes the call of one message. It keeps nothing of r but the values of its context and the header.
func newCall(s *Session, r *http.Request, m jsonrpc.Message) *Call {
	c := &Call{s: s, msg: m, header: r.Header}
	c.ctx.Values, c.ctx.call, c.handle.c = r.Context(), c, c
	_, task := jsonrpc.Field(m.Params, "task")
	c.engine.Init(&s.engine, (*tool)(c), string(m.ID), methodName(m.Method), task)
	if s.record != nil {
		c.changes = s.record.Changes()
	}
	return c
}

// tool is a Call as the engine sees it: it implements engine.Tool.
type tool Call

// Cancel ends the context of the call.
func (t *tool) Cancel(cause error) { t.ctx.Context.Cancel(cause) }

// request returns what the engine keeps of the call. It is nil if c is nil.
func (c *Call) request() *engine.Request {
	if c == nil {
		return nil
	}
	return &c.engine
}

// callContext is the context of a call. It has the values of the HTTP request that brought the call, and ends with the call.
type callContext struct {
	lazy.Context
	call *Call
}

type (
	handleKey struct{}
	serverKey struct{}
)

func (c *callContext) Value(key any) any {
	switch key.(type) {
	case handleKey:
		return &c.call.handle
	case serverKey:
		return c.call.s.srv
	}
	return c.Context.Value(key)
}

// methodName converts m to a string. It does not allocate for the most frequent methods.
func methodName(m []byte) string {
	switch string(m) {
	case "tools/call":
		return "tools/call"
	case "ping":
		return "ping"
	case "initialize":
		return "initialize"
	}
	return string(m)
}

// Context returns the context for the tool. It carries the values of the HTTP request that brought the call, the Handle and the Server.
// It ends when the client cancels the call or ends its session (DELETE), when the session ends otherwise, and at AbandonAfter and
// MaxRuntime, each with the reason as its cause. It also ends after the response. A disconnect does not end it.
func (c *Call) Context() context.Context { return &c.ctx }

// Method returns the request's method.
func (c *Call) Method() string { return c.engine.Method() }

// Params returns the request's params, or nil if it has none.
func (c *Call) Params() json.RawMessage { return c.msg.Params }

// Header returns the header of the HTTP request. Do not change it.
func (c *Call) Header() http.Header { return c.header }

// ID returns the request's id exactly as the client wrote it, for logs. Apps do not need it to answer.
func (c *Call) ID() json.RawMessage { return json.RawMessage(c.engine.ID()) }

// Raw returns the whole message, for SDKs that take messages.
func (c *Call) Raw() json.RawMessage { return c.msg.Raw }

// Handle returns the handle that HandleFromContext finds in the call's context.
func (c *Call) Handle() *Handle { return &c.handle }

// Reply records the response. Only the first Reply or Fail counts. Later ones return ErrEnded, and so does one that comes after the end
// of the request. Call it even then: until Reply or Fail is called, the request counts against Config.MaxConcurrent. A result that is not
// JSON, or is over 16 MiB, is logged, and the client gets an internal error instead.
func (c *Call) Reply(result json.RawMessage) error { return c.reply(result, false) }

// reply is Reply. encoded says that encoding/json made the result. Then only UTF-8 has to be checked, which encoding/json does not check
// in the output of a json.Marshaler.
func (c *Call) reply(result json.RawMessage, encoded bool) error {
	c.engine.Returned()
	if !c.engine.Claim() {
		return ErrEnded
	}
	if e := checkResult(c, result, encoded); e != nil {
		return c.replyError(e)
	}
	switch {
	case c.Method() == "tools/list":
		c.s.srv.logNoTools(c.s, c.Params(), result)
	case c.engine.Opens():
		version, _ := jsonrpc.Field(result, "protocolVersion")
		name, _ := jsonrpc.Unquote(version)
		if err := c.s.finishOpening(name, c.header); err != nil {
			return err
		}
		c.s.srv.logNothingOffered(c.s, result)
	}
	if c.s.record != nil {
		if e := c.s.saveState(c.changes); e != nil {
			return c.replyError(e)
		}
	}
	id := c.engine.ID()
	return responseError(c.engine.Reply(jsonrpc.AppendResult(make([]byte, 0, len(id)+len(result)+40), []byte(id), result), false))
}

// Fail records an error response, under the rules of Reply. nil stands for an internal error. If err.Data is not valid JSON in UTF-8, the
// client gets it as a JSON string, and a server logs that once.
func (c *Call) Fail(err *Error) error {
	c.engine.Returned()
	if err == nil {
		err = Errorf(CodeInternal, "internal error")
	}
	if !c.engine.Claim() {
		return ErrEnded
	}
	return c.replyError(err)
}

func (c *Call) replyError(e *Error) error {
	return responseError(c.engine.Reply(errorMessage(c, []byte(c.engine.ID()), e), true))
}

func (c *Call) origin() (*Server, SessionRef) { return c.s.srv, c.s.ref }

// checkResult returns the error that replaces a result which cannot be sent, or nil. It logs the error.
func checkResult(c answered, result json.RawMessage, encoded bool) *Error {
	if len(result) > engine.MaxEventBytes {
		srv, session := c.origin()
		srv.log.Error("rejoin: response over 16 MiB replaced by an error", "method", c.Method(), "session", session, "bytes", len(result))
		return Errorf(CodeInternal, "the response is over 16 MiB")
	}
	if valid := encoded && utf8.Valid(result) || len(result) == 0 || jsonrpc.Valid(result); !valid {
		srv, session := c.origin()
		srv.log.Error("rejoin: a result that is not valid JSON replaced by an error", "method", c.Method(), "session", session)
		return Errorf(CodeInternal, "internal error")
	}
	return nil
}

// errorMessage returns an error response.
func errorMessage(c answered, id []byte, e *Error) []byte {
	data := e.Data
	if len(data) > 0 && !jsonrpc.Valid(data) { // it would make the whole message invalid, and in a batch all others too
		srv, session := c.origin()
		srv.logInvalidData(c.Method(), session)
		data = jsonrpc.AppendString(nil, string(data))
	}
	return jsonrpc.AppendError(nil, id, e.Code, e.Message, data)
}
