package rejoin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// modernCall is a request of the modern era, for its Handle. Its methods for a Handle accept nil, which stands for no request.
type modernCall struct {
	srv          *Server
	ctx          context.Context
	id           []byte
	method       string
	params       json.RawMessage
	json, stream bool // what the client accepts
	out          *respond.Relay
	task         *taskCall // nil: it cannot become a task
}

// modernAnswer is the answer of an app of NewApp to a modern request.
type modernAnswer struct {
	*modernCall

	app   *handlerApp
	w     http.ResponseWriter
	ended atomic.Bool
}

var _ answerer = (*modernAnswer)(nil)

func (m *modernCall) Context() context.Context { return m.ctx }

func (m *modernCall) Method() string { return m.method }

func (m *modernCall) origin() (*Server, SessionRef) { return m.srv, "" }

// reply sends the result, with what the modern era requires in it.
func (m *modernAnswer) reply(result json.RawMessage, encoded bool) error {
	if e := checkResult(m, result, encoded); e != nil {
		return m.Fail(e)
	}
	return m.end(http.StatusOK, jsonrpc.AppendResult(nil, m.id, m.app.modernResult(m.method, result)))
}

// Fail sends an error. nil stands for an internal error.
func (m *modernAnswer) Fail(e *Error) error {
	if e == nil {
		e = Errorf(CodeInternal, "internal error")
	}
	return m.end(modernStatus(e), errorMessage(m, m.id, e))
}

// refuse answers a request that does not reach the Handler.
func (m *modernAnswer) refuse(status int, e *Error) {
	m.srv.stats.refused.Add(1)
	_ = m.end(status, errorMessage(m, m.id, e)) // the client may be gone
}

// end writes the answer. If a stream has begun, the Relay makes an event of it, and the status has no effect.
func (m *modernAnswer) end(status int, message []byte) error {
	if m.ended.Swap(true) {
		return ErrEnded
	}
	if !m.json && status == http.StatusOK {
		m.out.Begin()
	}
	h := m.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(message)))
	m.w.WriteHeader(status)
	if _, err := m.w.Write(message); err != nil { //nolint:gosec // JSON, and so declared
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

// connected reports whether the client waits for the response of the request itself.
func (m *modernCall) connected() bool { return m != nil && m.ctx.Err() == nil && m.task.made() == nil }

// progress reports progress to the client: on the response, or as the statusMessage of the task.
func (m *modernCall) progress(done, total float64, message string) error {
	if t := m.task.made(); t != nil {
		if t.Final() {
			return ErrEnded
		}
		t.Note(progressText(done, total, message))
		return nil
	}
	m.task.progressed(progressText(done, total, message))
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
	switch t := m.task.made(); {
	case len(params) > engine.MaxEventBytes:
		return ErrTooLarge
	case t != nil && t.Final():
		return ErrEnded
	}
	return m.send(jsonrpc.AppendRequest(nil, nil, method, params))
}

// send sends a message on the response, before the result. In a task there is no response: the message is dropped.
func (m *modernCall) send(message []byte) error {
	switch {
	case len(message) > engine.MaxEventBytes:
		return ErrTooLarge
	case m.out.Send(message) != nil:
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
