package core

import (
	"slices"
	"time"
)

// Task decides everything about one task (extension io.modelcontextprotocol/tasks of version 2026-07-28) and performs nothing, as a Machine does
// for a session. A task is a call that goes on after its request was answered: its client asks how far it is.
//
// It is a plain value. A driver calls Step and obeys the outputs in their order; Deadline says when the next TaskTick is due. Steps must not
// overlap. A driver may step again before it has obeyed everything.
type Task struct {
	cfg       TaskConfig
	base      time.Time // when it was made
	now       instant   // of the current step
	updated   instant   // when its status, message or questions last changed
	seen      instant   // when the client last asked
	ended     instant
	listeners int32
	status    TaskStatus
	fetched   bool // the client was given the result
	replaced  bool // an error has taken the place of the result
	dropped   bool
	message   string
	questions []TaskQuestion // that wait for an answer, oldest first
}

// TaskConfig says how a task behaves. A duration that is not positive is off.
type TaskConfig struct {
	TTL          time.Duration // how long a task is kept after its end; off: until it is dropped
	AbandonAfter time.Duration // the call is cancelled when the client has not asked for this time
	MaxRuntime   time.Duration // the call is cancelled when this time has passed since the task was made
}

func (c *TaskConfig) merge(d *TaskConfig) {
	if d.TTL != 0 {
		c.TTL = d.TTL
	}
	if d.AbandonAfter != 0 {
		c.AbandonAfter = d.AbandonAfter
	}
	if d.MaxRuntime != 0 {
		c.MaxRuntime = d.MaxRuntime
	}
}

// TaskStatus is the status of a task.
type TaskStatus uint8

// The statuses. The last three are final.
const (
	TaskWorking TaskStatus = iota
	TaskInputRequired
	TaskCompleted
	TaskFailed
	TaskCancelled
)

// String returns the name that the protocol has for the status.
func (s TaskStatus) String() string {
	return [...]string{"working", "input_required", "completed", "failed", "cancelled"}[s]
}

// Final reports whether a task with this status has ended.
func (s TaskStatus) Final() bool { return s >= TaskCompleted }

// TaskQuestion is a question to the client.
type TaskQuestion struct {
	Key string // never used twice in a task
	// Round is what the question belongs to: when all questions of one round are answered, the call goes on with the answers. 0: the
	// call goes on by itself with each answer.
	Round uint32
}

// TaskIn is one input. The comments on [TaskOp] say which fields each input uses. What is kept is still referred to after the Step.
type TaskIn struct {
	Op        TaskOp
	Status    TaskStatus
	Reason    Reason
	Message   string         // kept
	Questions []TaskQuestion // the keys are kept
	Keys      []string
	Config    TaskConfig
}

// TaskOp names an input.
type TaskOp uint8

// The inputs, with the fields they use.
const (
	// TaskTick says that time has passed.
	TaskTick TaskOp = iota
	// TaskSeen says that the client has asked.
	TaskSeen
	// TaskListen says that the client listens from now on, TaskUnlisten that it does not listen any more. They come in pairs.
	TaskListen
	TaskUnlisten
	// TaskNote is what the call says of its progress. Message.
	TaskNote
	// TaskAsk asks the client. Questions; one that is asked already is not asked again.
	TaskAsk
	// TaskWithdraw takes questions back. Keys. A round of which no question is left does not go on.
	TaskWithdraw
	// TaskAnswer is the client's answers. Keys: any, also unknown ones.
	TaskAnswer
	// TaskEnd is the result of the call, which can be read from now on. Status: TaskCompleted or TaskFailed. Message, unless it is empty.
	TaskEnd
	// TaskFetched says that the client was given the result.
	TaskFetched
	// TaskLost says that the result cannot be read any more. Reason. It has an effect once.
	TaskLost
	// TaskCancel is the client's cancellation.
	TaskCancel
	// TaskStop says that the server stops.
	TaskStop
	// TaskDiscard gives up a task that its client was not told of.
	TaskDiscard
	// TaskOrphan says that the process that ran the call was lost.
	TaskOrphan
	// TaskMove says that another process has the task from now on, or may take it.
	TaskMove
	// TaskAdjust changes how the task behaves. Config: zero fields stay as they are, negative ones are off.
	TaskAdjust
)

