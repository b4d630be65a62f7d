package core

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// taskWorld steps a task at random, and says of each input what it must lead to. It remembers all that has happened and forgets nothing, where
// the machine keeps what it needs.
type taskWorld struct {
	testing.TB

	src   source
	seed  uint64
	trace []string

	m         Task
	made, now time.Time
	cfg       TaskConfig
	asked     []*taskAsked // ever
	round     uint32
	listening int
	lastAsked time.Time
	message   string
	changed   time.Time
	final     TaskStatus // 0: it has not ended
	endedAt   time.Time
	inPlace   bool // an error is in the place of the result
	given     bool // the result was fetched
	dropped   bool

	want  []string
	cause Reason // why the call was ended
}

// taskAsked is a question, and what became of it.
type taskAsked struct {
	TaskQuestion

	state string // open, answered, withdrawn, or over
}

func newTaskWorld(t testing.TB, src source) *taskWorld {
	w := &taskWorld{TB: t, src: src, made: start, now: start, changed: start, lastAsked: start}
	w.cfg = TaskConfig{TTL: w.some(), AbandonAfter: w.some(), MaxRuntime: w.some()}
	w.m = NewTask(w.cfg, w.made)
	return w
}

// some is a duration, which may be off.
func (w *taskWorld) some() time.Duration {
	return []time.Duration{-time.Second, 0, 20 * time.Second, time.Minute, 3 * time.Minute, time.Hour, 1<<63 - 1}[w.src.pick(7)]
}

func (w *taskWorld) must(ok bool, what string, args ...any) {
	if !ok {
		w.Helper()
		for _, line := range w.trace[max(0, len(w.trace)-40):] {
			w.Log(line)
		}
		w.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(what, args...))
	}
}

// run takes the task through its life.
func (w *taskWorld) run() {
	for w.src.more() && !w.dropped {
		w.happen()
	}
	w.finish()
}

func (w *taskWorld) happen() {
	switch w.src.pick(20) {
	case 0, 1:
		w.pass()
	case 2:
		w.input(TaskIn{Op: TaskSeen}, func() { w.lastAsked = w.now })
	case 3:
		w.input(TaskIn{Op: TaskListen}, func() { w.listening++ })
	case 4:
		if w.listening > 0 {
			w.input(TaskIn{Op: TaskUnlisten}, func() { w.listening--; w.lastAsked = w.now })
		}
	case 5, 6:
		message := []string{"", "a", "b"}[w.src.pick(3)]
		w.input(TaskIn{Op: TaskNote, Message: message}, func() {
			if w.final == 0 && message != w.message {
				w.message = message
				w.show()
			}
		})
	case 7, 8, 9:
		w.ask()
	case 10:
		w.withdraw()
	case 11, 12, 13, 14:
		w.answer()
	case 15:
		w.input(TaskIn{Op: TaskFetched}, func() { w.given = w.given || w.final != 0 })
	case 16:
		w.adjust()
	case 17:
		w.input(TaskIn{Op: TaskLost, Reason: StoreFailed}, func() {
			if (w.final == TaskCompleted || w.final == TaskFailed) && !w.inPlace {
				w.final = TaskFailed
				w.fail("store-failed")
				w.show()
			}
		})
	default:
		w.rare()
	}
}

// rare lets something happen that ends the task.
func (w *taskWorld) rare() {
	switch w.src.pick(24) {
	case 0, 1:
		status := []TaskStatus{TaskCompleted, TaskFailed}[w.src.pick(2)]
		in := TaskIn{Op: TaskEnd, Status: status, Message: []string{"", "done"}[w.src.pick(2)]}
		w.input(in, func() {
			if w.final == 0 {
				if in.Message != "" {
					w.message = in.Message
				}
				w.end(status)
			}
		})
	case 2:
		w.input(TaskIn{Op: TaskCancel}, func() {
			w.lastAsked = w.now
			w.endCall("cancelled", Cancelled, TaskCancelled)
		})
	case 3:
		w.input(TaskIn{Op: TaskStop}, func() { w.endCall("shutdown", Shutdown, TaskFailed) })
	case 4:
		if w.src.pick(4) == 0 {
			w.input(TaskIn{Op: TaskDiscard}, func() {
				w.endCall("cancelled", Cancelled, TaskCancelled)
				w.dropped = true
				w.want = append(w.want, "drop")
			})
		}
	case 5:
		w.input(TaskIn{Op: TaskOrphan}, func() { w.endCall("owner-lost", OwnerLost, TaskFailed) })
	case 6:
		if w.src.pick(4) == 0 {
			w.input(TaskIn{Op: TaskMove}, func() {
				w.endCall("moved", Moved, TaskCancelled)
				w.dropped = true
				w.want = append(w.want, "drop")
			})
		}
	default:
		w.input(TaskIn{Op: TaskTick}, func() {})
	}
}

