package core

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// taskScript steps a task at times that count from its making, and writes outputs as text.
type taskScript struct {
	t testing.TB
	m Task
}

func newTaskScript(t testing.TB, cfg TaskConfig) *taskScript {
	return &taskScript{t, NewTask(cfg, start)}
}

// step steps the task and returns what is to be done, "nothing" if nothing is.
func (s *taskScript) step(at time.Duration, in TaskIn) string {
	return showTaskOuts(s.m.Step(start.Add(at), &in, nil))
}

func (s *taskScript) tick(at time.Duration) string { return s.step(at, TaskIn{Op: TaskTick}) }

// deadline is when the next tick is due.
func (s *taskScript) deadline() string {
	at := s.m.Deadline()
	if at.IsZero() {
		return "never"
	}
	return at.Sub(start).String()
}

// waiting are the keys of the questions without an answer.
func (s *taskScript) waiting(at time.Duration) string {
	var keys []string
	for _, q := range s.m.Info(start.Add(at)).Waiting {
		keys = append(keys, q.Key)
	}
	return strings.Join(keys, " ")
}

func showTaskOuts(outs []TaskOut) string {
	if len(outs) == 0 {
		return "nothing"
	}
	words := make([]string, len(outs))
	for i, o := range outs {
		words[i] = showTaskOut(o)
	}
	return strings.Join(words, "; ")
}

func showTaskOut(o TaskOut) string {
	why := map[Reason]string{
		NoReason: "?", Cancelled: "cancelled", Abandoned: "abandoned", Overran: "overran", Shutdown: "shutdown", Expired: "expired", StoreFailed: "store-failed",
		OwnerLost: "owner-lost", Moved: "moved",
	}[o.Reason]
	switch o.Do {
	case ShowTask:
		return "show"
	case TakeAnswer:
		return fmt.Sprintf("take %s round=%d", o.Key, o.Round)
	case ResumeTask:
		return fmt.Sprintf("resume %d", o.Round)
	case EndCall:
		return "end-call " + why
	case FailTask:
		return "fail " + why
	case DropTask:
		return "drop"
	}
	return fmt.Sprintf("unknown %d", o.Do)
}

func asks(qs ...TaskQuestion) TaskIn { return TaskIn{Op: TaskAsk, Questions: qs} }

func answers(keys ...string) TaskIn { return TaskIn{Op: TaskAnswer, Keys: keys} }

// question is one that the call goes on by itself with.
func question(keys ...string) (qs []TaskQuestion) {
	for _, key := range keys {
		qs = append(qs, TaskQuestion{Key: key})
	}
	return qs
}

// ofRound are questions of a round.
func ofRound(n uint32, keys ...string) (qs []TaskQuestion) {
	for _, key := range keys {
		qs = append(qs, TaskQuestion{Key: key, Round: n})
	}
	return qs
}

func ends(status TaskStatus) TaskIn { return TaskIn{Op: TaskEnd, Status: status} }

// taskStates are the columns of the table, by how a task gets there.
var taskStates = []struct {
	name   string
	inputs []TaskIn
	status TaskStatus
}{
	{"working", nil, TaskWorking},
	{"asking", []TaskIn{asks(question("a")...)}, TaskInputRequired},
	{"completed", []TaskIn{ends(TaskCompleted)}, TaskCompleted},
	{"failed", []TaskIn{ends(TaskFailed)}, TaskFailed},
	{"stopped", []TaskIn{{Op: TaskStop}}, TaskFailed},
	{"cancelled", []TaskIn{{Op: TaskCancel}}, TaskCancelled},
	{"dropped", []TaskIn{{Op: TaskDiscard}}, TaskCancelled},
}

