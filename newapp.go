package rejoin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/safe"
	"github.com/rejoin-mcp/rejoin/internal/stack"
)

// Handler answers one request. Each request has its own goroutine. Use HandleFromContext(ctx) to report progress, to ask the client questions,
// and for the Session, which knows what the client offered (Session.CanAsk).
//
// The result is marshalled with encoding/json, but a json.RawMessage is sent as it is. A nil result, or one that marshals to null, means that
// the method is unknown: the client gets -32601. For logging/setLevel, resources/subscribe and resources/unsubscribe it means success: the
// client gets {}.
//
// The result of tools/call may have any type. What is not a JSON object is sent as the text of a tool's result, as Text makes it.
//
// The client gets an *Error as it is. For any other error, and for a panic, it gets -32603 without details, because these may be secret. The
// details are logged. To give the model an error that it can read and act on, return ToolError as the result.
type Handler func(ctx context.Context, r *Request) (result any, err error)

// Request is what a Handler gets.
type Request struct {
	Method string
	Params json.RawMessage // nil: none
	Header http.Header     // of the HTTP request. Do not change it
}

// Bind decodes the params into v. An error is an *Error with -32602, which the handler can return.
func (r *Request) Bind(v any) error {
	params := r.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, v); err != nil {
		return Errorf(CodeInvalidParams, "params of %s: %s", r.Method, bindFault(err))
	}
	return nil
}

// Name returns the name of the tool or prompt in the params, or "".
func (r *Request) Name() string {
	raw, _ := jsonrpc.Field(r.Params, "name")
	name, _ := jsonrpc.Unquote(raw)
	return name
}

// BindArguments decodes the arguments of a tool or a prompt into v, under the rules of Bind.
func (r *Request) BindArguments(v any) error {
	arguments, ok := jsonrpc.Field(r.Params, "arguments")
	if !ok {
		arguments = []byte("{}")
	}
	if err := json.Unmarshal(arguments, v); err != nil {
		return Errorf(CodeInvalidParams, "arguments of %s: %s", r.Name(), bindFault(err))
	}
	return nil
}

// bindFault says what is wrong without naming Go types, because the client gets this text.
func bindFault(err error) string {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := strings.TrimPrefix(mismatch.Field, ".")
		if what == "" {
			what = "they"
		}
		return fmt.Sprintf("%s cannot be of type %s", what, mismatch.Value)
	}
	return "they do not fit"
}

// Info is what the app answers to initialize and server/discover.
type Info struct {
	Name, Version, Instructions string
	// Capabilities is what the server offers, such as {"prompts": struct{}{}}. Clients do not use what is not announced. server/discover
	// leaves out listChanged, subscribe and tasks, which need a session.
	Capabilities map[string]any
}

// NewApp makes an app from a Handler. The app answers initialize, with version negotiation, and ping. The Handler gets all other requests and
// must serve what info announces. For tools only, use NewToolApp. Notifications of the client are dropped. Its answers reach Ask, and its
// cancellations end contexts. If h is nil, NewServer returns an error.
//
// The app is a ModernApp. In the modern era (Config.Eras) it answers server/discover in place of initialize, refuses ping and the other methods
// that this era does not have, and accepts subscriptions/listen, on which only changes of tasks come. The context of the Handler ends when the client
// disconnects, unless the call has become a task. The app adds resultType, the server's name and the caching fields to results that have none. To
// ask the client, a Handler calls Handle.Ask, which makes the call a task, or returns a result with the resultType input_required and is
// called again with the answers in Request.Params (SEP-2322), which needs no task. If a tool's schema has an x-mcp-header, the Handler compares that
// header field with the argument itself; NewToolApp does it for its tools.
func NewApp(info Info, h Handler) App {
	a := &handlerApp{info: info, handler: h}
	if h == nil {
		a.faultf("NewApp needs a Handler")
	}
	return a
}

type handlerApp struct {
	info    Info
	handler Handler
	faults  []error // mistakes, for NewServer to return
}