// TaskOut is one thing to do.
type TaskOut struct {
	Do     TaskDo
	Reason Reason
	Round  uint32
	Key    string
}

// TaskDo names an output.
type TaskDo uint8

// The outputs, with the fields they use.
const (
	// ShowTask says that what the client sees of the task has changed: tell those that listen.
	ShowTask TaskDo = iota + 1
	// TakeAnswer gives the answer to the question Key to what has asked it.
	TakeAnswer
	// ResumeTask goes on with the call: all questions of Round are answered, but those that were withdrawn.
	ResumeTask
	// EndCall cancels the call, with Reason as its cause. The questions that it waits for fail.
	EndCall
	// FailTask makes an error for Reason the result of the task. It precedes the ShowTask.
	FailTask
	// DropTask deletes the task. It is the last output.
	DropTask
)

// NewTask makes a task that works.
func NewTask(cfg TaskConfig, now time.Time) Task { return Task{cfg: cfg, base: now} }

// Step takes one input and appends what is to be done to out.
func (t *Task) Step(now time.Time, in *TaskIn, out []TaskOut) []TaskOut {
	if t.dropped {
		return out
	}
	t.now = t.at(now)
	switch in.Op {
	case TaskTick:
	case TaskSeen:
		t.seen = t.now
	case TaskListen:
		t.listeners++
	case TaskUnlisten:
		t.listeners--
		t.seen = t.now
	case TaskFetched:
		t.fetched = t.fetched || t.status.Final()
	case TaskNote:
		if !t.status.Final() && in.Message != t.message {
			t.message = in.Message
			out = t.show(out)
		}
	case TaskAsk:
		out = t.ask(in.Questions, out)
	case TaskWithdraw:
		out = t.withdraw(in.Keys, out)
	case TaskAnswer:
		t.seen = t.now
		out = t.answer(in.Keys, out)
	case TaskEnd:
		if !t.status.Final() {
			if in.Message != "" {
				t.message = in.Message
			}
			out = t.end(in.Status, out)
		}
	case TaskLost:
		if (t.status == TaskCompleted || t.status == TaskFailed) && !t.replaced {
			t.status = TaskFailed
			out = t.show(t.replace(in.Reason, out))
		}
	case TaskCancel:
		t.seen = t.now
		out = t.giveUp(TaskCancelled, Cancelled, out)
	case TaskStop:
		out = t.giveUp(TaskFailed, Shutdown, out)
	case TaskDiscard:
		t.dropped = true
		return append(t.giveUp(TaskCancelled, Cancelled, out), TaskOut{Do: DropTask})
	case TaskOrphan:
		out = t.giveUp(TaskFailed, OwnerLost, out)
	case TaskMove:
		t.dropped = true
		return append(t.giveUp(TaskCancelled, Moved, out), TaskOut{Do: DropTask})
	case TaskAdjust:
		t.cfg.merge(&in.Config)
	}
	return t.expire(out)
}

// at is the time in the task's life. It never goes back.
func (t *Task) at(now time.Time) instant { return max(now.Sub(t.base), t.now) }

// show notes a change.
func (t *Task) show(out []TaskOut) []TaskOut {
	t.updated = t.now
	return append(out, TaskOut{Do: ShowTask})
}

// ask adds questions. The task waits for the client as long as there are any.
func (t *Task) ask(questions []TaskQuestion, out []TaskOut) []TaskOut {
	if t.status.Final() {
		return out
	}
	before := len(t.questions)
	for _, q := range questions {
		if t.waiting(q.Key) < 0 {
			t.questions = append(t.questions, q)
		}
	}
	if len(t.questions) == before {
		return out
	}
	t.status = TaskInputRequired
	return t.show(out)
}

// waiting finds a question without an answer; negative: there is none with that key.
func (t *Task) waiting(key string) int {
	return slices.IndexFunc(t.questions, func(q TaskQuestion) bool { return q.Key == key })
}

// withdraw takes questions back.
func (t *Task) withdraw(keys []string, out []TaskOut) []TaskOut {
	before := len(t.questions)
	t.questions = slices.DeleteFunc(t.questions, func(q TaskQuestion) bool { return slices.Contains(keys, q.Key) })
	if len(t.questions) == before {
		return out
	}
	t.goOn()
	return t.show(out)
}

