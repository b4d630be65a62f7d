package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/sse"
)

const (
	metaPrefix     = "io.modelcontextprotocol/"
	tasksExtension = metaPrefix + "tasks"

	codeHeader     = -32020 // a header field is missing or differs from the body
	codeCapability = -32021 // the client lacks a capability that the request needs
	codeVersion    = -32022 // the server does not speak this version
)

// modernRequest is a request of the modern era, which has all that the server must know of the client in it.
type modernRequest struct {
	id     string // as JSON
	stream string // the id of the call that it belongs to, for traces
	method string
	params map[string]json.RawMessage
	header http.Header       // more header fields
	logs   bool              // log messages are wanted, unless params name a level
	idle   time.Duration     // how long the answer may bring no byte; 0: as long as it likes
	head   func(http.Header) // nil: the header of the answer is not needed
}

// ask sends a request and returns its result. note gets the notifications that come before it, and returns false if the request's context has
// ended; nil: they are dropped. Requests of the server, of which this era has none, are dropped, too.
//
// Errors: *Error: the server's answer. *StatusError: its refusal. lostError, unsentError, ErrRedirect, ErrProtocol, the cause of ctx.
func (s *Session) ask(ctx context.Context, r modernRequest, note func(jsonrpc.Message) bool) (json.RawMessage, error) {
	params, err := s.modernParams(r.params, r.logs)
	if err != nil {
		return nil, unsentError{err}
	}
	s.trace(TraceEvent{Kind: TracePost, Stream: r.stream, Method: r.method})
	body := jsonrpc.AppendRequest(nil, []byte(r.id), r.method, params)
	header := modernHeader(r.method, r.params)
	maps.Copy(header, r.header)
	a, err := s.exchange(ctx, http.MethodPost, acceptBoth, body, header)
	if err != nil {
		s.trace(TraceEvent{Kind: TraceEnd, Stream: r.stream, Err: err})
		return nil, lost(ctx, err)
	}
	defer a.close()
	s.trace(TraceEvent{Kind: TraceHead, Stream: r.stream, Status: a.status})
	if r.head != nil {
		r.head(a.header)
	}
	switch {
	case a.status < 200 || a.status > 299:
		return nil, s.refusedModern(ctx, a)
	case a.status != http.StatusOK:
		return nil, fmt.Errorf("%w: status %d for a request", ErrProtocol, a.status)
	}
	m, err := s.readModern(a, r, note)
	s.trace(TraceEvent{Kind: TraceEnd, Stream: r.stream, Err: err})
	switch {
	case err != nil:
		return nil, lost(ctx, err)
	case m.Kind == jsonrpc.Failure:
		return nil, decodeError(m.Err)
	}
	return m.Result, nil
}

// readModern reads an answer up to the response.
func (s *Session) readModern(a *answer, r modernRequest, note func(jsonrpc.Message) bool) (jsonrpc.Message, error) {
	if a.kind == "application/json" {
		a.idle = s.cfg.IdleTimeout
		raw, err := readAll(a, s.cfg.MaxEventBytes)
		if err != nil {
			return jsonrpc.Message{}, err
		}
		m, response, err := s.modernMessage(raw, r)
		if err == nil && !response {
			err = fmt.Errorf("%w: JSON without the response", ErrProtocol)
		}
		return m, err
	}
	if a.kind != "text/event-stream" {
		return jsonrpc.Message{}, fmt.Errorf("%w: Content-Type %q", ErrProtocol, a.kind)
	}
	a.idle = r.idle
	for events := sse.NewReader(a, s.cfg.MaxEventBytes); ; {
		e, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return jsonrpc.Message{}, fmt.Errorf("%w: an event over Config.MaxEventBytes", ErrProtocol)
		case err != nil && unlessEOF(err) == nil:
			return jsonrpc.Message{}, errNoEnd
		case err != nil:
			return jsonrpc.Message{}, err
		case len(e.Data) == 0 || e.Name != "" && e.Name != "message":
			continue
		}
		m, response, err := s.modernMessage(e.Data, r)
		switch {
		case err != nil:
			return m, err
		case response:
			a.drain()
			return m, nil
		case m.Kind == jsonrpc.Notification && note != nil && !note(m):
			return m, context.Cause(a.ctx)
		}
	}
}

// modernMessage reads one message, and reports whether it is the response.
func (s *Session) modernMessage(raw []byte, r modernRequest) (m jsonrpc.Message, response bool, err error) {
	m, err = jsonrpc.Parse(raw, maxJSONDepth)
	if err != nil {
		return m, false, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	s.trace(TraceEvent{Kind: TraceMessage, Stream: r.stream, Method: string(m.Method), Bytes: len(m.Raw)})
	answers := m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure
	return m, answers && string(jsonrpc.Key(m.ID)) == r.id, nil
}

// lost makes a lostError of an error that says no more than that the connection was lost.
func lost(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isUnsent(err), errors.Is(err, ErrRedirect), errors.Is(err, ErrProtocol):
		return err
	}
	return lostError{err}
}

func isUnsent(err error) bool {
	_, unsent := errors.AsType[unsentError](err)
	return unsent
}

