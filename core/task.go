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
	status    TaskStatus
	updated   time.Duration // when its status, message or questions last changed; durations count from base
	seen      time.Duration // when the client last asked
	ended     time.Duration
	listeners int
	fetched   bool // the client was given the result
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
	// TaskAsk asks the client. Questions.
	TaskAsk
	// TaskWithdraw takes questions back. Keys.
	TaskWithdraw
	// TaskAnswer is the client's answers. Keys: any, also unknown ones.
	TaskAnswer
	// TaskEnd is the result of the call, which can be read from now on. Status: TaskCompleted or TaskFailed. Message, unless it is empty.
	TaskEnd
	// TaskFetched says that the client was given the result.
	TaskFetched
	// TaskLost says that the result cannot be read any more. Reason.
	TaskLost
	// TaskCancel is the client's cancellation.
	TaskCancel
	// TaskStop says that the server stops.
	TaskStop
	// TaskDiscard gives up a task that its client was not told of.
	TaskDiscard
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
	// ResumeTask goes on with the call: all questions of Round are answered.
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
	at := max(now.Sub(t.base), t.updated)
	switch in.Op {
	case TaskTick:
	case TaskSeen:
		t.seen = at
	case TaskListen:
		t.listeners++
	case TaskUnlisten:
		t.listeners--
		t.seen = at
	case TaskFetched:
		t.fetched = t.fetched || t.status.Final()
	case TaskNote:
		if !t.status.Final() && in.Message != t.message {
			t.message = in.Message
			out = t.show(at, out)
		}
	case TaskAsk:
		out = t.ask(at, in.Questions, out)
	case TaskWithdraw:
		out = t.withdraw(at, in.Keys, out)
	case TaskAnswer:
		t.seen = at
		out = t.answer(at, in.Keys, out)
	case TaskEnd:
		if !t.status.Final() {
			if in.Message != "" {
				t.message = in.Message
			}
			out = t.end(at, in.Status, out)
		}
	case TaskLost:
		if t.status == TaskCompleted || t.status == TaskFailed {
			t.status = TaskFailed
			out = t.show(at, append(out, TaskOut{Do: FailTask, Reason: in.Reason}))
		}
	case TaskCancel:
		t.seen = at
		out = t.giveUp(at, TaskCancelled, Cancelled, out)
	case TaskStop:
		out = t.giveUp(at, TaskFailed, Shutdown, out)
	case TaskDiscard:
		t.dropped = true
		return append(t.giveUp(at, TaskCancelled, Cancelled, out), TaskOut{Do: DropTask})
	case TaskAdjust:
		t.cfg.merge(&in.Config)
	}
	return t.expire(max(now.Sub(t.base), 0), out)
}

// show notes a change.
func (t *Task) show(at time.Duration, out []TaskOut) []TaskOut {
	t.updated = at
	return append(out, TaskOut{Do: ShowTask})
}

// ask adds questions. The task waits for the client as long as there are any.
func (t *Task) ask(at time.Duration, questions []TaskQuestion, out []TaskOut) []TaskOut {
	if t.status.Final() || len(questions) == 0 {
		return out
	}
	t.questions = append(t.questions, questions...)
	t.status = TaskInputRequired
	return t.show(at, out)
}

// withdraw takes questions back.
func (t *Task) withdraw(at time.Duration, keys []string, out []TaskOut) []TaskOut {
	before := len(t.questions)
	t.questions = slices.DeleteFunc(t.questions, func(q TaskQuestion) bool { return slices.Contains(keys, q.Key) })
	if len(t.questions) == before {
		return out
	}
	t.goOn()
	return t.show(at, out)
}

// answer takes the answers to questions that are outstanding, and ignores the rest: a client may repeat an update, or answer what was
// withdrawn (tasks, "tasks/update").
func (t *Task) answer(at time.Duration, keys []string, out []TaskOut) []TaskOut {
	before := len(t.questions)
	for _, key := range keys {
		i := slices.IndexFunc(t.questions, func(q TaskQuestion) bool { return q.Key == key })
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
	return t.show(at, out)
}

// goOn ends the wait for the client if nothing is asked any more.
func (t *Task) goOn() {
	if len(t.questions) == 0 {
		t.questions = nil
		t.status = TaskWorking
	}
}

// end makes the task final.
func (t *Task) end(at time.Duration, status TaskStatus, out []TaskOut) []TaskOut {
	t.status, t.ended, t.questions = status, at, nil
	t.fetched = status == TaskCancelled // there is nothing to fetch
	return t.show(at, out)
}

// giveUp ends the call and the task, unless the task has ended.
func (t *Task) giveUp(at time.Duration, status TaskStatus, why Reason, out []TaskOut) []TaskOut {
	if t.status.Final() {
		return out
	}
	out = append(out, TaskOut{Do: EndCall, Reason: why})
	if status == TaskFailed {
		out = append(out, TaskOut{Do: FailTask, Reason: why})
	}
	return t.end(at, status, out)
}

// expire does what is due.
func (t *Task) expire(now time.Duration, out []TaskOut) []TaskOut {
	if due, why := t.due(); why != NoReason && now >= due {
		if why == Expired {
			t.dropped = true
			return append(out, TaskOut{Do: DropTask})
		}
		return t.giveUp(max(now, t.updated), TaskFailed, why, out)
	}
	return out
}

// due returns what happens next by itself, and when; NoReason: nothing does.
func (t *Task) due() (time.Duration, Reason) {
	if t.dropped {
		return 0, NoReason
	}
	if t.status.Final() {
		if t.cfg.TTL > 0 {
			return t.ended + t.cfg.TTL, Expired
		}
		return 0, NoReason
	}
	at, why := time.Duration(0), NoReason
	if t.cfg.MaxRuntime > 0 {
		at, why = t.cfg.MaxRuntime, Overran
	}
	if t.cfg.AbandonAfter > 0 && t.listeners == 0 {
		if abandoned := t.seen + t.cfg.AbandonAfter; why == NoReason || abandoned < at {
			at, why = abandoned, Abandoned
		}
	}
	return at, why
}

// Deadline returns when the next TaskTick is due, or the zero time if none is.
func (t *Task) Deadline() time.Time {
	at, why := t.due()
	if why == NoReason {
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
	if t.cfg.TTL > 0 {
		info.TTL = max(now.Sub(t.base), 0) + t.cfg.TTL
		if t.status.Final() {
			info.TTL = t.ended + t.cfg.TTL
		}
	}
	return info
}

// Status returns the status now.
func (t *Task) Status() TaskStatus { return t.status }

// Fetched reports whether nothing of an ended task is left to fetch.
func (t *Task) Fetched() bool { return t.fetched }
