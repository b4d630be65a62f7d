package client

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	// answerAttempts is how often an answer is sent until the server accepts it, since a tool waits for it. A second copy does no harm.
	answerAttempts = 3
	// maxAsked is how many of the server's requests are answered at a time. While there are more, their streams are not read.
	maxAsked = 64
)

// question is a request of the server that is being answered.
type question struct {
	cancel context.CancelFunc
	wanted bool // false: the server has withdrawn it. Guarded by Session.mu
}

// asked answers m, a request of the server, in a goroutine of its own. ctx is the context of the stream that m came on. done is called
// when m is dealt with, but not if ctx ends first: then a Resume of the stream gets m again.
func (s *Session) asked(ctx context.Context, m jsonrpc.Message, done func()) {
	select {
	case s.asking <- struct{}{}:
	case <-ctx.Done():
		return
	}
	id := string(jsonrpc.Key(m.ID))
	asking, cancel := context.WithCancel(ctx)
	q := &question{cancel: cancel, wanted: true}
	s.mu.Lock()
	twice := s.questions[id] != nil
	if !twice {
		s.questions[id] = q
	}
	s.mu.Unlock()
	if twice || !s.spawn(func() {
		defer func() { <-s.asking }()
		defer cancel()
		if s.answer(asking, m, q) {
			done()
		}
	}) {
		cancel()
		<-s.asking
	}
}

// answer makes the answer to m and sends it. It returns false if the stream or the session ended before that.
func (s *Session) answer(ctx context.Context, m jsonrpc.Message, q *question) bool {
	body := s.reply(ctx, m)
	s.mu.Lock()
	wanted := q.wanted
	if wanted {
		delete(s.questions, string(jsonrpc.Key(m.ID)))
	}
	s.mu.Unlock()
	switch {
	case !wanted:
		return true
	case body == nil, s.ctx.Err() != nil:
		return false
	}
	var err error
	for n := range answerAttempts {
		if n > 0 && sleep(s.ctx, s.backoff(n)) != nil {
			return false
		}
		s.trace(TraceEvent{Kind: TracePost})
		var refusal *StatusError
		if err = s.send(s.ctx, body); err == nil || errors.As(err, &refusal) && !transient(refusal.Status) {
			break
		}
	}
	if s.ctx.Err() != nil {
		return false
	}
	if err != nil {
		s.cfg.Logger.Warn("client: an answer could not be sent", "method", string(m.Method), "error", err)
	}
	return true
}

// reply returns the answer to m as JSON-RPC, or nil if ctx ended before there was one.
func (s *Session) reply(ctx context.Context, m jsonrpc.Message) []byte {
	var result any = struct{}{}
	var err error
	switch {
	case string(m.Method) == "ping":
	case s.cfg.OnRequest == nil:
		err = &Error{Code: rejoin.CodeMethodNotFound, Message: "this client answers no such request"}
	default:
		if result, err = s.onRequest(ctx, m); err != nil && ctx.Err() != nil {
			return nil
		}
	}
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(result)
	}
	if err == nil {
		return jsonrpc.AppendResult(nil, m.ID, raw)
	}
	var e *Error
	if !errors.As(err, &e) || len(e.Data) > 0 && !json.Valid(e.Data) {
		s.cfg.Logger.Error("client: Config.OnRequest failed", "method", string(m.Method), "error", err)
		e = &Error{Code: rejoin.CodeInternal, Message: "internal error"}
	}
	return jsonrpc.AppendError(nil, m.ID, e.Code, e.Message, e.Data)
}

// onRequest calls Config.OnRequest. A panic in it is logged and becomes an error, so that the server gets an answer.
func (s *Session) onRequest(ctx context.Context, m jsonrpc.Message) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.Logger.Error("client: Config.OnRequest panicked", "method", string(m.Method), "panic", v, "stack", string(debug.Stack()))
			err = &Error{Code: rejoin.CodeInternal, Message: "internal error"}
		}
	}()
	return s.cfg.OnRequest(ctx, string(m.Method), m.Params)
}

// withdrawn stops the answer to a request that the server has cancelled. params are those of notifications/cancelled.
func (s *Session) withdrawn(params []byte) {
	raw, _ := jsonrpc.Field(params, "requestId")
	id := string(jsonrpc.Key(raw))
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.questions[id]; q != nil {
		q.wanted = false
		delete(s.questions, id)
		q.cancel()
	}
}