// taskTable says what each input leads to in each state, in the order of taskStates. A word in brackets is the new status; - is nothing.
var taskTable = []struct {
	name string
	in   TaskIn
	want [7]string
}{
	{"tick", TaskIn{Op: TaskTick}, [7]string{"-", "-", "-", "-", "-", "-", "-"}},
	{"seen", TaskIn{Op: TaskSeen}, [7]string{"-", "-", "-", "-", "-", "-", "-"}},
	{"listen", TaskIn{Op: TaskListen}, [7]string{"-", "-", "-", "-", "-", "-", "-"}},
	{"note", TaskIn{Op: TaskNote, Message: "new"}, [7]string{"show", "show", "-", "-", "-", "-", "-"}},
	{"the same note", TaskIn{Op: TaskNote}, [7]string{"-", "-", "-", "-", "-", "-", "-"}},
	{"ask", asks(question("b")...), [7]string{"show [input_required]", "show", "-", "-", "-", "-", "-"}},
	{"ask nothing", asks(), [7]string{"-", "-", "-", "-", "-", "-", "-"}},
	{"ask what is asked already", asks(question("a")...), [7]string{"show [input_required]", "-", "-", "-", "-", "-", "-"}},
	{"withdraw", TaskIn{Op: TaskWithdraw, Keys: []string{"a"}}, [7]string{"-", "show [working]", "-", "-", "-", "-", "-"}},
	{"withdraw what is not asked", TaskIn{Op: TaskWithdraw, Keys: []string{"b"}}, [7]string{"-", "-", "-", "-", "-", "-", "-"}},
	{"answer", answers("x", "a", "a"), [7]string{"-", "take a round=0; show [working]", "-", "-", "-", "-", "-"}},
	{"answer what is not asked", answers("x", ""), [7]string{"-", "-", "-", "-", "-", "-", "-"}},
	{"complete", ends(TaskCompleted), [7]string{"show [completed]", "show [completed]", "-", "-", "-", "-", "-"}},
	{"fail", ends(TaskFailed), [7]string{"show [failed]", "show [failed]", "-", "-", "-", "-", "-"}},
	{"fetched", TaskIn{Op: TaskFetched}, [7]string{"-", "-", "-", "-", "-", "-", "-"}},
	{"lost", TaskIn{Op: TaskLost, Reason: Expired}, [7]string{"-", "-", "fail expired; show [failed]", "fail expired; show", "-", "-", "-"}},
	{
		"cancel", TaskIn{Op: TaskCancel},
		[7]string{"end-call cancelled; show [cancelled]", "end-call cancelled; show [cancelled]", "-", "-", "-", "-", "-"},
	},
	{
		"stop", TaskIn{Op: TaskStop},
		[7]string{"end-call shutdown; fail shutdown; show [failed]", "end-call shutdown; fail shutdown; show [failed]", "-", "-", "-", "-", "-"},
	},
	{"discard", TaskIn{Op: TaskDiscard}, [7]string{
		"end-call cancelled; show; drop [cancelled]", "end-call cancelled; show; drop [cancelled]", "drop", "drop", "drop", "drop", "-",
	}},
	{
		"orphan", TaskIn{Op: TaskOrphan},
		[7]string{"end-call owner-lost; fail owner-lost; show [failed]", "end-call owner-lost; fail owner-lost; show [failed]", "-", "-", "-", "-", "-"},
	},
	{"move", TaskIn{Op: TaskMove}, [7]string{
		"end-call moved; show; drop [cancelled]", "end-call moved; show; drop [cancelled]", "drop", "drop", "drop", "drop", "-",
	}},
	{"adjust", TaskIn{Op: TaskAdjust, Config: TaskConfig{MaxRuntime: time.Hour}}, [7]string{"-", "-", "-", "-", "-", "-", "-"}},
}

func TestTaskOps(t *testing.T) {
	seen := map[TaskOp]bool{TaskUnlisten: true} // never without a TaskListen: see TestTaskDeadlines
	for _, row := range taskTable {
		seen[row.in.Op] = true
		for i, state := range taskStates {
			t.Run(row.name+" "+state.name, func(t *testing.T) {
				s := newTaskScript(t, TaskConfig{})
				for _, in := range state.inputs {
					s.step(time.Second, in)
				}
				require.Equal(t, state.status, s.m.Status())
				want, becomes, changes := strings.Cut(row.want[i], " [")
				if want == "-" {
					want = "nothing"
				}
				if !changes {
					becomes = state.status.String() + "]"
				}
				before := s.m.Info(start.Add(2 * time.Second))
				require.Equal(t, want, s.step(2*time.Second, row.in))
				require.Equal(t, becomes, s.m.Status().String()+"]")
				after := s.m.Info(start.Add(2 * time.Second))
				if !strings.Contains(want, "show") {
					require.Equal(t, before, after, "what is not shown does not change")
				} else {
					require.Equal(t, start.Add(2*time.Second), after.Updated)
				}
				require.Equal(t, after.Status == TaskInputRequired, len(after.Waiting) > 0)
			})
		}
	}
	for op := TaskTick; op <= TaskAdjust; op++ {
		require.True(t, seen[op], "op %d is in the table", op)
	}
}

