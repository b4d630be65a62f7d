package rejoin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// modernCall is a request of the modern era. Its methods for a Handle accept nil, which stands for no request.
type modernCall struct {
	srv    *Server
	ctx    context.Context
	id     []byte
	method string
	params json.RawMessage
	answer *respond.Answer // nil: an SDK answers the request, and only srv is set
	app    *handlerApp
}

var _ answerer = (*modernCall)(nil)

func (m *modernCall) Context() context.Context { return m.ctx }

func (m *modernCall) Method() string { return m.method }

func (m *modernCall) origin() (*Server, SessionRef) { return m.srv, "" }

// reply sends the result, with what the modern era requires in it.
func (m *modernCall) reply(result json.RawMessage, encoded bool) error {
	if e := checkResult(m, result, encoded); e != nil {
		return m.Fail(e)
	}
	return m.end(http.StatusOK, jsonrpc.AppendResult(nil, m.id, m.app.modernResult(m.method, result)))
}

// Fail sends an error. nil stands for an internal error.
func (m *modernCall) Fail(e *Error) error {
	if e == nil {
		e = Errorf(CodeInternal, "internal error")
	}
	return m.end(modernStatus(e), errorMessage(m, m.id, e))
}

// refuse answers a request that does not reach the Handler.
func (m *modernCall) refuse(status int, e *Error) {
	m.srv.stats.refused.Add(1)
	_ = m.end(status, errorMessage(m, m.id, e)) // the client may be gone
}

func (m *modernCall) end(status int, message []byte) error {
	if !m.answer.End(status, message) {
		return ErrEnded
	}
	return nil
}

// modernStatus returns the HTTP status of an error, which has an effect only if nothing was sent before.
func modernStatus(e *Error) int {
	switch {
	case e.Reason() == ReasonShutdown:
		return http.StatusServiceUnavailable
	case e.Code == CodeMethodNotFound:
		return http.StatusNotFound
	}
	switch e.Code {
	case CodeParse, CodeInvalidRequest, CodeInvalidParams, codeHeader, codeCapability, codeVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// open reports whether a Handle can write to the response.
func (m *modernCall) open() bool { return m != nil && m.answer != nil }

// connected reports whether the client still waits.
func (m *modernCall) connected() bool { return m.open() && m.ctx.Err() == nil }

func (m *modernCall) progress(done, total float64, message string) error {
	token := progressTokenOf(m.params)
	if token == nil {
		return nil
	}
	data, err := appendProgress(nil, token, done, total, message)
	if err != nil {
		return err
	}
	return m.send(data)
}

func (m *modernCall) notify(method string, params json.RawMessage) error {
	switch method {
	case "notifications/message":
		if !m.wantsLog(params) {
			return nil
		}
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
		"notifications/resources/updated":
		return nil // only a subscription may bring them (SEP-2575)
	}
	if len(params) > engine.MaxEventBytes {
		return ErrTooLarge
	}
	return m.send(jsonrpc.AppendRequest(nil, nil, method, params))
}

func (m *modernCall) send(message []byte) error {
	switch {
	case len(message) > engine.MaxEventBytes:
		return ErrTooLarge
	case !m.answer.Send(message):
		return ErrEnded
	}
	return nil
}

// logLevels are those of RFC 5424, from the least important on.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// wantsLog reports whether the client wants a log message: it gets none unless its request names a level (SEP-2575).
func (m *modernCall) wantsLog(params []byte) bool {
	raw, _ := jsonrpc.Field(m.params, "_meta", metaPrefix+"logLevel")
	wanted, _ := jsonrpc.Unquote(raw)
	from := slices.Index(logLevels, wanted)
	raw, _ = jsonrpc.Field(params, "level")
	level, _ := jsonrpc.Unquote(raw)
	at := slices.Index(logLevels, level)
	return from >= 0 && (at >= from || at < 0)
}
