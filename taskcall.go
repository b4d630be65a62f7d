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
// what it writes goes to the task. It implements engine.TaskHost and respond.Leaver.
type taskCall struct {
	call      *modernCall
	principal string
	body      []byte
	request   *http.Request // of the handler's first run; its context is that of the call
	handler   http.Handler
	started   time.Time
	cancel    context.CancelCauseFunc
	client    context.Context // ends when the client disconnects from the request
	returned  func()          // of the handler that the request has started
	asked     chan struct{}   // receives: make the task now
	unwatch   func() bool     // a disconnect ends the call no longer

	mu      sync.Mutex
	tried   bool            // to make the task
	decided chan struct{}   // closed when tried is set; nil: nothing waits for that
	cfg     core.TaskConfig // for the task that is not made yet; MaxRuntime counts from the beginning of the call
	message string          // the last progress that Handle.Progress has reported
	// progress is the params of the last progress notification, if the app has sent one after that.
	progress []byte

	task      atomic.Pointer[engine.Task]
	questions atomic.Uint64 // asked by Handle.Ask
	rounds    uint32        // of questions that the handler has returned; used by one handler after the other
	state     []byte        // the requestState of the last round, as JSON; nil: none
}

var (
	_ engine.TaskHost = (*taskCall)(nil)
	_ respond.Leaver  = (*taskCall)(nil)
)

// newTaskCall makes the call of a request that can become a task. It keeps body.
func newTaskCall(c *modernCall, r *http.Request, body []byte, p Policy) *taskCall {
	return &taskCall{
		call: c, principal: c.srv.principal(r), body: body, started: time.Now(), asked: make(chan struct{}, 1),
		cfg: core.TaskConfig{TTL: c.srv.cfg.Tasks.TTL, AbandonAfter: p.AbandonAfter, MaxRuntime: p.MaxRuntime},
	}
}

// begin is called before the handler is started with request, whose context cancel ends. client ends when the client disconnects.
func (t *taskCall) begin(client context.Context, cancel context.CancelCauseFunc, request *http.Request, h http.Handler) {
	t.cancel, t.client, t.handler, t.request = cancel, client, h, request
	t.watchClient()
}

// makeAfter makes the task after that time, unless stop is called before. Not positive: never.
func (t *taskCall) makeAfter(d time.Duration) (stop func() bool) {
	if d <= 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(d, t.askForTask).Stop
}

// watchClient ends the call when the client disconnects (cancellation, "HTTP", 2026-07-28).
func (t *taskCall) watchClient() {
	t.unwatch = context.AfterFunc(t.client, func() { t.cancel(context.Cause(t.client)) })
}

// unwatchClient is called when the request was answered.
func (t *taskCall) unwatchClient() { t.unwatch() }

// Asked implements respond.Leaver.
func (t *taskCall) Asked() <-chan struct{} { return t.asked }

// Seen remembers the progress that the client was told of, for a task that is made later. It implements respond.Leaver.
func (t *taskCall) Seen(m *jsonrpc.Message) {
	if string(m.Method) == "notifications/progress" {
		t.mu.Lock()
		t.progress = m.Params
		t.mu.Unlock()
	}
}

// reported is Seen for Handle.Progress, which the client may not be told of.
func (t *taskCall) reported(text string) {
	t.mu.Lock()
	t.message, t.progress = text, nil
	t.mu.Unlock()
}

// Answer makes the task and the answer that tells the client of it. The task can be asked for before that answer leaves. Nil: the call goes on
// as it is. It implements respond.Leaver.
func (t *taskCall) Answer() ([]byte, *respond.Collector) {
	defer t.decide()
	srv := t.call.srv
	if !t.unwatch() { // the client has gone
		return nil, nil
	}
	task, message := t.start()
	if task == nil {
		srv.logTasksFull()
		t.watchClient()
		return nil, nil
	}
	srv.stats.tasks.Add(1)
	if message != "" {
		task.Note(message)
	}
	if srv.modernCtx.Err() != nil { // Close may not have seen it
		task.Stop()
	}
	view, _ := task.View()
	answer := jsonrpc.AppendResult(nil, t.call.id, srv.appendTask(nil, "task", &view))
	return answer, t.collector(t.returned)
}

// start makes the task. message is its progress so far. Nil: there are as many tasks as there may be.
func (t *taskCall) start() (task *engine.Task, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cfg, message := t.cfg, t.message
	if t.progress != nil {
		message = progressOf(t.progress)
	}
	if cfg.MaxRuntime > 0 {
		cfg.MaxRuntime = max(cfg.MaxRuntime-time.Since(t.started), 1)
	}
	task = t.call.srv.tasks.Start(t, t.principal, cfg)
	t.task.Store(task)
	return task, message
}

// Failed forgets the task: its client was not told of it. It implements respond.Leaver.
func (t *taskCall) Failed() { t.made().Discard() }

// decide tells those that wait whether there is a task.
func (t *taskCall) decide() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried = true
	if t.decided != nil {
		close(t.decided)
	}
}

// decision returns a channel that is closed when the task was made or cannot be made. Nil: that has happened.
func (t *taskCall) decision() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.tried:
		return nil
	case t.decided == nil:
		t.decided = make(chan struct{})
	}
	return t.decided
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
	ctx := t.call.ctx
	respond.Collect(t.handler, modernRequest(t.request.WithContext(ctx), body), t.collector(t.call.srv.countUnreturned(ctx)))
}

// fail ends the task with an error.
func (t *taskCall) fail(e *Error) {
	t.made().End(core.TaskFailed, shorten(e.Message), errorMessage(t.call, t.call.id, e))
}
