package rejoin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// Ask sends a request to the client and waits for the answer, as Handle.Ask does. The request travels on the stream of the call that ctx
// belongs to, and the wait ends with that call. If ctx belongs to no call, the request travels on the standalone stream.
func (s *Session) Ask(ctx context.Context, method string, params, result any) error {
	return s.askAndWait(ctx, s.callOf(ctx), method, params, result)
}

// AskFunc is Ask without waiting. reply runs once, on another goroutine, perhaps before AskFunc has returned. It gets the answer, or the
// client's *Error, or the reason why no answer can come, such as ErrNotOffered. cancel withdraws the question with
// notifications/cancelled; reply does not run after that. ctx only says which call the question belongs to; its end has no effect.
func (s *Session) AskFunc(ctx context.Context, method string, params json.RawMessage, reply func(json.RawMessage, error)) (cancel func(reason string)) {
	return s.ask(s.callOf(ctx), method, params, reply)
}

// askAndWait asks for a call, or for no call if c is nil.
func (s *Session) askAndWait(ctx context.Context, c *Call, method string, params, result any) error {
	raw, err := marshalParams(params)
	if err == nil {
		err = c.waitError(ctx) // do not ask if the wait is over already
	}
	if err != nil {
		return err
	}
	type answer struct {
		raw json.RawMessage
		err error
	}
	answers := make(chan answer, 1)
	cancel := s.ask(c, method, raw, func(raw json.RawMessage, err error) { answers <- answer{raw, err} })
	select {
	case a := <-answers:
		if a.err != nil || result == nil {
			return a.err
		}
		if err := json.Unmarshal(a.raw, result); err != nil {
			return fmt.Errorf("rejoin: the client's answer to %s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
	case <-c.done():
	}
	cause := c.waitError(ctx)
	cancel(cause.Error())
	return cause
}

// done is closed when the call has ended. A nil call never ends.
func (c *Call) done() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.ctx.Done()
}

// waitError says why the wait for an answer is over: c or ctx has ended. Nil: it is not over.
func (c *Call) waitError(ctx context.Context) error {
	if c == nil {
		return context.Cause(ctx)
	}
	switch cause := context.Cause(&c.ctx); cause {
	case nil:
		return context.Cause(ctx)
	case context.Canceled: //nolint:errorlint // set by the engine itself: the call was answered
		return ErrEnded
	default:
		return cause
	}
}

func (s *Session) ask(c *Call, method string, params json.RawMessage, reply func(json.RawMessage, error)) (cancel func(string)) {
	err := s.checkOffered(method, params)
	switch {
	case err != nil:
	case len(params) > engine.MaxEventBytes:
		err = ErrTooLarge
	case len(params) > 0 && !jsonrpc.Valid(params):
		err = errInvalidParams
	}
	if err != nil {
		go func() {
			defer s.srv.recovered("a reply of Session.AskFunc", func() {})
			reply(nil, err)
		}()
		return func(string) {}
	}
	return s.engine.Ask(c.request(), method, params, func(result, failure []byte, cause error) {
		if failure != nil {
			cause = clientError(failure)
		}
		reply(result, cause)
	})
}

// receiveAnswer passes the client's answer to the question with the same id.
func (s *Session) receiveAnswer(m *jsonrpc.Message) {
	id, ok := jsonrpc.Unquote(m.ID)
	switch {
	case !ok:
	case m.Kind == jsonrpc.Result:
		s.engine.Answered(id, m.Result, nil)
	default:
		s.engine.Answered(id, nil, m.Err)
	}
}

// clientError decodes the error of a client's answer.
func clientError(raw []byte) *Error {
	var e struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return Errorf(CodeInternal, "the client's error is malformed")
	}
	return &Error{Code: e.Code, Message: e.Message, Data: e.Data}
}

// CanAsk reports whether the client said in its initialize that it answers requests of this method. It knows roots/list,
// sampling/createMessage, elicitation/create (with a form) and tasks/…. For ping, and for methods that this package does not know, such as
// those of an extension, it reports true: the client itself refuses what it does not know.
func (s *Session) CanAsk(method string) bool { return s.checkOffered(method, nil) == nil }

// checkOffered returns ErrNotOffered if the client did not offer a capability that the request needs (basic/lifecycle, "operation",
// 2025-11-25: only use capabilities that were negotiated).
func (s *Session) checkOffered(method string, params json.RawMessage) error {
	for _, path := range requiredCapabilities(method, params) {
		if !s.offered(path...) {
			return fmt.Errorf("%w: %s needs %s", ErrNotOffered, method, strings.Join(path, "."))
		}
	}
	return nil
}

// requiredCapabilities returns the paths of all capabilities that a request to the client needs.
func requiredCapabilities(method string, params json.RawMessage) [][]string {
	switch method {
	case "roots/list":
		return [][]string{{"roots"}}
	case "sampling/createMessage":
		need := [][]string{{"sampling"}}
		if hasTools(params) {
			need = append(need, []string{"sampling", "tools"})
		}
		return need
	case "elicitation/create":
		raw, _ := jsonrpc.Field(params, "mode")
		if mode, _ := jsonrpc.Unquote(raw); mode == "url" {
			return [][]string{{"elicitation"}, {"elicitation", "url"}}
		}
		return [][]string{{"elicitation"}, {"elicitation", "form"}}
	case "tasks/list":
		return [][]string{{"tasks"}, {"tasks", "list"}}
	case "tasks/cancel":
		return [][]string{{"tasks"}, {"tasks", "cancel"}}
	case "tasks/get", "tasks/result":
		return [][]string{{"tasks"}}
	}
	return nil
}

// hasTools reports whether the params of a sampling request let the model use tools.
func hasTools(params json.RawMessage) bool {
	for _, name := range [...]string{"tools", "toolChoice"} {
		if v, ok := jsonrpc.Field(params, name); ok && string(v) != "null" {
			return true
		}
	}
	return false
}

// offered reports whether the client offered the capability at this path, in initialize.
func (s *Session) offered(path ...string) bool {
	return offers([]byte(s.description.Value().capabilities), path...)
}

// offers reports whether the capabilities of a client have the one at this path. A client that offers elicitation without saying more offers
// elicitation by forms.
func offers(capabilities []byte, path ...string) bool {
	v, ok := jsonrpc.Field(capabilities, path...)
	switch {
	case ok:
		return string(v) != "null" && string(v) != "false"
	case len(path) == 2 && path[1] == "form":
		return !offers(capabilities, path[0], "url")
	}
	return false
}