// TestTaskStatusNames: the protocol names them.
func TestTaskStatusNames(t *testing.T) {
	for status, want := range map[TaskStatus]string{
		TaskWorking: "working", TaskInputRequired: "input_required", TaskCompleted: "completed", TaskFailed: "failed", TaskCancelled: "cancelled",
	} {
		require.Equal(t, want, status.String())
		require.Equal(t, status != TaskWorking && status != TaskInputRequired, status.Final())
	}
}

// TestTaskQuestions is a story: what is asked, answered and withdrawn, and what is said of it.
func TestTaskQuestions(t *testing.T) {
	s := newTaskScript(t, TaskConfig{})
	require.Equal(t, "show", s.step(1, asks(ofRound(1, "r1.a", "r1.b")...)))
	require.Equal(t, "show", s.step(2, asks(question("q1", "q2")...)))
	require.Equal(t, "r1.a r1.b q1 q2", s.waiting(2), "in the order in which they were asked")
	require.Equal(t, "take r1.b round=1; show", s.step(3, answers("r1.b")), "a part of the answers is allowed")
	require.Equal(t, "nothing", s.step(4, answers("r1.b")), "a repeat is harmless")
	require.Equal(t, "take q1 round=0; show", s.step(5, answers("q1")))
	require.Equal(t, TaskInputRequired, s.m.Status())
	require.Equal(t, "r1.a q2", s.waiting(5))
	require.Equal(t, "take r1.a round=1; resume 1; show", s.step(6, answers("q1", "unknown", "r1.a")), "the round goes on, although q2 waits")
	require.Equal(t, TaskInputRequired, s.m.Status())
	require.Equal(t, "show", s.step(7, TaskIn{Op: TaskWithdraw, Keys: []string{"q2", "r1.a"}}))
	require.Equal(t, TaskWorking, s.m.Status())
	require.Equal(t, "nothing", s.step(8, answers("q2", "q2")), "nobody awaits what was withdrawn")

	require.Equal(t, "show", s.step(9, asks(ofRound(2, "r2.a", "r2.b")...)))
	require.Equal(t, "take r2.b round=2; take r2.a round=2; resume 2; show", s.step(10, answers("r2.b", "r2.a", "r1.a")))
	require.Equal(t, TaskWorking, s.m.Status())

	require.Equal(t, "show", s.step(11, asks(ofRound(3, "r3.a")...)))
	require.Equal(t, "show", s.step(12, ends(TaskCompleted)), "a call may ask and not wait")
	require.Empty(t, s.waiting(12))
	require.Equal(t, "nothing", s.step(13, answers("r3.a")))
}

// TestTaskRoundsAtOnce: one update may complete several rounds.
func TestTaskRoundsAtOnce(t *testing.T) {
	s := newTaskScript(t, TaskConfig{})
	s.step(1, asks(append(ofRound(1, "a"), ofRound(2, "b", "c")...)...))
	require.Equal(t, "take c round=2; take a round=1; resume 1; take b round=2; resume 2; show", s.step(2, answers("c", "a", "b")))

	// A round without its withdrawn questions; and one whose last question is withdrawn does not go on.
	s.step(3, asks(ofRound(3, "d", "e")...))
	require.Equal(t, "show", s.step(4, TaskIn{Op: TaskWithdraw, Keys: []string{"d"}}))
	require.Equal(t, "take e round=3; resume 3; show", s.step(5, answers("e")))
	s.step(6, asks(ofRound(4, "f", "g")...))
	require.Equal(t, "take f round=4; show", s.step(7, answers("f")))
	require.Equal(t, "show", s.step(8, TaskIn{Op: TaskWithdraw, Keys: []string{"g"}}))
}