// pass lets time pass: any, until just before something is due, or until it is. Now and then the clock goes back.
func (w *taskWorld) pass() {
	at := w.now.Add([]time.Duration{1, time.Second, 19 * time.Second, 2 * time.Minute, time.Hour}[w.src.pick(5)])
	if due, why := w.due(); why != "" && w.src.pick(2) == 0 && due.After(w.now) {
		at = due
		if w.src.pick(2) == 0 {
			before := due.Add(-1)
			w.now = before
			w.input(TaskIn{Op: TaskTick}, func() {})
			w.must(len(w.want) == 0, "nothing happens before its time")
		}
	}
	if w.src.pick(8) == 0 {
		back := w.now.Add(-time.Duration(w.src.pick(100)) * time.Second)
		w.inputAt(back, TaskIn{Op: TaskTick}, func() {})
		return
	}
	w.now = at
	w.input(TaskIn{Op: TaskTick}, func() {})
}

// ask asks up to three questions: of the call, of a new round, of the present one again, or some that are asked already.
func (w *taskWorld) ask() {
	var qs []TaskQuestion
	round := uint32(0)
	switch w.src.pick(4) {
	case 0:
		w.round++
		round = w.round
	case 1:
		round = w.round
	}
	for range w.src.pick(4) {
		if len(w.asked) > 0 && w.src.pick(8) == 0 {
			if q := w.asked[len(w.asked)-1]; q.state == "open" {
				qs = append(qs, q.TaskQuestion)
			}
			continue
		}
		q := TaskQuestion{Key: fmt.Sprintf("k%d.%d", len(w.asked), len(qs)), Round: round}
		qs = append(qs, q)
	}
	w.input(TaskIn{Op: TaskAsk, Questions: qs}, func() {
		if w.final != 0 {
			return
		}
		added := false
		for _, q := range qs {
			if w.find(q.Key) == nil {
				w.asked = append(w.asked, &taskAsked{q, "open"})
				added = true
			}
		}
		if added {
			w.show()
		}
	})
}

// find finds a question that was ever asked.
func (w *taskWorld) find(key string) *taskAsked {
	for _, q := range w.asked {
		if q.Key == key {
			return q
		}
	}
	return nil
}

// keys are some of all questions ever asked, in any order, one twice, and one that nobody has asked.
func (w *taskWorld) keys() (keys []string) {
	from := max(0, len(w.asked)-6)
	for range w.src.pick(4) {
		if from < len(w.asked) {
			keys = append(keys, w.asked[from+w.src.pick(len(w.asked)-from)].Key)
		}
	}
	if w.src.pick(4) == 0 {
		keys = append(keys, "unknown")
	}
	return keys
}

func (w *taskWorld) withdraw() {
	keys := w.keys()
	w.input(TaskIn{Op: TaskWithdraw, Keys: keys}, func() {
		changed := false
		for _, q := range w.asked {
			if q.state == "open" && slices.Contains(keys, q.Key) {
				q.state = "withdrawn"
				changed = true
			}
		}
		if changed {
			w.show()
		}
	})
}

func (w *taskWorld) answer() {
	keys := w.keys()
	if w.src.pick(3) == 0 {
		for _, q := range w.open() {
			keys = append(keys, q.Key)
		}
	}
	w.input(TaskIn{Op: TaskAnswer, Keys: keys}, func() {
		w.lastAsked = w.now
		changed := false
		for _, key := range keys {
			q := w.find(key)
			if q == nil || q.state != "open" {
				continue
			}
			q.state, changed = "answered", true
			w.want = append(w.want, fmt.Sprintf("take %s round=%d", key, q.Round))
			left := slices.ContainsFunc(w.open(), func(o TaskQuestion) bool { return o.Round == q.Round })
			if q.Round != 0 && !left {
				w.want = append(w.want, fmt.Sprintf("resume %d", q.Round))
			}
		}
		if changed {
			w.show()
		}
	})
}

func (w *taskWorld) adjust() {
	var change TaskConfig
	for _, d := range []*time.Duration{&change.TTL, &change.AbandonAfter, &change.MaxRuntime} {
		if w.src.pick(3) == 0 {
			*d = w.some()
		}
	}
	w.input(TaskIn{Op: TaskAdjust, Config: change}, func() {
		for _, d := range [][2]*time.Duration{{&w.cfg.TTL, &change.TTL}, {&w.cfg.AbandonAfter, &change.AbandonAfter}, {&w.cfg.MaxRuntime, &change.MaxRuntime}} {
			if *d[1] != 0 {
				*d[0] = *d[1]
			}
		}
	})
}

// open are the questions without an answer.
func (w *taskWorld) open() (qs []TaskQuestion) {
	for _, q := range w.asked {
		if q.state == "open" {
			qs = append(qs, q.TaskQuestion)
		}
	}
	return qs
}

func (w *taskWorld) show() {
	w.changed = w.now
	w.want = append(w.want, "show")
}

func (w *taskWorld) fail(why string) {
	w.inPlace = true
	w.want = append(w.want, "fail "+why)
}

