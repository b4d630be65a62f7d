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
	"github.com/rejoin-mcp/rejoin/internal/member"
	"github.com/rejoin-mcp/rejoin/internal/respond"
)

// taskCall is a tools/call of the modern era that may become a task. Until then it ends with its request. Afterwards the app's handler runs on, and
// what it writes goes to the task. It implements engine.TaskCall and respond.Leaver.
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

	mu      sync.Mutex      // held while the task is made
	tried   bool            // no task will be made any more
	decided chan struct{}   // closed when tried is set; nil: nothing waits for that
	cfg     core.TaskConfig // for the task that is not made yet; MaxRuntime counts from the beginning of the call
	message string          // of the progress so far
	before  time.Duration   // how long the call had run when the task was made

	task      atomic.Pointer[engine.Task]
	questions atomic.Uint64 // asked by Handle.Ask
	rounds    uint32        // of questions that the handler has returned; used by one handler after the other
	state     []byte        // the requestState of the last round, as JSON; nil: none
}

var (
	_ engine.TaskCall = (*taskCall)(nil)
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
	client := t.client // leave may run at the same time
	t.unwatch = context.AfterFunc(client, func() { t.cancel(context.Cause(client)) })
}

// leave is called when the request was answered. Nothing of it is kept.
func (t *taskCall) leave() {
	t.unwatch()
	t.unwatch, t.client = nil, nil
}

// Asked implements respond.Leaver.
func (t *taskCall) Asked() <-chan struct{} { return t.asked }

// Seen remembers the progress that the handler has written to the client. It implements respond.Leaver.
func (t *taskCall) Seen(m *jsonrpc.Message) {
	if string(m.Method) == "notifications/progress" {
		t.progressed(progressOf(m.Params))
	}
}

// progressed remembers the progress so far for the task, if the call becomes one. t may be nil.
func (t *taskCall) progressed(message string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.message = message
}

// Answer makes the task and the answer that tells the client of it. The task can be asked for before that answer leaves. Nil: the call goes on
// as it is. It implements respond.Leaver.
func (t *taskCall) Answer() ([]byte, *respond.Collector) {
	defer t.decide()
	srv := t.call.srv
	if !t.unwatch() { // the client has gone
		return nil, nil
	}
	task := t.startTask(srv.newTask(t.call, t.principal, &t.task))
	if task == nil {
		t.watchClient()
		return nil, nil
	}
	srv.stats.tasks.Add(1)
	view, _ := task.View()
	answer := jsonrpc.AppendResult(nil, t.call.id, srv.appendTask(nil, "task", &view))
	return answer, t.collector(t.returned)
}

// startTask makes the task, unless the call has ended or its client has gone.
func (t *taskCall) startTask(made newTask) *engine.Task {
	task := t.startMade(made)
	if task == nil {
		made.giveUp()
	}
	return task
}

func (t *taskCall) startMade(made newTask) *engine.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.call.ctx.Err() != nil || t.client.Err() != nil || made.id == "" { // the directory may have taken long
		return nil
	}
	cfg, srv := t.cfg, t.call.srv
	t.before = time.Since(t.started)
	if cfg.MaxRuntime > 0 {
		cfg.MaxRuntime = max(cfg.MaxRuntime-t.before, 1)
	}
	task := srv.tasks.StartOwned((*taskHost)(srv), t, t.principal, cfg, made.id, made.owner)
	if task == nil {
		return nil
	}
	if t.message != "" {
		task.Note(t.message)
	}
	t.task.Store(task)
	return task
}

// Failed forgets the task: its client was not told of it. It implements respond.Leaver.
func (t *taskCall) Failed() { t.made().Discard() }

// Stays tells those that wait for a task that there will be none. It implements respond.Leaver.
func (t *taskCall) Stays() { t.decide() }

// overran ends the call, because MaxRuntime is over. A task sees to that itself.
func (t *taskCall) overran() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made() == nil {
		t.cancel(ErrMaxRuntime)
	}
}

// decide tells those that wait whether there is a task. It may be called again.
func (t *taskCall) decide() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried = true
	if t.decided != nil {
		close(t.decided)
		t.decided = nil
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

// Cancel ends the call: it implements engine.TaskCall.
func (t *taskCall) Cancel(why core.Reason) { t.cancel(causeOf(why)) }

// Resume runs the handler again, with the client's answers: it implements engine.TaskCall. SDKs keep nothing of a call that has asked, so it
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

// taskHost is a Server as its tasks see it: it implements engine.TaskHost.
type taskHost Server

var _ engine.TaskHost = (*taskHost)(nil)

// Failure returns an error response.
func (h *taskHost) Failure(why core.Reason) []byte {
	f := failure(why)
	return jsonrpc.AppendError(nil, nil, f.Code, f.Message, f.Data)
}

// Parted remembers, in a cluster, a task that is about not to be found here any more, until the directory knows.
func (h *taskHost) Parted(t *engine.Task, forGood bool) {
	if record, ok := t.Owner().Record.(*member.Record); ok {
		h.node.noteEnded(record, forGood)
	}
}

// Report logs what an operator should know.
func (h *taskHost) Report(e engine.Event) {
	switch e.Kind {
	case engine.StoreFailed:
		(*Server)(h).logTaskStoreFailed(e.Err)
	case engine.Panicked:
		(*Server)(h).logPanic(e.Where, e.Value, e.Stack)
	}
}