func TestTaskDeadlines(t *testing.T) {
	type at struct {
		time.Duration
		TaskIn
	}
	in := func(d time.Duration, op TaskOp) at { return at{d, TaskIn{Op: op}} }
	const s, m = time.Second, time.Minute
	abandon, overrun, keep := TaskConfig{AbandonAfter: m}, TaskConfig{MaxRuntime: m}, TaskConfig{TTL: m}
	whole := TaskConfig{TTL: time.Hour, AbandonAfter: 10 * m, MaxRuntime: 30 * m}
	failed := func(why string) string { return "end-call " + why + "; fail " + why + "; show" }
	for _, c := range []struct {
		name string
		cfg  TaskConfig
		ins  []at
		at   string
		want string
	}{
		{"all off", TaskConfig{}, nil, "never", ""},
		{"all negative", TaskConfig{TTL: -1, AbandonAfter: -1, MaxRuntime: -1}, []at{{s, ends(TaskCompleted)}}, "never", ""},

		{"AbandonAfter", abandon, nil, "1m0s", failed("abandoned")},
		{"AbandonAfter counts from a get", abandon, []at{in(5*s, TaskSeen)}, "1m5s", failed("abandoned")},
		{"AbandonAfter counts from an update", abandon, []at{{5 * s, answers()}}, "1m5s", failed("abandoned")},
		{"AbandonAfter does not count from what the call does", abandon, []at{
			{5 * s, TaskIn{Op: TaskNote, Message: "x"}}, {6 * s, asks(question("a")...)}, {7 * s, TaskIn{Op: TaskWithdraw, Keys: []string{"a"}}},
		}, "1m0s", failed("abandoned")},
		{"AbandonAfter while the client is asked", abandon, []at{{5 * s, asks(question("a")...)}}, "1m0s", failed("abandoned")},
		{"AbandonAfter while it listens", abandon, []at{in(5*s, TaskListen)}, "never", ""},
		{"AbandonAfter while it listens twice, and once no more", abandon, []at{in(5*s, TaskListen), in(6*s, TaskListen), in(7*s, TaskUnlisten)}, "never", ""},
		{"AbandonAfter counts from the end of that", abandon, []at{in(5*s, TaskListen), in(5*m, TaskUnlisten)}, "6m0s", failed("abandoned")},
		{"AbandonAfter after a late get", abandon, []at{in(59*s, TaskSeen), in(90*s, TaskSeen)}, "2m30s", failed("abandoned")},
		{"AbandonAfter that is due anyway does not come first", whole, []at{in(29*m, TaskSeen)}, "30m0s", failed("overran")},
		{"AbandonAfter after the end", abandon, []at{{5 * s, ends(TaskCompleted)}}, "never", ""},

		{"MaxRuntime", overrun, nil, "1m0s", failed("overran")},
		{"MaxRuntime does not count from a get", overrun, []at{in(5*s, TaskSeen), {6 * s, answers()}}, "1m0s", failed("overran")},
		{"MaxRuntime while the client listens", overrun, []at{in(5*s, TaskListen)}, "1m0s", failed("overran")},
		{"MaxRuntime while it is asked", overrun, []at{{5 * s, asks(question("a")...)}}, "1m0s", failed("overran")},
		{"MaxRuntime after the end", overrun, []at{{5 * s, ends(TaskFailed)}}, "never", ""},
		{"the first of both", whole, nil, "10m0s", failed("abandoned")},
		{"both at once", TaskConfig{AbandonAfter: m, MaxRuntime: m}, nil, "1m0s", failed("overran")},

		{"TTL before the end", keep, nil, "never", ""},
		{"TTL after a result", keep, []at{{5 * s, ends(TaskCompleted)}}, "1m5s", "drop"},
		{"TTL after a failure", keep, []at{{5 * s, ends(TaskFailed)}}, "1m5s", "drop"},
		{"TTL after a cancellation", keep, []at{in(5*s, TaskCancel)}, "1m5s", "drop"},
		{"TTL after a stop", keep, []at{in(5*s, TaskStop)}, "1m5s", "drop"},
		{"TTL after an overrun that a late tick has found", TaskConfig{TTL: m, MaxRuntime: m}, []at{in(5*m, TaskTick)}, "6m0s", "drop"},
		{"TTL does not count from a get or a loss", keep, []at{
			{5 * s, ends(TaskCompleted)}, in(10*s, TaskSeen), in(11*s, TaskFetched), in(12*s, TaskLost), in(13*s, TaskListen),
		}, "1m5s", "drop"},
		{"a TTL of a lifetime", TaskConfig{TTL: math.MaxInt64}, []at{{5 * s, ends(TaskCompleted)}}, "never", ""},
		{"an AbandonAfter of a lifetime", TaskConfig{AbandonAfter: math.MaxInt64}, []at{in(5*s, TaskSeen)}, "never", ""},

		{"AbandonAfter adjusted", whole, []at{{5 * m, TaskIn{Op: TaskAdjust, Config: TaskConfig{AbandonAfter: 6 * m}}}}, "6m0s", failed("abandoned")},
		{"AbandonAfter adjusted to off", whole, []at{{5 * m, TaskIn{Op: TaskAdjust, Config: TaskConfig{AbandonAfter: -1}}}}, "30m0s", failed("overran")},
		{"MaxRuntime adjusted", whole, []at{{5 * m, TaskIn{Op: TaskAdjust, Config: TaskConfig{MaxRuntime: 6 * m}}}}, "6m0s", failed("overran")},
		{"TTL adjusted after the end", whole, []at{
			{5 * m, ends(TaskCompleted)}, {6 * m, TaskIn{Op: TaskAdjust, Config: TaskConfig{TTL: 2 * m}}},
		}, "7m0s", "drop"},

		{"time never goes back", abandon, []at{in(30*s, TaskSeen), in(5*s, TaskSeen)}, "1m30s", failed("abandoned")},
		{"nor at the end", keep, []at{in(30*s, TaskSeen), {5 * s, ends(TaskCompleted)}}, "1m30s", "drop"},
		{"nor before the beginning", abandon, []at{in(-30*s, TaskSeen)}, "1m0s", failed("abandoned")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTaskScript(t, c.cfg)
			for _, in := range c.ins {
				if did := s.step(in.Duration, in.TaskIn); in.Op != TaskTick && in.Op != TaskCancel && in.Op != TaskStop {
					require.NotRegexp(t, "end-call|drop", did, "not yet")
				}
			}
			require.Equal(t, c.at, s.deadline())
			if c.at == "never" {
				require.Equal(t, "nothing", s.tick(1000*time.Hour))
				return
			}
			at, err := time.ParseDuration(c.at)
			require.NoError(t, err)
			require.Equal(t, "nothing", s.tick(at-1), "before its time")
			require.Equal(t, c.want, s.tick(at))
			require.Equal(t, "nothing", s.tick(at), "done once")
		})
	}
}

