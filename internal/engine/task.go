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
	call      TaskCall // nil: the task has ended, and keeps nothing of its call
	id        string
	principal string

	mu        sync.Mutex
	m         core.Task
	timer     *time.Timer
	armed     time.Time                    // when it fires; zero: it does not
	questions map[string]*TaskQuestion     // the same as in m
	answers   map[uint32]map[string][]byte // by round: those of rounds that are not complete
	log       eventstore.Log               // that was given the response of the call, its only event; nil: none was
	response  []byte                       // of the call, where the store does not have it; nil: the store has it, or there is none
	watchers  map[*TaskWatcher]struct{}
	dropped   bool
	owned     *ownedTask // nil: outside a cluster
}

// TaskHost is what a task needs of the server around it.
type TaskHost interface {
	// Failure is the JSON-RPC error response that takes the place of the response. It may be called under the task's lock.
	Failure(why core.Reason) []byte
	// Report tells what an operator should know. It is called without a lock, from any goroutine.
	Report(e Event)
	// Parted says, in a cluster, that the task is about not to be found in this process any more: forGood, or because others may take it over. It
	// is called without a lock, from any goroutine.
	Parted(t *Task, forGood bool)
}

// TaskCall is the call behind a task, which the task lets go when it ends. Its methods are called without a lock, from any goroutine.
type TaskCall interface {
	// Cancel ends the call.
	Cancel(why core.Reason)
	// Resume goes on with a call that has asked. answers are those to all questions of the round, by key. It may come after a Cancel that
	// crosses it.
	Resume(answers map[string][]byte)
}

// TaskQuestion is a question to the client.
type TaskQuestion struct {
	Key     string // never used twice in a task
	Request []byte // its method and params, a JSON object
	Round   uint32 // as in core.TaskQuestion
	// Answer gets the client's answer, or nil and why there is none: once, unless the question is withdrawn. An answer that crosses the
	// Withdraw may still come. It must not wait. It is called without a lock, from any goroutine. Nil where Round is not 0.
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
	call    TaskCall
	taken   []taken
	resume  []map[string][]byte // of each round that is complete now
	cancel  core.Reason
	orphans []*TaskQuestion // no answer comes to them any more
	why     core.Reason     // no answer comes
	drop    bool
	stored  bool // and the store has been given a response
	settle  bool // the store is to be given the end
}

// taken is a question whose answer has come.
type taken struct {
	question *TaskQuestion
	result   []byte
}

// do takes one step and does what it asks for.
func (t *Task) do(in core.TaskIn) {
	var p taskPass
	t.mu.Lock()
	t.step(&in, nil, &p)
	t.mu.Unlock()
	t.finish(&p)
}

// step feeds the machine. results are those of a TaskAnswer, by key. Under the lock.
func (t *Task) step(in *core.TaskIn, results map[string][]byte, p *taskPass) {
	now := time.Now()
	before, ended := t.standing(), t.m.Status().Final()
	p.call = t.call
	var scratch [4]core.TaskOut // not kept: most tasks do nothing for most of the time
	outs := t.m.Step(now, in, scratch[:0])
	for i := range outs {
		t.obey(&outs[i], results, p)
	}
	if t.owned != nil && t.m.Status().Final() && !ended {
		t.owned.settled, p.settle = make(chan struct{}), true
	}
	t.tasks.count(before, t.standing())
	if t.m.Status().Final() {
		t.call = nil
	}
	if len(t.questions) == 0 {
		t.questions = nil // an empty map takes as much as one with some questions
	}
	if len(t.answers) == 0 {
		t.answers = nil
	}
	if at := t.m.Deadline(); !at.IsZero() {
		t.arm(at, now)
	}
}

// arm sets the timer if it must fire sooner than it is set to. It often fires too early; setting it at each step would cost more.
func (t *Task) arm(due, now time.Time) {
	if !t.armed.IsZero() && !due.Before(t.armed) {
		return
	}
	t.armed = due
	if t.timer == nil {
		t.timer = time.AfterFunc(due.Sub(now), t.tick)
		return
	}
	t.timer.Reset(due.Sub(now))
}

func (t *Task) tick() {
	var p taskPass
	t.mu.Lock()
	t.armed = time.Time{}
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
			t.answers = make(map[uint32]map[string][]byte)
		}
		if t.answers[o.Round] == nil {
			t.answers[o.Round] = make(map[string][]byte)
		}
		t.answers[o.Round][o.Key] = results[o.Key]
	case core.ResumeTask:
		p.resume = append(p.resume, t.answers[o.Round])
		delete(t.answers, o.Round)
	case core.EndCall:
		p.cancel = o.Reason
		t.orphan(o.Reason, p)
	case core.FailTask:
		t.response = t.host.Failure(o.Reason)
		if t.owned != nil { // also where a result was lost
			t.owned.stored, p.settle = false, true
		}
	case core.DropTask:
		t.dropped, p.drop, p.stored = true, true, t.log != nil
		t.watchers, t.log, t.response = nil, nil, nil
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}

// finish does what a step has left. Without the lock.
func (t *Task) finish(p *taskPass) {
	if p.cancel != core.NoReason && p.call != nil {
		p.call.Cancel(p.cancel)
	}
	for _, a := range p.taken {
		a.question.Answer(a.result, core.NoReason)
	}
	for _, q := range p.orphans {
		q.Answer(nil, p.why)
	}
	for _, answers := range p.resume {
		p.call.Resume(answers)
	}
	switch {
	case p.drop && t.owned != nil:
		t.part()
	case p.settle:
		t.tasks.engine.aside(t.settle)
	case p.drop:
		t.tasks.remove(t)
	}
	if p.stored && t.owned == nil {
		t.tasks.engine.aside(t.dropLog)
	}
}