// answer takes the answers to questions that are outstanding, and ignores the rest: a client may repeat an update, or answer what was
// withdrawn (tasks, "tasks/update").
func (t *Task) answer(keys []string, out []TaskOut) []TaskOut {
	before := len(t.questions)
	for _, key := range keys {
		i := t.waiting(key)
		if i < 0 {
			continue
		}
		round := t.questions[i].Round
		t.questions = slices.Delete(t.questions, i, i+1)
		out = append(out, TaskOut{Do: TakeAnswer, Key: key, Round: round})
		if round != 0 && !slices.ContainsFunc(t.questions, func(q TaskQuestion) bool { return q.Round == round }) {
			out = append(out, TaskOut{Do: ResumeTask, Round: round})
		}
	}
	if len(t.questions) == before {
		return out
	}
	t.goOn()
	return t.show(out)
}

// goOn ends the wait for the client if nothing is asked any more.
func (t *Task) goOn() {
	if len(t.questions) == 0 {
		t.questions = nil
		t.status = TaskWorking
	}
}

// end makes the task final.
func (t *Task) end(status TaskStatus, out []TaskOut) []TaskOut {
	t.status, t.ended, t.questions = status, t.now, nil
	t.fetched = status == TaskCancelled // there is nothing to fetch
	return t.show(out)
}

// replace puts an error in the place of the result.
func (t *Task) replace(why Reason, out []TaskOut) []TaskOut {
	t.replaced = true
	return append(out, TaskOut{Do: FailTask, Reason: why})
}

// giveUp ends the call and the task, unless the task has ended.
func (t *Task) giveUp(status TaskStatus, why Reason, out []TaskOut) []TaskOut {
	if t.status.Final() {
		return out
	}
	out = append(out, TaskOut{Do: EndCall, Reason: why})
	if status == TaskFailed {
		out = t.replace(why, out)
	}
	out = t.end(status, out)
	t.fetched = t.fetched || why == Abandoned // its client does not come
	return out
}

// expire does what is due.
func (t *Task) expire(out []TaskOut) []TaskOut {
	due, why := t.due()
	switch {
	case due == never || t.now < due:
		return out
	case why == Expired:
		t.dropped = true
		return append(out, TaskOut{Do: DropTask})
	}
	return t.giveUp(TaskFailed, why, out)
}

// due returns what happens next by itself, and when.
func (t *Task) due() (at instant, why Reason) {
	switch {
	case t.dropped:
		return never, NoReason
	case t.status.Final():
		return after(t.ended, t.cfg.TTL), Expired
	}
	at, why = after(0, t.cfg.MaxRuntime), Overran
	if t.listeners == 0 {
		if abandoned := after(t.seen, t.cfg.AbandonAfter); abandoned < at {
			at, why = abandoned, Abandoned
		}
	}
	return at, why
}

// Deadline returns when the next TaskTick is due, or the zero time if none is.
func (t *Task) Deadline() time.Time {
	at, _ := t.due()
	if at == never {
		return time.Time{}
	}
	return t.base.Add(at)
}

// TaskInfo is what a client sees of a task.
type TaskInfo struct {
	Status           TaskStatus
	Message          string
	Created, Updated time.Time
	// TTL counts from Created. It grows as long as the task has not ended, so that a result outlives the end of its call. 0: unlimited.
	TTL time.Duration
	// Waiting are the questions without an answer.
	Waiting []TaskQuestion
}

// Info returns what the client sees now.
func (t *Task) Info(now time.Time) TaskInfo {
	info := TaskInfo{
		Status: t.status, Message: t.message, Created: t.base, Updated: t.base.Add(t.updated), Waiting: slices.Clone(t.questions),
	}
	from := t.at(now)
	if t.status.Final() {
		from = t.ended
	}
	if until := after(from, t.cfg.TTL); until != never {
		info.TTL = until
	}
	return info
}

// Status returns the status now.
func (t *Task) Status() TaskStatus { return t.status }

// Fetched reports whether nothing of an ended task is left to fetch.
func (t *Task) Fetched() bool { return t.fetched }
