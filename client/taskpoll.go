package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	// taskFloor and taskCeiling bound the time between two polls of a task, whatever the server asks for.
	taskFloor   = 50 * time.Millisecond
	taskCeiling = time.Minute
)

// followTask polls the task until it has ended. The first poll is made at once.
func (c *Call) followTask() error {
	defer c.withdrawAll()
	for {
		t, err := c.getTask()
		switch {
		case err == nil:
			if ended, err := c.taken(t); ended || err != nil {
				return err
			}
		case err != errEnded: //nolint:errorlint // never wrapped
			return err
		}
		if err := c.stream.wait(c.ctx); err != nil {
			return err
		}
	}
}

// getTask asks for the task's state once. It returns errEnded if it may be asked for again.
func (c *Call) getTask() (task, error) {
	id := c.modern.task
	r := modernRequest{
		id: c.s.nextID(), stream: c.id, method: methodGet, idle: c.s.cfg.IdleTimeout, params: map[string]json.RawMessage{"taskId": text(id)},
	}
	raw, err := c.s.ask(c.ctx, r, nil)
	if err != nil {
		return task{}, c.pollFailed(err)
	}
	t, err := decodeDetailed(raw, id)
	if err != nil {
		return task{}, err
	}
	c.stream.failed, c.stream.retry = 0, t.interval()
	c.s.trace(TraceEvent{Kind: TraceTask, Stream: c.id, EventID: id, State: t.Status})
	return t, nil
}

// pollFailed decides about a poll that brought no state. It returns errEnded if there may be another one.
func (c *Call) pollFailed(err error) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if paused, ok := errors.AsType[pausedError](err); ok {
		c.stream.pause, err = paused.pause, paused.error
	}
	refusal, refused := errors.AsType[*StatusError](err)
	e, answered := errors.AsType[*Error](err)
	connection, broken := errors.AsType[lostError](err)
	switch {
	case refused && transient(refusal.Status), isUnsent(err):
		return c.stream.fail(withoutUnsent(err))
	case broken:
		return c.stream.fail(connection.err)
	case refused, !answered:
		return err
	case e.Code == rejoin.CodeInvalidParams:
		return fmt.Errorf("%w: %w", ErrExpired, e)
	case e.Code == rejoin.CodeInternal: // of the poll, which says nothing about the call
		return c.stream.fail(err)
	}
	return fmt.Errorf("client: the server does not tell how the task is: %v", e) //nolint:errorlint // *Error would be the answer to the call
}

// taken handles a state of the task, and reports whether it was the last one.
func (c *Call) taken(t task) (ended bool, err error) {
	if !c.say(t) {
		return false, context.Cause(c.ctx)
	}
	switch t.Status {
	case taskCompleted:
		c.finish(t.Result, nil)
	case taskFailed:
		c.answered(jsonrpc.Message{Kind: jsonrpc.Failure, Err: t.Err})
	case taskCancelled:
		return true, ErrNoResponse
	default:
		return false, c.askedInTask(t)
	}
	return true, nil
}

// say makes a message of what the server says about the task, if it is new. The task's id is not in it: it is a secret. It returns false if
// the call has ended.
func (c *Call) say(t task) bool {
	if t.Message == "" || !c.said(t.Message) {
		return true
	}
	params := map[string]json.RawMessage{"status": text(t.Status), "statusMessage": text(t.Message)}
	if t.Updated != "" {
		params["lastUpdatedAt"] = text(t.Updated)
	}
	return c.push(Message{"notifications/tasks", object(params)}, c.stream.at)
}

// said moves the call's position to a text that the server has said, and reports whether it is another than the one before.
func (c *Call) said(text string) bool {
	sum := sha256.Sum256([]byte(text))
	mark := hex.EncodeToString(sum[:8])
	if mark == c.modern.last {
		return false
	}
	c.modern.last = mark
	c.stream.at = position{c.stream.at.n + 1, mark}
	return true
}

// cancelTask asks the server to stop the task, unless the call was left to its token. A call that is not a task yet was cancelled when its
// connection ended.
func (c *Call) cancelTask(cause error) {
	if c.modern.task == "" || errors.Is(cause, ErrLeft) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), shortTimeout)
	defer cancel()
	for n := 1; ; n++ {
		r := modernRequest{id: c.s.nextID(), stream: c.id, method: methodCancel, idle: shortTimeout}
		r.params = map[string]json.RawMessage{"taskId": text(c.modern.task)}
		_, err := c.s.ask(ctx, r, nil)
		if !again(err) || sleep(ctx, c.s.backoff(n)) != nil {
			return // the call has ended here in any case
		}
	}
}

// again reports whether a request that may be repeated should be.
func again(err error) bool {
	refusal, refused := errors.AsType[*StatusError](err)
	_, broken := errors.AsType[lostError](err)
	return refused && transient(refusal.Status) || broken || isUnsent(err)
}

func text(s string) json.RawMessage { return jsonrpc.AppendString(nil, s) }