// Note shows the client what the call says of its progress.
func (t *Task) Note(message string) { t.do(core.TaskIn{Op: core.TaskNote, Message: message}) }

// Ask asks the client. It reports whether the task goes on; otherwise no answer comes. A question that is asked already is not asked again.
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
			if t.questions[q.Key] == nil {
				t.questions[q.Key] = q
			}
		}
		t.step(&in, nil, &p)
	}
	t.mu.Unlock()
	t.finish(&p)
	return open
}

// Withdraw takes a question back. It is for questions of round 0.
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
	in := core.TaskIn{Op: core.TaskAnswer}
	var p taskPass
	t.mu.Lock()
	for key := range t.questions { // not of results: a client may send any number
		if _, answered := results[key]; answered {
			in.Keys = append(in.Keys, key)
		}
	}
	t.step(&in, results, &p)
	t.mu.Unlock()
	t.finish(&p)
}

// End is the response of the call: a result if status is core.TaskCompleted, an error if it is core.TaskFailed. message is shown if it is not
// empty. It returns when the response can be read.
func (t *Task) End(status core.TaskStatus, message string, response []byte) {
	if t.owned != nil {
		t.endOwned(status, message, response)
		return
	}
	if t.Final() {
		return
	}
	log, kept := t.record(response)
	var p taskPass
	t.mu.Lock()
	late, dropped := t.m.Status().Final(), t.dropped // meanwhile
	if dropped {
		p.stored = log != nil // nothing else deletes the response
	} else {
		t.log = log // also if that failed: the store may have the response all the same
	}
	if !late && !kept {
		t.response = response
	}
	t.step(&core.TaskIn{Op: core.TaskEnd, Status: status, Message: message}, nil, &p)
	t.orphan(core.Ended, &p) // the call has asked and not waited
	t.mu.Unlock()
	t.finish(&p)
	if late && kept && !dropped {
		t.mark(log) // no client reads it
	}
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
func (t *Task) Cancel() { t.do(core.TaskIn{Op: core.TaskCancel}) }

// Stop ends the task, because the server ends. In a cluster other processes may take it over then.
func (t *Task) Stop() {
	if t.owned != nil {
		t.mu.Lock()
		t.owned.stopping = true
		t.mu.Unlock()
		defer t.HandOver() // if it has ended before
	}
	t.do(core.TaskIn{Op: core.TaskStop})
}

// View is what the client sees now, which has asked. core.Unknown: the task is not kept any more. core.StoreFailed: the store failed to return
// the response; it may do so later.
func (t *Task) View() (v TaskView, why core.Reason) {
	t.do(core.TaskIn{Op: core.TaskSeen})
	t.awaitSettled()
	for lostBefore := false; ; lostBefore = true {
		v, log, ok := t.look()
		switch {
		case !ok:
			return v, core.Unknown
		case log == nil:
			return v, core.NoReason
		}
		response, lost, err := t.load(log)
		switch {
		case err != nil:
			return v, core.StoreFailed
		case lost == core.NoReason:
			v.Response = response
			return v, core.NoReason
		case lostBefore: // so is the error that was recorded in its place
			v.Response = t.host.Failure(lost)
			return v, core.NoReason
		}
		t.do(core.TaskIn{Op: core.TaskLost, Reason: lost}) // which puts an error in its place
	}
}

// look is View without the response if a log has it.
func (t *Task) look() (v TaskView, log eventstore.Log, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v = TaskView{TaskInfo: t.m.Info(time.Now()), ID: t.id, Response: t.response}
	if t.dropped {
		return v, nil, false
	}
	if t.hides() {
		t.owned.hidden = true
		v.Status, v.Response = core.TaskWorking, nil
		return v, nil, true
	}
	for _, waiting := range v.Waiting {
		v.Questions = append(v.Questions, *t.questions[waiting.Key])
	}
	if t.response == nil && (v.Status == core.TaskCompleted || v.Status == core.TaskFailed) {
		log = t.log
	}
	return v, log, true
}

// Fetched says that the client was given what a View of an ended task showed.
func (t *Task) Fetched() {
	t.do(core.TaskIn{Op: core.TaskFetched})
	if _, log, _ := t.look(); log != nil {
		t.mark(log)
	}
}

// Final reports whether the task has ended.
func (t *Task) Final() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m.Status().Final()
}

// Discard forgets a task whose client was not told of it, and ends its call.
func (t *Task) Discard() { t.do(core.TaskIn{Op: core.TaskDiscard}) }

// Adjust changes how the task behaves, as core.TaskAdjust.
func (t *Task) Adjust(cfg core.TaskConfig) { t.do(core.TaskIn{Op: core.TaskAdjust, Config: cfg}) }

// standing is how a task counts for a drain.
func (t *Task) standing() standing {
	switch {
	case t.dropped:
		return standingNone
	case !t.m.Status().Final():
		return standingRunning
	case !t.m.Fetched() && (t.owned == nil || !t.owned.stored): // else another process can serve it
		return standingUnfetched
	}
	return standingNone
}