// TestTaskAdjustAtOnce: what an Adjust makes due is done in its step.
func TestTaskAdjustAtOnce(t *testing.T) {
	s := newTaskScript(t, TaskConfig{TTL: time.Hour, MaxRuntime: time.Hour})
	require.Equal(t, "end-call overran; fail overran; show", s.step(time.Minute, TaskIn{Op: TaskAdjust, Config: TaskConfig{MaxRuntime: time.Second}}))
	require.Equal(t, "drop", s.step(2*time.Minute, TaskIn{Op: TaskAdjust, Config: TaskConfig{TTL: time.Second}}))
	require.Equal(t, "never", s.deadline())
}

// TestTaskTTL: what the client is told of the time that a task is kept grows while the call goes on, and is fixed at its end.
func TestTaskTTL(t *testing.T) {
	s := newTaskScript(t, TaskConfig{TTL: time.Hour})
	ttl := func(at time.Duration) time.Duration { return s.m.Info(start.Add(at)).TTL }
	require.Equal(t, time.Hour, ttl(0))
	require.Equal(t, time.Hour, ttl(-time.Minute), "time never goes back")
	require.Equal(t, time.Hour+5*time.Minute, ttl(5*time.Minute))
	s.step(6*time.Minute, asks(question("a")...))
	require.Equal(t, time.Hour+6*time.Minute, ttl(5*time.Minute))
	require.Equal(t, time.Hour+7*time.Minute, ttl(7*time.Minute))
	s.step(8*time.Minute, ends(TaskCompleted))
	for _, at := range []time.Duration{0, 8 * time.Minute, 50 * time.Minute} {
		require.Equal(t, time.Hour+8*time.Minute, ttl(at))
	}
	s.step(9*time.Minute, TaskIn{Op: TaskLost, Reason: StoreFailed})
	require.Equal(t, time.Hour+8*time.Minute, ttl(time.Hour))
	require.Equal(t, "drop", s.tick(time.Hour+8*time.Minute))

	for _, unlimited := range []time.Duration{0, -1, math.MaxInt64} {
		s = newTaskScript(t, TaskConfig{TTL: unlimited})
		s.step(time.Minute, TaskIn{Op: TaskSeen})
		require.Zero(t, ttl(time.Minute))
		s.step(time.Minute, ends(TaskCompleted))
		require.Zero(t, ttl(2*time.Minute))
	}
}