// withoutUnsent returns what kept a request from being sent, and other errors as they are.
func withoutUnsent(err error) error {
	if unsent, ok := errors.AsType[unsentError](err); ok {
		return unsent.error
	}
	return err
}

// refusedModern makes an error of a refusal. In this era the answer to a request that never reached its handler comes as 400 or 404: it is
// the *Error that it was with status 200 in the legacy era, unless it is about the form of the request.
func (s *Session) refusedModern(ctx context.Context, a *answer) error {
	err := s.refused(a)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	refusal, ok := errors.AsType[*StatusError](err)
	if !ok || refusal.Err == nil || a.status != http.StatusBadRequest && a.status != http.StatusNotFound {
		return withPause(err, a)
	}
	switch refusal.Err.Code {
	case rejoin.CodeParse, rejoin.CodeInvalidRequest, codeHeader, codeCapability, codeVersion:
		return err
	}
	return refusal.Err
}

// pausedError is a refusal that says when to come back.
type pausedError struct {
	error

	pause time.Duration
}

func (e pausedError) Unwrap() error { return e.error }

func withPause(err error, a *answer) error {
	if d := retryAfter(a.header); d > 0 && transient(a.status) {
		return pausedError{err, d}
	}
	return err
}

// modernHeader repeats the method and the name of a request, so that proxies need not read the body (SEP-2243).
func modernHeader(method string, params map[string]json.RawMessage) http.Header {
	h := http.Header{"Mcp-Method": {headerValue(method)}}
	field := ""
	switch method {
	case methodCall, "prompts/get":
		field = "name"
	case "resources/read":
		field = "uri"
	case methodGet, methodUpdate, methodCancel:
		field = "taskId"
	}
	if name, ok := jsonrpc.Unquote(params[field]); ok {
		h["Mcp-Name"] = []string{headerValue(name)}
	}
	return h
}

// headerValue is a text as the value of a header field: as it is if it is plain ASCII, else as =?base64?…?=.
func headerValue(text string) string {
	plain := text != "" && strings.TrimSpace(text) == text && !strings.HasPrefix(text, "=?base64?")
	for i := range len(text) {
		plain = plain && text[i] >= ' ' && text[i] < 0x7f
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// modernParams are the params of a request with what each request says about the client.
func (s *Session) modernParams(params map[string]json.RawMessage, logs bool) (json.RawMessage, error) {
	capabilities, err := s.capabilities()
	if err != nil {
		return nil, err
	}
	meta := map[string]json.RawMessage{}
	if logs {
		meta[metaPrefix+"logLevel"] = json.RawMessage(`"debug"`) // all, which is what most servers of the legacy era send unasked
	}
	_ = json.Unmarshal(params["_meta"], &meta) // a value that is not an object is replaced
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	info := append(jsonrpc.AppendString([]byte(`{"name":`), s.cfg.Name), `,"version":`...)
	meta[metaPrefix+"protocolVersion"] = json.RawMessage(`"` + modernVersion + `"`)
	meta[metaPrefix+"clientInfo"] = append(jsonrpc.AppendString(info, s.cfg.Version), '}')
	meta[metaPrefix+"clientCapabilities"] = capabilities
	all := maps.Clone(params)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	all["_meta"] = object(meta)
	return object(all), nil
}

// object encodes an object whose values are JSON already; they stay as they are.
func object(members map[string]json.RawMessage) json.RawMessage {
	raw := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if len(raw) > 1 {
			raw = append(raw, ',')
		}
		raw = append(append(jsonrpc.AppendString(raw, name), ':'), members[name]...)
	}
	return append(raw, '}')
}

// modernCapabilities are Config.Capabilities, without the questions that Config.OnRequest does not answer, and with tasks.
func (s *Session) modernCapabilities() (json.RawMessage, error) {
	all, extensions := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	raw, err := marshal(s.cfg.Capabilities)
	if err != nil {
		return nil, err
	}
	if raw != nil {
		_ = json.Unmarshal(raw, &all) // it is an object
	}
	if s.cfg.OnRequest == nil {
		delete(all, "elicitation")
		delete(all, "sampling")
		delete(all, "roots")
	}
	if json.Unmarshal(all["extensions"], &extensions) != nil || extensions == nil {
		extensions = map[string]json.RawMessage{}
	}
	extensions[tasksExtension] = json.RawMessage("{}")
	all["extensions"] = object(extensions)
	return object(all), nil
}

// notifyModern sends a notification.
func (s *Session) notifyModern(ctx context.Context, method string, params json.RawMessage) error {
	members, err := modernMembers(params)
	if err != nil {
		return err
	}
	body, err := s.modernParams(members, false)
	if err != nil {
		return err
	}
	s.trace(TraceEvent{Kind: TracePost, Method: method})
	a, err := s.exchange(ctx, http.MethodPost, acceptBoth, jsonrpc.AppendRequest(nil, nil, method, body), modernHeader(method, nil))
	if err != nil {
		return err
	}
	defer a.close()
	s.trace(TraceEvent{Kind: TraceHead, Status: a.status})
	if a.status < 200 || a.status > 299 {
		return s.refused(a)
	}
	return nil
}