func (w *taskWorld) end(status TaskStatus) {
	w.final, w.endedAt = status, w.now
	w.given = status == TaskCancelled
	for _, q := range w.asked {
		if q.state == "open" {
			q.state = "over"
		}
	}
	w.show()
}

func (w *taskWorld) endCall(why string, cause Reason, status TaskStatus) {
	if w.final != 0 {
		return
	}
	w.must(w.cause == NoReason, "a call ends once")
	w.cause = cause
	w.want = append(w.want, "end-call "+why)
	if status == TaskFailed {
		w.fail(why)
	}
	w.end(status)
}

// due is what happens next by itself.
func (w *taskWorld) due() (at time.Time, why string) {
	const lifetime = 1<<63 - 1
	add := func(from time.Time, d time.Duration, reason string) {
		if d <= 0 || d == lifetime {
			return
		}
		if t := from.Add(d); why == "" || t.Before(at) {
			at, why = t, reason
		}
	}
	switch {
	case w.dropped:
	case w.final != 0:
		add(w.endedAt, w.cfg.TTL, "drop")
	default:
		add(w.made, w.cfg.MaxRuntime, "overran")
		if w.listening == 0 {
			add(w.lastAsked, w.cfg.AbandonAfter, "abandoned")
		}
	}
	return at, why
}

func (w *taskWorld) input(in TaskIn, rule func()) { w.inputAt(w.now, in, rule) }

// inputAt steps the task and compares what it says with the rule of the input, and with what is due.
func (w *taskWorld) inputAt(at time.Time, in TaskIn, rule func()) {
	w.want = nil
	if !w.dropped {
		rule()
		switch due, why := w.due(); {
		case why == "" || due.After(w.now):
		case why == "drop":
			w.dropped = true
			w.want = append(w.want, "drop")
		case why == "overran":
			w.endCall(why, Overran, TaskFailed)
		default:
			w.endCall(why, Abandoned, TaskFailed)
			w.given = true // its client does not come
		}
	}
	w.trace = append(w.trace, fmt.Sprintf("%v %+v -> %v", at.Sub(w.made), in, w.want))
	outs := w.m.Step(at, &in, nil)
	got := make([]string, 0, len(outs))
	for _, o := range outs {
		got = append(got, showTaskOut(o))
	}
	w.must(slices.Equal(got, w.want), "%v, want %v", got, w.want)
	w.compare(at)
}

// compare compares what can be seen of the task.
func (w *taskWorld) compare(at time.Time) {
	info := w.m.Info(at)
	status := w.final
	open := w.open()
	if status == 0 && len(open) > 0 {
		status = TaskInputRequired
	}
	w.must(info.Status == status && w.m.Status() == status, "status %v, want %v", info.Status, status)
	w.must(slices.Equal(info.Waiting, open), "waiting %v, want %v", info.Waiting, open)
	w.must(info.Message == w.message, "message %q, want %q", info.Message, w.message)
	w.must(info.Created.Equal(w.made) && info.Updated.Equal(w.changed), "updated %v, want %v", info.Updated, w.changed)
	w.must(w.m.Fetched() == w.given, "fetched")
	ttl := time.Duration(0)
	if w.cfg.TTL > 0 && w.cfg.TTL < 1<<63-1 {
		ttl = w.now.Sub(w.made) + w.cfg.TTL
		if w.final != 0 {
			ttl = w.endedAt.Sub(w.made) + w.cfg.TTL
		}
	}
	w.must(info.TTL == ttl, "TTL %v, want %v", info.TTL, ttl)
	due, why := w.due()
	w.must(w.m.Deadline().IsZero() == (why == "") && (why == "" || w.m.Deadline().Equal(due)), "deadline %v, want %v", w.m.Deadline(), due)
	w.must(why == "" || due.After(w.now), "what is due was done")
}

// finish lets the call end and the task expire.
func (w *taskWorld) finish() {
	for w.listening > 0 && !w.dropped {
		w.input(TaskIn{Op: TaskUnlisten}, func() { w.listening--; w.lastAsked = w.now })
	}
	w.input(TaskIn{Op: TaskStop}, func() { w.endCall("shutdown", Shutdown, TaskFailed) })
	w.must(w.final != 0, "a task that is stopped has ended")
	w.now = w.now.Add(2 * time.Hour)
	w.input(TaskIn{Op: TaskTick}, func() {})
	w.must(w.dropped || w.cfg.TTL <= 0 || w.cfg.TTL == 1<<63-1, "it is kept for TTL")
}

// TestTaskModel steps tasks at random, and compares each with a list of what has happened: see taskWorld.
func TestTaskModel(t *testing.T) {
	runModels(t, 3, 8, 400, func(t *testing.T, src source, seed uint64) {
		w := newTaskWorld(t, src)
		w.seed = seed
		w.run()
	})
}

func FuzzTask(f *testing.F) {
	fuzzModel(f, 4, func(t *testing.T, src source) { newTaskWorld(t, src).run() })
}