// TestTaskFinalIsFinal: nothing changes what the client sees of a task that has ended, but a loss, once.
func TestTaskFinalIsFinal(t *testing.T) {
	for _, state := range taskStates[2:6] {
		t.Run(state.name, func(t *testing.T) {
			s := newTaskScript(t, TaskConfig{TTL: time.Hour, AbandonAfter: time.Minute, MaxRuntime: time.Minute})
			for _, in := range state.inputs {
				s.step(time.Second, in)
			}
			before := s.m.Info(start)
			for _, row := range taskTable {
				switch row.in.Op {
				case TaskLost, TaskDiscard, TaskMove, TaskAdjust:
				default:
					require.Equal(t, "nothing", s.step(10*time.Minute, row.in), row.name)
					require.Equal(t, before, s.m.Info(start.Add(10*time.Minute)), row.name)
				}
			}
			lost := s.step(11*time.Minute, TaskIn{Op: TaskLost, Reason: StoreFailed})
			require.Equal(t, state.name == "completed" || state.name == "failed", lost != "nothing")
			require.Equal(t, "nothing", s.step(12*time.Minute, TaskIn{Op: TaskLost, Reason: StoreFailed}), "it is lost once")
		})
	}
}

// What has ended looks in another process as it did in the first, also where the clocks differ.
func TestATaskIsRestoredAsItEnded(t *testing.T) {
	for _, state := range taskStates[2:6] {
		t.Run(state.name, func(t *testing.T) {
			cfg := TaskConfig{TTL: time.Hour, AbandonAfter: time.Minute, MaxRuntime: time.Minute}
			s := newTaskScript(t, cfg)
			s.step(1, TaskIn{Op: TaskNote, Message: "half"})
			_, ended := s.m.Ending()
			require.False(t, ended)
			for _, in := range state.inputs {
				s.step(time.Second, in)
			}
			at, ended := s.m.Ending()
			require.True(t, ended)
			m := RestoreTask(cfg, start, at)
			require.Equal(t, s.m.Info(start.Add(time.Minute)), m.Info(start.Add(time.Minute)))
			require.Equal(t, s.m.Info(start.Add(time.Minute)), m.Info(start.Add(-time.Minute)), "a clock that is behind")
			require.Equal(t, s.m.Deadline(), m.Deadline())
			require.Empty(t, m.Step(start.Add(59*time.Minute), &TaskIn{Op: TaskTick}, nil))
			require.Equal(t, []TaskOut{{Do: DropTask}}, m.Step(start.Add(time.Hour+time.Second), &TaskIn{Op: TaskTick}, nil))
			_, ended = m.Ending()
			require.False(t, ended, "it is not kept any more")
		})
	}
}

func TestTaskMessage(t *testing.T) {
	s := newTaskScript(t, TaskConfig{})
	message := func() string { return s.m.Info(start).Message }
	s.step(1, TaskIn{Op: TaskNote, Message: "half"})
	require.Equal(t, "half", message())
	s.step(2, ends(TaskCompleted))
	require.Equal(t, "half", message(), "an end without a message leaves it")
	s = newTaskScript(t, TaskConfig{})
	s.step(1, TaskIn{Op: TaskNote, Message: "half"})
	s.step(2, TaskIn{Op: TaskEnd, Status: TaskFailed, Message: "broken"})
	require.Equal(t, "broken", message())
}

func TestTaskFetched(t *testing.T) {
	s := newTaskScript(t, TaskConfig{})
	s.step(1, TaskIn{Op: TaskFetched})
	require.False(t, s.m.Fetched(), "there is nothing yet")
	s.step(2, ends(TaskCompleted))
	require.False(t, s.m.Fetched())
	s.step(3, TaskIn{Op: TaskFetched})
	require.True(t, s.m.Fetched())
	s.step(4, TaskIn{Op: TaskLost, Reason: Expired})
	require.True(t, s.m.Fetched(), "the client has it")

	s = newTaskScript(t, TaskConfig{})
	s.step(1, TaskIn{Op: TaskCancel})
	require.True(t, s.m.Fetched(), "there is nothing to fetch")
}

// TestTaskInfoIsACopy: a driver may keep it.
func TestTaskInfoIsACopy(t *testing.T) {
	s := newTaskScript(t, TaskConfig{})
	s.step(1, asks(question("a", "b", "c")...))
	info := s.m.Info(start)
	s.step(2, answers("a"))
	s.step(3, asks(question("d")...))
	require.Equal(t, question("a", "b", "c"), info.Waiting)
	require.Equal(t, "b c d", s.waiting(3))
}
