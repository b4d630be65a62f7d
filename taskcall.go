package rejoin

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// taskCall is a tools/call of the modern era that may become a task. Until then it ends with its request. Afterwards the app's handler runs on, and
// what it writes goes to the task. It implements engine.TaskHost.
type taskCall struct {
	call      *modernCall
	principal string
	body      []byte
	request   *http.Request // for the handler, without its body
	handler   http.Handler
	started   time.Time
	ctx       context.Context // of the handler
	cancel    context.CancelCauseFunc
	client    context.Context // ends when the client disconnects from the request
	returned  func()          // of the handler that the request has started
	asked     chan struct{}   // receives: make the task now
	decided   chan struct{}   // closed: the task was made, or it was tried
	unwatch   func() bool     // a disconnect ends the call no longer

	mu      sync.Mutex
	cfg     core.TaskConfig // for the task that is not made yet; MaxRuntime counts from the beginning of the call
	message string          // of the progress so far

	task      atomic.Pointer[engine.Task]
	questions atomic.Uint64 // asked by Handle.Ask
	rounds    uint32        // of questions that the handler has returned; used by one handler after the other
	state     []byte        // the requestState of the last round, as JSON; nil: none
}

var _ engine.TaskHost = (*taskCall)(nil)

// newTaskCall makes the call of a request that can become a task. It keeps body.
func newTaskCall(c *modernCall, r *http.Request, body []byte, p Policy) *taskCall {
	return &taskCall{
		call: c, principal: c.srv.principal(r), body: body, started: time.Now(), asked: make(chan struct{}, 1), decided: make(chan struct{}),
		cfg: core.TaskConfig{TTL: c.srv.cfg.Tasks.TTL, AbandonAfter: p.AbandonAfter, MaxRuntime: p.MaxRuntime},
	}
}

// begin is called before the handler is started. client ends with the request, ctx is the handler's.
func (t *taskCall) begin(ctx context.Context, cancel context.CancelCauseFunc, client context.Context, plan *modernPlan) *respond.Leave {
	t.ctx, t.cancel, t.client, t.handler, t.request = ctx, cancel, client, plan.handler, plan.request
	t.watchClient()
	return &respond.Leave{After: plan.after, Asked: t.asked, Answer: t.makeTask, Failed: func() { t.task.Load().Discard() }}
}

// watchClient ends the call when the client disconnects (cancellation, "HTTP", 2026-07-28).
func (t *taskCall) watchClient() {
	t.unwatch = context.AfterFunc(t.client, func() { t.cancel(context.Cause(t.client)) })
}

// makeTask makes the task and the answer that tells the client of it. The task can be asked for before that answer leaves. Nil: the call goes on
// as it is.
func (t *taskCall) makeTask() ([]byte, *respond.Collector) {
	defer close(t.decided)
	srv := t.call.srv
	if !t.unwatch() { // the client has gone
		return nil, nil
	}
	t.mu.Lock()
	cfg, message := t.cfg, t.message
	t.mu.Unlock()
	if cfg.MaxRuntime > 0 {
		cfg.MaxRuntime = max(cfg.MaxRuntime-time.Since(t.started), 1)
	}
	task := srv.tasks.Start(t, t.principal, cfg)
	if task == nil {
		srv.logTasksFull()
		t.watchClient()
		return nil, nil
	}
	srv.stats.tasks.Add(1)
	if message != "" {
		task.Note(message)
	}
	t.task.Store(task)
	view, _ := task.View()
	answer := jsonrpc.AppendResult(nil, t.call.id, srv.appendTask(nil, "task", &view))
	return answer, t.collector(t.returned)
}

// collector takes what one run of the handler writes. returned is called when it has ended.
func (t *taskCall) collector(returned func()) *respond.Collector {
	run := &taskRun{taskCall: t, returned: returned}
	return &respond.Collector{Message: run.receive, Ended: run.end, Limit: engine.MaxEventBytes}
}

// made returns the task, or nil as long as there is none. t may be nil.
func (t *taskCall) made() *engine.Task {
	if t == nil {
		return nil
	}
	return t.task.Load()
}

// askForTask makes the call a task soon.
func (t *taskCall) askForTask() {
	select {
	case t.asked <- struct{}{}:
	default:
	}
}

// Cancel ends the call: it implements engine.TaskHost.
func (t *taskCall) Cancel(why core.Reason) { t.cancel(causeOf(why)) }

// Failure returns an error response: it implements engine.TaskHost.
func (t *taskCall) Failure(why core.Reason) []byte {
	f := failure(why)
	return jsonrpc.AppendError(nil, t.call.id, f.Code, f.Message, f.Data)
}

// Report logs what an operator should know: it implements engine.TaskHost.
func (t *taskCall) Report(e engine.Event) {
	switch e.Kind {
	case engine.StoreFailed:
		t.call.srv.logTaskStoreFailed(e.Err)
	case engine.Panicked:
		t.call.srv.logPanic(e.Where, e.Value, e.Stack)
	}
}

// Resume runs the handler again, with the client's answers: it implements engine.TaskHost. SDKs keep nothing of a call that has asked, so it
// runs from its beginning (multi round-trip requests, SEP-2322).
func (t *taskCall) Resume(answers map[string][]byte) {
	own := make(map[string]json.RawMessage, len(answers))
	for key, answer := range answers {
		own[ownKey(key)] = answer
	}
	t.runAgain(own)
}

// runAgain runs the handler with answers, as if the client had sent the call again.
func (t *taskCall) runAgain(answers map[string]json.RawMessage) {
	body, err := withAnswers(t.body, answers, t.state)
	if err != nil { // not reached: the body was parsed before
		t.fail(Errorf(CodeInternal, "internal error"))
		t.cancel(nil)
		return
	}
	request := modernRequest(t.request.WithContext(t.ctx), body)
	respond.Collect(t.handler, request, t.collector(t.call.srv.countUnreturned(t.ctx)))
}

// fail ends the task with an error.
func (t *taskCall) fail(e *Error) {
	t.made().End(core.TaskFailed, shorten(e.Message), errorMessage(t.call, t.call.id, e))
}
