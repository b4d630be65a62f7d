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
)

// Handler answers requests one by one, each in its own goroutine, with HandleFromContext(ctx) for progress, for questions to the client, and
// for the Session, which knows what the client offered (Session.CanAsk).
//
// The result is marshalled with encoding/json, and a json.RawMessage is sent as it is. A nil result, or one that marshals to null, says that the method is unknown: the client gets -32601. But
// logging/setLevel, resources/subscribe and resources/unsubscribe have nothing to answer, and get {}.
//
// The result of tools/call may be of any type: what is no JSON object is sent as the text of a tool's result, as Text makes it.
//
// An *Error reaches the client as it is. Of any other error, and of a panic, the client sees only -32603, and the log the rest: what an error
// says may not be for the client. What a model should read, and may act on, is a result: ToolError.
type Handler func(ctx context.Context, r *Request) (result any, err error)

// Request is what a Handler gets.
type Request struct {
	Method string
	Params json.RawMessage
	Header http.Header
}

// Bind decodes the params into v. Its error is an *Error with -32602.
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

// Name is the tool or prompt that the request names, "" where it names none.
func (r *Request) Name() string {
	raw, _ := jsonrpc.Field(r.Params, "name")
	name, _ := jsonrpc.Unquote(raw)
	return name
}

// BindArguments decodes the arguments of a tool or a prompt into v, as Bind does the params, and without decoding those first.
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

// bindFault says what is wrong in the client's terms: the names of our types are none of its business.
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

// Info is what initialize answers.
type Info struct {
	Name, Version, Instructions string
	// Capabilities are what the server offers: {"prompts": struct{}{}}. Clients do not ask for what is not announced.
	Capabilities map[string]any
}

// NewApp makes an app of a Handler, which gets every request but initialize (version negotiation included) and ping, and which answers
// for what info announces; for tools alone there is NewToolApp. A nil Handler is an error of NewServer. Notifications of the client are
// not passed on; its answers and cancellations work through the context.
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
	faults  []error // for NewServer
}

func (a *handlerApp) Open(_ *http.Request, s *Session, _ []byte) (AppSession, error) {
	if len(a.faults) > 0 { // it is inside another App, which NewServer cannot look into
		return nil, errors.Join(a.faults...)
	}
	return &handlerSession{a, s}, nil
}

func (a *handlerApp) Modern() http.Handler { return nil }

type handlerSession struct {
	app *handlerApp
	s   *Session
}

func (s *handlerSession) Notification(*Notification) {}
func (s *handlerSession) Ended(error)                {}

func (s *handlerSession) Request(c *Call) {
	switch c.Method() {
	case "initialize":
		s.initialize(c)
	case "ping":
		_ = c.Reply(json.RawMessage("{}")) // nothing to do if it has ended
	default:
		go s.handle(c)
	}
}

// initialize negotiates the version: the client's if it is known, else the newest (lifecycle, "version negotiation",
// 2025-11-25).
func (s *handlerSession) initialize(c *Call) {
	var params struct {
		Version string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(c.Params(), &params); err != nil || params.Version == "" {
		_ = c.Fail(Errorf(CodeInvalidParams, "initialize needs params with a protocolVersion"))
		return
	}
	if _, ok := core.Find(params.Version); !ok {
		params.Version = core.Versions[0].Name
	}
	type serverInfo struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	capabilities := s.app.info.Capabilities
	if capabilities == nil {
		capabilities = map[string]any{}
	}
	result := struct {
		Version      string         `json:"protocolVersion"`
		Capabilities map[string]any `json:"capabilities"`
		Server       serverInfo     `json:"serverInfo"`
		Instructions string         `json:"instructions,omitempty"`
	}{params.Version, capabilities, serverInfo{s.app.info.Name, s.app.info.Version}, s.app.info.Instructions}
	raw, err := marshalResult(result)
	s.reply(c, raw, true, err)
}

func (s *handlerSession) handle(c *Call) {
	deepen(false)
	returned := false
	defer func() {
		if !returned { // it has called runtime.Goexit, as a failed assertion does in a tool under test
			s.s.srv.log.Error("rejoin: a handler did not return", "method", c.Method(), "session", s.s.ref)
			_ = c.Fail(Errorf(CodeInternal, "internal error"))
		}
	}()
	defer s.s.srv.recovered("a handler", func() { returned = true; _ = c.Fail(Errorf(CodeInternal, "internal error")) })
	result, err := s.app.handler(c.Context(), &Request{Method: c.Method(), Params: c.Params(), Header: c.Header()})
	returned = true
	raw, err := s.answer(c, result, err)
	_, theirs := result.(json.RawMessage)
	s.reply(c, raw, !theirs, err)
}

// reply answers a call. encoded: encoding/json or we have written the result.
func (s *handlerSession) reply(c *Call, result json.RawMessage, encoded bool, err error) {
	if err == nil {
		_ = c.reply(result, encoded) // the request may have been cancelled
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		if c.Context().Err() != nil { // it gave up because it was told to
			s.s.srv.log.Debug("rejoin: a handler ended after its request", "method", c.Method(), "session", s.s.ref, "error", err)
			_ = c.Fail(Errorf(CodeInternal, "cancelled"))
			return
		}
		s.s.srv.log.Error("rejoin: a handler failed", "method", c.Method(), "session", s.s.ref, "error", err)
		e = Errorf(CodeInternal, "internal error")
	}
	_ = c.Fail(e) // the request may have been cancelled
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
