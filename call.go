package rejoin

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"sync/atomic"
	"unicode/utf8"

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
	work   work
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

// Reply records the response. Only the first Reply or Fail counts; later ones return ErrEnded, and so does one that comes after the end of
// the request. It is due all the same: until then the request counts as one that is being worked on. A result that is not JSON is replaced by an
// internal error, and logged.
func (c *Call) Reply(result json.RawMessage) error { return c.reply(result, false) }

// reply is Reply; encoded: by encoding/json, which checks everything but that what a json.Marshaler writes is UTF-8.
func (c *Call) reply(result json.RawMessage, encoded bool) error {
	c.work.returned(c)
	if !c.done.CompareAndSwap(false, true) {
		return ErrEnded
	}
	if len(result) > maxEventBytes {
		c.s.srv.log.Error("rejoin: response over 16 MiB replaced by an error", "method", c.method, "session", c.s.ref, "bytes", len(result))
		return c.respondError(Errorf(CodeInternal, "the response is over 16 MiB"))
	}
	if valid := encoded && utf8.Valid(result) || len(result) == 0 || jsonrpc.Valid(result); !valid {
		c.s.srv.log.Error("rejoin: a result that is not valid JSON replaced by an error", "method", c.method, "session", c.s.ref)
		return c.respondError(Errorf(CodeInternal, "internal error"))
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

// Fail records an error response. nil is an internal error. Where err.Data is not valid JSON in UTF-8, the client gets its text as a JSON string,
// and that is logged once.
func (c *Call) Fail(err *Error) error {
	c.work.returned(c)
	if err == nil {
		err = Errorf(CodeInternal, "internal error")
	}
	if !c.done.CompareAndSwap(false, true) {
		return ErrEnded
	}
	return c.respondError(err)
}

func (c *Call) respondError(e *Error) error {
	data := e.Data
	if len(data) > 0 && !jsonrpc.Valid(data) { // it would spoil the whole message, and in a batch those of others
		c.s.srv.logInvalidData(c)
		data = jsonrpc.AppendString(nil, string(data))
	}
	err := c.respond(jsonrpc.AppendError(nil, []byte(c.id), e.Code, e.Message, data))
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

// work says whether the app still has a call, also where its request has ended. An app that ignores the end of a context works on, and what a
// client could start by cancelling what it has started would have no bound.
type work struct {
	state atomic.Uint32
	lost  runtime.Cleanup
}

const (
	waiting  uint32 = iota // the app has not seen the call
	orphaned               // and its request has ended
	working                // the app has it
	stale                  // and its request has ended: it is counted
	returned               // the app has answered
)

// tally counts calls whose request has ended and whose app has not answered, in a session and in its server. It is apart from both: it must
// not keep what it counts.
type tally struct {
	n   atomic.Int64
	all *atomic.Int64
}

func (t *tally) add(n int64) {
	t.n.Add(n)
	t.all.Add(n)
}

func (t *tally) count() int {
	if t == nil {
		return 0
	}
	return int(t.n.Load())
}

// begin notes that the app is about to be given the call.
func (w *work) begin(c *Call) {
	if w.state.CompareAndSwap(waiting, working) {
		return
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	w.state.CompareAndSwap(orphaned, working)
	w.ended(c)
}

// ended notes that the request has ended without the app. Under the session's lock.
func (w *work) ended(c *Call) {
	if w.state.CompareAndSwap(waiting, orphaned) || w.state.Load() != working {
		return
	}
	s := c.s
	if s.stale == nil {
		s.stale = &tally{all: s.srv.stale}
	}
	s.stale.add(1)
	// An app that has let go of the call, and so can never answer, has ended with it.
	w.lost = runtime.AddCleanup(c, func(t *tally) { t.add(-1) }, s.stale)
	if !w.state.CompareAndSwap(working, stale) { // it answers just now
		w.lost.Stop()
		s.stale.add(-1)
	}
}

// returned notes that the app has answered, whoever may be there for it.
func (w *work) returned(c *Call) {
	if w.state.Swap(returned) != stale {
		return
	}
	w.lost.Stop()
	c.s.stale.add(-1)
	runtime.KeepAlive(c)
}
