package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	methodCall   = "tools/call"
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"

	// maxRounds bounds how often a server may have a call sent again, and maxKeys how many questions a task may ask.
	maxRounds = 100
	maxKeys   = 10_000
)

// modernCall is what a call of the modern era has beside a Call. Only the call's goroutine uses it, but for task.
type modernCall struct {
	method string
	params map[string]json.RawMessage
	task   string               // the task's id; "": the call is not a task (yet). Guarded by Call.mu
	last   string               // the mark of what was said last
	asked  map[string]*question // the task's questions that were passed to OnRequest, by their keys
}

// newModernCall makes a call that sends a request of the modern era.
func (s *Session) newModernCall(ctx context.Context, method string, params json.RawMessage) (*Call, error) {
	members, err := modernMembers(params)
	if err != nil {
		return nil, err
	}
	c := s.makeCall(ctx, s.nextID())
	c.modern = &modernCall{method: method, params: members}
	return c, nil
}

// runModern sends the request, answers what the server asks, and follows the task that the call may become.
func (c *Call) runModern() {
	var err error
	if c.modern.task == "" {
		err = c.rounds()
	}
	if err == nil && c.modern.task != "" {
		err = c.followTask()
	}
	if cause := context.Cause(c.ctx); cause != nil && !c.ended() {
		err = cause
		c.cancelTask(cause)
	}
	c.finish(nil, withoutUnsent(err)) // does nothing if the response has come
}

// rounds sends the request until the server answers it with its result, which ends the call, or with a task.
//
// SEP-2322: to an answer with questions, the same request is sent again with a new id and the answers. The server keeps nothing in between.
func (c *Call) rounds() error {
	params, id := c.modern.params, c.id
	for n := 1; n <= maxRounds; n++ {
		r := modernRequest{id: id, stream: c.id, method: c.modern.method, params: params, logs: true}
		if r.method == methodCall {
			r.header = c.s.argumentHeaders(params)
		}
		raw, err := c.s.ask(c.ctx, r, c.noted)
		if c.s.learnHeaders(c.ctx, c, err) {
			id = c.s.nextID()
			continue
		}
		if err != nil {
			return err
		}
		kind, _ := jsonrpc.Field(raw, "resultType")
		switch name, _ := jsonrpc.Unquote(kind); {
		case len(kind) == 0, name == "complete":
			c.finish(raw, nil)
			return nil
		case name == "task" && c.modern.method == methodCall:
			return c.becomeTask(raw)
		case name == "input_required":
			if params, err = c.nextRound(raw, n); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: a result whose type is %.40q", ErrProtocol, name)
		}
		id = c.s.nextID()
	}
	return fmt.Errorf("%w: %d rounds of questions", ErrProtocol, maxRounds)
}

// noted makes a message of a notification on the call's stream. A task says the newest progress again, so that is remembered as said.
func (c *Call) noted(m jsonrpc.Message) bool {
	if string(m.Method) == "notifications/progress" {
		c.said(progressText(m.Params))
	}
	return c.push(Message{string(m.Method), m.Params}, c.stream.at)
}

// progressText is what servers that have no other place for it say of a progress in a task: the message, or without one the numbers.
func progressText(params []byte) string {
	var p struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	_ = json.Unmarshal(params, &p) // what is missing stays empty
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case p.Message != "":
		return p.Message
	case p.Total != 0:
		return number(p.Progress) + " of " + number(p.Total)
	}
	return number(p.Progress)
}

// nextRound answers the questions of a result, and returns the params for the next request.
func (c *Call) nextRound(raw []byte, n int) (map[string]json.RawMessage, error) {
	var r struct {
		Questions map[string]inputRequest `json:"inputRequests"`
		State     json.RawMessage         `json:"requestState"`
	}
	if err := decodeResult(raw, &r); err != nil {
		return nil, err
	}
	params := maps.Clone(c.modern.params)
	if !isNull(r.State) {
		params["requestState"] = r.State
	}
	switch {
	case len(r.Questions) > 0:
		answers, err := c.answerAll(r.Questions)
		params["inputResponses"] = object(answers)
		return params, err
	case isNull(r.State):
		return nil, fmt.Errorf("%w: input_required without a question and without a requestState", ErrProtocol)
	}
	return params, sleep(c.ctx, jitter(c.s.backoff(n))) // the server is busy
}

// becomeTask notes the task that the server has made of the call. Its first state is asked for with the first poll.
func (c *Call) becomeTask(raw []byte) error {
	t, err := decodeTask(raw)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.modern.task = t.ID
	c.mu.Unlock()
	c.stream.retry = t.interval()
	c.s.trace(TraceEvent{Kind: TraceTask, Stream: c.id, EventID: t.ID, State: t.Status}) // Config.Trace may rely on Token
	if !c.say(t) {
		return context.Cause(c.ctx)
	}
	return c.stream.wait(c.ctx)
}
