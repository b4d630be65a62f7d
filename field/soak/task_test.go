package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bareTask is a task without a server, whose tool has sent two events and returned.
func bareTask() *task {
	m := newModern(bareSession())
	c := newModernCall(m, 0)
	c.perform, c.survey = toolArgs{Events: 2}, surveyArgs{}
	c.answers.all = map[string]*attempt{}
	return newTask(c, "n.X", time.Now())
}

// The states of a task.
const (
	stateHead = `"taskId":"n.X","createdAt":"2026-01-01T00:00:00.000Z","lastUpdatedAt":"2026-01-01T00:00:01.000Z","ttlMs":20000,"pollIntervalMs":200`
	working   = `{"resultType":"complete","status":"working",` + stateHead + `}`
	completed = `{"resultType":"complete","status":"completed",` + stateHead + `,"result":{"resultType":"complete","content":[{"type":"text","text":` +
		`"{\"call\":\"0.0/0\",\"sent\":2}"}]}}`
	cancelled = `{"resultType":"complete","status":"cancelled",` + stateHead + `}`
	abandoned = `{"resultType":"complete","status":"failed",` + stateHead + `,"error":{"code":-32000,"data":{"reason":"abandoned"}}}`
)

// The account finds results that are lost, changed or another's, and ends without an explanation.
func TestTheAccountOfATaskSeesWhatIsWrong(t *testing.T) {
	at := func(status string, more ...string) string {
		return `{"resultType":"complete","status":"` + status + `",` + stateHead + strings.Join(more, "") + `}`
	}
	for name, test := range map[string]struct {
		before func(*task)
		states []string
		faults int
	}{
		"all as it must be":       {nil, []string{working, working, completed, completed}, 0},
		"another task":            {nil, []string{strings.ReplaceAll(working, "n.X", "n.Y")}, 1},
		"another call's result":   {nil, []string{strings.ReplaceAll(completed, "0.0/0", "0.0/1")}, 1},
		"a result is cut":         {nil, []string{strings.ReplaceAll(completed, `\"sent\":2`, `\"sent\":1`)}, 1},
		"it runs again":           {nil, []string{completed, working}, 1},
		"it changes":              {nil, []string{completed, strings.ReplaceAll(completed, "00:00:01", "00:00:02")}, 1},
		"another end":             {func(t *task) { t.cancels = true }, []string{cancelled, completed}, 1},
		"made anew":               {nil, []string{working, strings.ReplaceAll(working, "2026-01-01", "2026-01-02")}, 1},
		"cancelled by its client": {func(t *task) { t.cancels = true }, []string{working, cancelled}, 0},
		"cancelled by nobody":     {nil, []string{working, cancelled}, 1},
		"after a cancellation":    {func(t *task) { t.cancels, t.ends = true, true }, []string{working}, 1},
		"abandoned too early":     {nil, []string{working, abandoned}, 1},
		"abandoned":               {func(t *task) { t.contact = time.Now().Add(-time.Minute) }, []string{abandoned}, 0},
		"a failure of its own":    {nil, []string{strings.ReplaceAll(abandoned, "abandoned", "internal")}, 1},
		"no result":               {nil, []string{at("completed")}, 2},
		"a result too early":      {nil, []string{at("working", `,"result":{}`)}, 1},
		"progress goes back":      {nil, []string{at("working", `,"statusMessage":"2"`), at("working", `,"statusMessage":"1"`)}, 1},
		"too much progress":       {nil, []string{at("working", `,"statusMessage":"3"`)}, 1},
		"questions without any":   {nil, []string{at("input_required")}, 1},
		"kept for too short":      {nil, []string{strings.ReplaceAll(working, `"ttlMs":20000`, `"ttlMs":19999`)}, 1},
		"an answer that makes it": {nil, []string{strings.ReplaceAll(working, `"complete"`, `"task"`)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			task := bareTask()
			if test.before != nil {
				test.before(task)
			}
			for _, s := range test.states {
				task.see(nil, []byte(s), task.sight())
			}
			counts, faults := task.c.m.ledger.take()
			require.EqualValues(t, test.faults, counts["faults"], "%s", faults)
		})
	}
}

// A task may be unknown only when it has expired since it was last seen to run.
func TestATaskThatIsUnknownMustHaveExpired(t *testing.T) {
	for ago, faults := range map[time.Duration]int{time.Second: 1, time.Minute: 0} {
		task := bareTask()
		task.alive = time.Now().Add(-ago)
		task.unknown(&modernAnswer{})
		counts, _ := task.c.m.ledger.take()
		require.EqualValues(t, faults, counts["faults"])
		require.True(t, task.over())
	}
}

// The answers that a survey reports are those of its client, and none that came after one was acknowledged.
func TestAnswersOfASurvey(t *testing.T) {
	m := newModern(bareSession())
	a := attempts{all: map[string]*attempt{}}
	var said []string
	give := func(question string) string {
		a.give(m.r, question)
		said = a.all[question].said
		return question + "=" + said[len(said)-1]
	}
	first := give("c:0:k0")
	second := give("c:0:k0")
	require.Empty(t, a.check([]string{first}, 1), "the connection was cut")
	require.Empty(t, a.check([]string{second}, 1))
	a.acknowledged("c:0:k0")
	third := give("c:0:k0")
	a.acknowledged("c:0:k0")
	require.Empty(t, a.check([]string{second}, 1))
	if third != second && third != first { // a client may decline twice
		require.Contains(t, a.check([]string{third}, 1), "the tool was told")
	}
	require.Contains(t, a.check([]string{first, first}, 2), "twice")
	require.Contains(t, a.check([]string{"c:0:k1=accept"}, 1), "not given")
	require.Contains(t, a.check(nil, 1), "0 answers of 1")
}

// What begins and has no end that is counted is a fault of the account.
func TestEachEndIsCounted(t *testing.T) {
	counts := map[string]int64{
		"modern calls": 3, "modern calls: completed at once": 1, "modern calls: became tasks": 2, "tasks": 2, "tasks: completed": 1, "tasks: cancelled": 1,
	}
	require.NoError(t, unaccounted(counts))
	counts["tasks: cancelled"] = 0
	require.EqualError(t, unaccounted(counts), "of 2 tasks, 1 are accounted for")
}

// A survey asks in rounds, and reports all answers. It fails if it is called again with a part of them.
func TestASurveyAsksInRounds(t *testing.T) {
	p := surveyArgs{Call: "c", Rounds: 2, Keys: 2}
	step, err := survey(t.Context(), &p, "", nil)
	require.NoError(t, err)
	for round := range 2 {
		require.Equal(t, map[string]string{"k0": fmt.Sprintf("c:%d:k0 please", round), "k1": fmt.Sprintf("c:%d:k1 please", round)}, step.asks)
		part, err := survey(t.Context(), &p, step.state, map[string]string{"k0": "accept a"})
		require.NoError(t, err)
		require.Contains(t, part.text, `"failed":"1 of 2 answers"`)
		step, err = survey(t.Context(), &p, step.state, map[string]string{"k0": "accept a", "k1": "decline"})
		require.NoError(t, err)
	}
	require.Contains(t, step.text, `"answers":["c:0:k0=accept a","c:0:k1=decline","c:1:k0=accept a","c:1:k1=decline"],"failed":""`)
}
