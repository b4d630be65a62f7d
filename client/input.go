package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// The questions of the modern era are not requests, but parts of results. Their answers are bare results: there is no form for an error.

// input answers a question. Errors: ErrUnanswered; the cause of ctx.
func (s *Session) input(ctx context.Context, q inputRequest) (json.RawMessage, error) {
	var raw json.RawMessage
	var err error
	if s.cfg.OnRequest == nil {
		err = &Error{Code: rejoin.CodeMethodNotFound, Message: "this client answers no such request"}
	} else {
		var result any
		if result, err = s.onRequest(ctx, jsonrpc.Message{Method: []byte(q.Method), Params: q.Params}); err == nil {
			raw, err = json.Marshal(result)
		}
	}
	if err == nil || ctx.Err() != nil {
		return raw, context.Cause(ctx)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		err = e
	} else {
		s.cfg.Logger.Error("client: Config.OnRequest failed", "method", q.Method, "error", err)
		err = errors.New("internal error")
	}
	switch q.Method {
	case "elicitation/create":
		return json.RawMessage(`{"action":"decline"}`), nil
	case "roots/list":
		return json.RawMessage(`{"roots":[]}`), nil
	}
	return nil, fmt.Errorf("%w: %.80q: %v", ErrUnanswered, q.Method, err) //nolint:errorlint // an *Error would be the server's
}

// answerAll answers the questions of a call that is not a task, at the same time. Answers that the call does not wait for are given up.
func (c *Call) answerAll(questions map[string]inputRequest) (map[string]json.RawMessage, error) {
	ctx, stop := context.WithCancelCause(c.ctx)
	defer stop(nil)
	var mu sync.Mutex
	var work sync.WaitGroup
	answers := make(map[string]json.RawMessage, len(questions))
	for key, q := range questions {
		if !c.s.inTurn(ctx, &work, func() {
			answer, err := c.s.input(ctx, q)
			if err != nil {
				stop(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[key] = answer
		}) {
			stop(context.Cause(c.s.ctx)) // if it is not the call that has ended
			break
		}
	}
	work.Wait()
	return answers, context.Cause(ctx)
}

// inTurn runs f in a goroutine of its own as soon as fewer than maxAsked questions are being answered. It returns false if ctx or the session
// ended before.
func (s *Session) inTurn(ctx context.Context, work *sync.WaitGroup, f func()) bool {
	select {
	case s.asking <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	work.Add(1)
	if !s.spawn(func() {
		defer work.Done()
		defer func() { <-s.asking }()
		f()
	}) {
		work.Done()
		<-s.asking
		return false
	}
	return true
}

// askedInTask answers the questions of a task that are new, and gives up those that the server has withdrawn. Each key is answered once.
func (c *Call) askedInTask(t task) error {
	m := c.modern
	for key, q := range m.asked {
		if _, open := t.Questions[key]; !open || t.Status != taskInput {
			q.cancel() // but it stays known: servers may be slow to forget a question
		}
	}
	if t.Status != taskInput {
		return nil
	}
	if m.asked == nil {
		m.asked = map[string]*question{}
	}
	for key, q := range t.Questions {
		if m.asked[key] != nil {
			continue
		}
		if len(m.asked) == maxKeys {
			return fmt.Errorf("%w: %d questions of a task", ErrProtocol, maxKeys)
		}
		ctx, cancel := context.WithCancel(c.ctx)
		m.asked[key] = &question{cancel: cancel}
		if !c.s.inTurn(ctx, new(sync.WaitGroup), func() {
			defer cancel()
			c.answerTask(ctx, m.task, key, q)
		}) {
			cancel()
			return context.Cause(c.ctx)
		}
	}
	return nil
}

// answerTask answers one question of a task. It tries to send the answer until the server takes it or no longer wants it.
func (c *Call) answerTask(ctx context.Context, id, key string, q inputRequest) {
	answer, err := c.s.input(ctx, q)
	if err != nil {
		if errors.Is(err, ErrUnanswered) {
			c.stop(err)
		}
		return
	}
	r := modernRequest{stream: c.id, method: methodUpdate, idle: c.s.cfg.IdleTimeout}
	r.params = map[string]json.RawMessage{"taskId": text(id), "inputResponses": object(map[string]json.RawMessage{key: answer})}
	for n := 1; ; n++ {
		r.id = c.s.nextID()
		_, err := c.s.ask(ctx, r, nil)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case !again(err):
			c.s.cfg.Logger.Warn("client: an answer could not be sent", "method", q.Method, "error", err)
			return
		}
		if sleep(ctx, jitter(c.s.backoff(n))) != nil {
			return
		}
	}
}

// withdrawAll gives up all questions of a task that has ended.
func (c *Call) withdrawAll() {
	for _, q := range c.modern.asked {
		q.cancel()
	}
}