func (a *handlerApp) Open(_ *http.Request, s *Session, _ []byte) (AppSession, error) {
	if len(a.faults) > 0 { // the app is wrapped in another App, so NewServer could not see the mistakes
		return nil, errors.Join(a.faults...)
	}
	return &handlerSession{app: a, session: s}, nil
}

type handlerSession struct {
	app     *handlerApp
	session *Session
}

func (h *handlerSession) Notification(*Notification) {}
func (h *handlerSession) Ended(error)                {}

func (h *handlerSession) Request(c *Call) {
	switch c.Method() {
	case "initialize":
		h.initialize(c)
	case "ping":
		_ = c.Reply(json.RawMessage("{}")) // an error means that the request has ended
	default:
		go h.handle(c)
	}
}

// initialize answers with the client's version if that is known, else with the newest (lifecycle, "version negotiation", 2025-11-25).
func (h *handlerSession) initialize(c *Call) {
	version := stringField(c.Params(), "protocolVersion")
	if version == "" {
		_ = c.Fail(Errorf(CodeInvalidParams, "initialize needs params with a protocolVersion"))
		return
	}
	if _, ok := core.Find(version); !ok {
		version = core.Versions[0].Name
	}
	type serverInfo struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	capabilities := h.app.info.Capabilities
	if capabilities == nil {
		capabilities = map[string]any{}
	}
	result := struct {
		Version      string         `json:"protocolVersion"`
		Capabilities map[string]any `json:"capabilities"`
		Server       serverInfo     `json:"serverInfo"`
		Instructions string         `json:"instructions,omitempty"`
	}{version, capabilities, serverInfo{h.app.info.Name, h.app.info.Version}, h.app.info.Instructions}
	raw, err := marshalResult(result)
	replyTo(c, raw, true, err)
}

func (h *handlerSession) handle(c *Call) {
	stack.To8K(false)
	h.app.answer(c, &Request{Method: c.Method(), Params: c.Params(), Header: c.Header()})
}

// answerer is a request that a Handler answers: a Call, or a request of the modern era.
type answerer interface {
	answered
	Context() context.Context
	reply(result json.RawMessage, encoded bool) error
	Fail(e *Error) error
}

// answered is what logs say of a request.
type answered interface {
	Method() string
	origin() (srv *Server, session SessionRef) // "": no session
}

// answer runs the Handler and answers with what it returns.
func (a *handlerApp) answer(c answerer, r *Request) {
	var (
		result any
		err    error
	)
	returned := safe.Run(func() {
		result, err = a.handler(c.Context(), r)
	}, func(what any, trace string) {
		srv, _ := c.origin()
		srv.logPanic("a handler", what, trace)
		_ = c.Fail(Errorf(CodeInternal, "internal error"))
	})
	if !returned {
		return
	}
	response, err := resultOf(r.Method, result, err)
	_, raw := result.(json.RawMessage)
	replyTo(c, response, !raw, err)
}

// replyTo answers a request. encoded says that encoding/json or this package made the result.
func replyTo(c answerer, result json.RawMessage, encoded bool, err error) {
	if err == nil {
		_ = c.reply(result, encoded) // an error means that the request has ended
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		srv, session := c.origin()
		switch ctx := c.Context(); {
		case ctx.Err() == nil:
			srv.log.Error("rejoin: a handler failed", "method", c.Method(), "session", session, "error", err)
			e = Errorf(CodeInternal, "internal error")
		default: // the handler gave up because its context ended
			srv.log.Debug("rejoin: a handler ended after its request", "method", c.Method(), "session", session, "error", err)
			e = Errorf(CodeInternal, "cancelled")
			if errors.Is(context.Cause(ctx), ErrShutdown) {
				e = failure(core.Shutdown)
			}
		}
	}
	_ = c.Fail(e) // an error means that the request has ended
}

func marshalResult(result any) (json.RawMessage, error) {
	if raw, ok := result.(json.RawMessage); ok {
		return raw, nil
	}
	if result == nil {
		return nil, nil
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return raw, nil
}
