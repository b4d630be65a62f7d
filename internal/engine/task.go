package engine

import (
	"sync"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Task is one task: its machine, the result of its call, its questions and those that watch it. Tasks.Start makes it. Safe for concurrent use.
type Task struct {
	tasks     *Tasks
	host      TaskHost
	id        string
	principal string
	created   time.Time
	log       eventstore.Log // keeps the response of the call, its only event

	mu        sync.Mutex
	m         core.Task
	outs      []core.TaskOut // scratch
	timer     *time.Timer
	armed     time.Duration // when it fires, in the task's life; 0: it does not
	questions map[string]*TaskQuestion
	answers   map[string][]byte // to the questions of the current round
	response  []byte            // of the call, where the store does not have it; nil: the store has it, or there is none
	watchers  map[*TaskWatcher]struct{}
	dropped   bool
}

// TaskHost is the call behind a task, as the task sees it. Its methods are called without a lock, from any goroutine, but Failure under the
// task's lock.
type TaskHost interface {
	// Cancel ends the call.
	Cancel(why core.Reason)
	// Resume goes on with a call that has asked. answers are those to all questions of the round, by key.
	Resume(answers map[string][]byte)
	// Failure is the JSON-RPC error response that takes the place of the response.
	Failure(why core.Reason) []byte
	// Report tells what an operator should know.
	Report(e Event)
}

// TaskQuestion is a question to the client.
type TaskQuestion struct {
	Key     string // never used twice in a task
	Request []byte // its method and params, a JSON object
	Round   uint32 // as in core.TaskQuestion
	// Answer gets the client's answer, or nil and why there is none. It must not wait, and is not called after Withdraw. Nil where
	// Round is not 0.
	Answer func(result []byte, why core.Reason)
}

// TaskView is what a client sees of a task.
type TaskView struct {
	core.TaskInfo

	ID        string
	Questions []TaskQuestion // that wait for an answer
	Response  []byte         // of the call, if the task is completed or failed
}

// ID is what clients name the task by. It cannot be guessed.
func (t *Task) ID() string { return t.id }

// taskPass is what a step leaves to do without the lock.
type taskPass struct {
	taken   []taken
	resume  map[string][]byte
	cancel  core.Reason
	orphans []*TaskQuestion // no answer comes to them any more
	why     core.Reason     // no answer comes
	drop    bool
}

// taken is a question whose answer has come.
type taken struct {
	question *TaskQuestion
	result   []byte
}

// do takes one step and does what it asks for. results are those of a TaskAnswer, by key.
func (t *Task) do(in core.TaskIn, results map[string][]byte) {
	var p taskPass
	t.mu.Lock()
	t.step(&in, results, &p)
	t.mu.Unlock()
	t.finish(&p)
}

// step feeds the machine. Under the lock.
func (t *Task) step(in *core.TaskIn, results map[string][]byte, p *taskPass) {
	now := time.Now()
	before := t.standing()
	t.outs = t.m.Step(now, in, t.outs[:0])
	for i := range t.outs {
		t.obey(&t.outs[i], results, p)
	}
	t.tasks.count(before, t.standing())
	if at := t.m.Deadline(); !at.IsZero() {
		t.arm(at.Sub(t.created), now.Sub(t.created))
	}
}

// arm sets the timer if it must fire sooner than it is set to. It often fires too early; setting it at each step would cost more.
func (t *Task) arm(due, now time.Duration) {
	if t.armed != 0 && due >= t.armed {
		return
	}
	t.armed = due
	if t.timer == nil {
		t.timer = time.AfterFunc(due-now, t.tick)
		return
	}
	t.timer.Reset(due - now)
}

func (t *Task) tick() {
	var p taskPass
	t.mu.Lock()
	t.armed = 0
	t.step(&core.TaskIn{Op: core.TaskTick}, nil, &p)
	t.mu.Unlock()
	t.finish(&p)
}

// obey does at once what is only bookkeeping, and leaves the rest to finish. Under the lock.
func (t *Task) obey(o *core.TaskOut, results map[string][]byte, p *taskPass) {
	switch o.Do {
	case core.ShowTask:
		for w := range t.watchers {
			w.note(t)
		}
	case core.TakeAnswer:
		q := t.questions[o.Key]
		delete(t.questions, o.Key)
		if q.Answer != nil {
			p.taken = append(p.taken, taken{q, results[o.Key]})
			return
		}
		if t.answers == nil {
			t.answers = make(map[string][]byte)
		}
		t.answers[o.Key] = results[o.Key]
	case core.ResumeTask:
		p.resume, t.answers = t.answers, nil
	case core.EndCall:
		p.cancel = o.Reason
		t.orphan(o.Reason, p)
	case core.FailTask:
		t.response = t.host.Failure(o.Reason)
	case core.DropTask:
		t.dropped, p.drop = true, true
		t.watchers = nil
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}

// finish does what a step has left. Without the lock.
func (t *Task) finish(p *taskPass) {
	if p.cancel != core.NoReason {
		t.host.Cancel(p.cancel)
	}
	for _, a := range p.taken {
		a.question.Answer(a.result, core.NoReason)
	}
	for _, q := range p.orphans {
		q.Answer(nil, p.why)
	}
	if p.resume != nil {
		t.host.Resume(p.resume)
	}
	if p.drop {
		t.tasks.remove(t)
		t.tasks.engine.aside(t.dropLog)
	}
}

// Note shows the client what the call says of its progress.
func (t *Task) Note(message string) { t.do(core.TaskIn{Op: core.TaskNote, Message: message}, nil) }

// Ask asks the client. It reports whether the task goes on; otherwise no answer comes.
func (t *Task) Ask(questions []*TaskQuestion) bool {
	in := core.TaskIn{Op: core.TaskAsk, Questions: make([]core.TaskQuestion, len(questions))}
	for i, q := range questions {
		in.Questions[i] = core.TaskQuestion{Key: q.Key, Round: q.Round}
	}
	var p taskPass
	t.mu.Lock()
	open := !t.dropped && !t.m.Status().Final()
	if open {
		if t.questions == nil {
			t.questions = make(map[string]*TaskQuestion, len(questions))
		}
		for _, q := range questions {
			t.questions[q.Key] = q
		}
		t.step(&in, nil, &p)
	}
	t.mu.Unlock()
	t.finish(&p)
	return open
}

// Withdraw takes a question back.
func (t *Task) Withdraw(key string) {
	var p taskPass
	t.mu.Lock()
	delete(t.questions, key)
	t.step(&core.TaskIn{Op: core.TaskWithdraw, Keys: []string{key}}, nil, &p)
	t.mu.Unlock()
	t.finish(&p)
}

// Answer is the client's answers, by key. Those to what is not asked have no effect.
func (t *Task) Answer(results map[string][]byte) {
	in := core.TaskIn{Op: core.TaskAnswer, Keys: make([]string, 0, len(results))}
	for key := range results {
		in.Keys = append(in.Keys, key)
	}
	t.do(in, results)
}

// End is the response of the call: a result if status is core.TaskCompleted, an error if it is core.TaskFailed. message is shown if it is not
// empty. It returns when the response can be read.
func (t *Task) End(status core.TaskStatus, message string, response []byte) {
	t.mu.Lock()
	open := !t.dropped && !t.m.Status().Final()
	t.mu.Unlock()
	if !open {
		return
	}
	kept := t.record(response)
	var p taskPass
	t.mu.Lock()
	if !t.m.Status().Final() && !kept {
		t.response = response
	}
	t.step(&core.TaskIn{Op: core.TaskEnd, Status: status, Message: message}, nil, &p)
	t.orphan(core.Ended, &p) // the call has asked and not waited
	t.mu.Unlock()
	t.finish(&p)
}

// orphan gives up what the call has asked. Under the lock.
func (t *Task) orphan(why core.Reason, p *taskPass) {
	for _, q := range t.questions {
		if q.Answer != nil {
			p.orphans, p.why = append(p.orphans, q), why
		}
	}
	t.questions, t.answers = nil, nil
}

// Cancel is the client's cancellation.
func (t *Task) Cancel() { t.do(core.TaskIn{Op: core.TaskCancel}, nil) }

// Stop ends the task, because the server ends.
func (t *Task) Stop() { t.do(core.TaskIn{Op: core.TaskStop}, nil) }

// View is what the client sees now, which has asked. core.Unknown: the task is not kept any more. core.StoreFailed: the store failed to return
// the response; it may do so later.
func (t *Task) View() (v TaskView, why core.Reason) {
	t.do(core.TaskIn{Op: core.TaskSeen}, nil)
	for {
		v, stored, ok := t.look()
		switch {
		case !ok:
			return v, core.Unknown
		case !stored:
			return v, core.NoReason
		}
		response, lost, err := t.load()
		switch {
		case err != nil:
			return v, core.StoreFailed
		case lost == core.NoReason:
			v.Response = response
			return v, core.NoReason
		}
		t.do(core.TaskIn{Op: core.TaskLost, Reason: lost}, nil) // which puts an error in its place
	}
}

// look is View without the response if the store has it.
func (t *Task) look() (v TaskView, stored, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped {
		return v, false, false
	}
	v = TaskView{TaskInfo: t.m.Info(time.Now()), ID: t.id, Response: t.response}
	for _, waiting := range v.Waiting {
		v.Questions = append(v.Questions, *t.questions[waiting.Key])
	}
	stored = t.response == nil && (v.Status == core.TaskCompleted || v.Status == core.TaskFailed)
	return v, stored, true
}

// Fetched says that the client was given what a View of an ended task showed.
func (t *Task) Fetched() {
	t.markFetched()
	t.do(core.TaskIn{Op: core.TaskFetched}, nil)
}

// Final reports whether the task has ended.
func (t *Task) Final() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m.Status().Final()
}

// Discard forgets a task whose client was not told of it, and ends its call.
func (t *Task) Discard() { t.do(core.TaskIn{Op: core.TaskDiscard}, nil) }

// Adjust changes how the task behaves, as core.TaskAdjust.
func (t *Task) Adjust(cfg core.TaskConfig) { t.do(core.TaskIn{Op: core.TaskAdjust, Config: cfg}, nil) }

// standing is how a task counts for a drain.
func (t *Task) standing() standing {
	switch {
	case t.dropped:
		return standing{}
	case !t.m.Status().Final():
		return standing{running: 1}
	case !t.m.Fetched():
		return standing{unfetched: 1}
	}
	return standing{}
}

type standing struct{ running, unfetched int64 }
