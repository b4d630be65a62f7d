package rejoin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

// closeStream makes the call a task, as Handle.CloseStream does. m may be nil.
func (m *modernCall) closeStream() error {
	switch {
	case m == nil:
		return ErrNoCall
	case m.task == nil:
		m.srv.warnOnce(warnModernClose, "rejoin: CloseStream has no effect for a client of the modern era that has not declared "+tasksExtension)
		return ErrNotResumable
	case m.ctx.Err() != nil:
		return ErrEnded
	case !m.resumable():
		return ErrNotResumable
	}
	m.task.askForTask()
	return nil
}

// resumable reports whether the call is a task or can become one. m may be nil.
func (m *modernCall) resumable() bool {
	if m == nil || m.task == nil || m.ctx.Err() != nil {
		return false
	}
	m.task.mu.Lock()
	defer m.task.mu.Unlock()
	task := m.task.made()
	return task == nil && !m.task.tried || task != nil && !task.Final()
}

// setPolicy changes what holds for the task. m may be nil.
func (m *modernCall) setPolicy(p Policy) error {
	switch {
	case m == nil:
		return ErrNoCall
	case m.task == nil:
		return ErrNotResumable // nothing of it would have an effect
	}
	t := m.task
	t.mu.Lock()
	if task := t.made(); task != nil {
		t.mu.Unlock()
		if p.MaxRuntime > 0 { // a task counts from when it was made
			p.MaxRuntime = max(p.MaxRuntime-t.before, 1)
		}
		task.Adjust(core.TaskConfig{AbandonAfter: p.AbandonAfter, MaxRuntime: p.MaxRuntime})
		return nil
	}
	defer t.mu.Unlock()
	if p.AbandonAfter != 0 {
		t.cfg.AbandonAfter = p.AbandonAfter
	}
	if p.MaxRuntime != 0 {
		t.cfg.MaxRuntime = p.MaxRuntime
	}
	return nil
}

// ask asks the client in a task, as Handle.Ask does. m may be nil.
func (m *modernCall) ask(ctx context.Context, method string, params, result any) error {
	if m == nil {
		return ErrNoCall
	}
	raw, err := marshalParams(params)
	switch { // what cannot be asked makes no task
	case err != nil:
		return err
	case m.task == nil:
		return ErrNotResumable
	case len(raw) > engine.MaxEventBytes:
		return ErrTooLarge
	}
	if err = m.offersAll(requiredCapabilities(method, raw), method); err != nil {
		return err
	}
	task, err := m.waitForTask(ctx)
	if err != nil {
		return err
	}
	type answer struct {
		raw json.RawMessage
		why core.Reason
	}
	answers := make(chan answer, 1)
	q := &engine.TaskQuestion{
		Key: "q" + strconv.FormatUint(m.task.questions.Add(1), 10), Request: appendQuestion(nil, method, raw),
		Answer: func(raw []byte, why core.Reason) { answers <- answer{raw, why} },
	}
	if !task.Ask([]*engine.TaskQuestion{q}) {
		return m.endedCause()
	}
	select {
	case a := <-answers:
		switch {
		case a.why != core.NoReason:
			return causeOf(a.why)
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(a.raw, result); err != nil {
			return fmt.Errorf("rejoin: the client's answer to %s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
	}
	task.Withdraw(q.Key)
	return context.Cause(ctx)
}

// waitForTask makes the call a task, and waits for it.
func (m *modernCall) waitForTask(ctx context.Context) (*engine.Task, error) {
	t := m.task
	switch {
	case m.ctx.Err() != nil:
		return nil, m.endedCause()
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if decision := t.decision(); decision != nil {
		t.askForTask()
		select {
		case <-decision:
		case <-m.ctx.Done():
			return nil, m.endedCause()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if task := t.made(); task != nil {
		return task, nil
	}
	return nil, ErrNotResumable
}

// endedCause returns why the call has ended.
func (m *modernCall) endedCause() error {
	switch cause := context.Cause(m.ctx); cause {
	case nil, context.Canceled: //nolint:errorlint // the request was answered
		return ErrEnded
	default:
		return cause
	}
}

// offersAll returns ErrNotOffered if the client's request does not declare a capability that a question needs.
func (m *modernCall) offersAll(paths [][]string, method string) error {
	for _, path := range paths {
		if !offers(modernCapabilitiesOf(m.params), path...) {
			return fmt.Errorf("%w: %s needs %s", ErrNotOffered, method, strings.Join(path, "."))
		}
	}
	return nil
}

// checkOffered returns the error that a call ends with whose handler asks for what its client cannot answer. request is the question.
func (m *modernCall) checkOffered(request []byte) *Error {
	raw, _ := jsonrpc.Field(request, "method")
	method, ok := jsonrpc.Unquote(raw)
	if !ok {
		return Errorf(CodeInternal, "internal error") // it is no question
	}
	params, _ := jsonrpc.Field(request, "params")
	for _, path := range requiredCapabilities(method, params) {
		if !offers(modernCapabilitiesOf(m.params), path...) {
			return &Error{
				Code: codeCapability, Message: "the client has not declared the capability " + strings.Join(path, "."), Data: requiredData(path...),
			}
		}
	}
	return nil
}

// requiredData is the data of an error for a capability that the client lacks.
func requiredData(path ...string) json.RawMessage {
	var data strings.Builder
	data.WriteString(`{"requiredCapabilities":`)
	for _, name := range path {
		data.WriteString(`{"` + name + `":`)
	}
	return json.RawMessage(data.String() + "{}" + strings.Repeat("}", len(path)+1))
}

// appendQuestion appends a question as inputRequests has it.
func appendQuestion(dst []byte, method string, params []byte) []byte {
	dst = jsonrpc.AppendString(append(dst, `{"method":`...), method)
	if len(params) > 0 {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// refuseUndeclared refuses a request that needs the tasks extension.
func refuseUndeclared(what string) *refusal {
	return &refusal{
		status: http.StatusBadRequest, code: codeCapability, data: string(requiredData("extensions", tasksExtension)),
		message: what + " needs the extension " + tasksExtension + " in the clientCapabilities of this request",
	}
}
