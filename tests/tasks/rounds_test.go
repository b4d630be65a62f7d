package tasks_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// asksFor is a result that asks. members are those of inputRequests; state is the requestState as JSON, or "".
func asksFor(members, state string) string {
	result := `{"resultType":"input_required"`
	if members != "" {
		result += `,"inputRequests":{` + members + `}`
	}
	if state != "" {
		result += `,"requestState":` + state
	}
	return `{"jsonrpc":"2.0","id":1,"result":` + result + `}}`
}

const question = `{"method":"elicitation/create","params":{"message":"sure?"}}`

// rounds is a world whose tool returns each of answers in turn, always a second after TaskAfter. seen has what each run was given.
func rounds(t *testing.T, stream bool, answers ...string) (w *world, seen *texts) {
	t.Helper()
	seen = &texts{}
	var run atomic.Int64
	return beginWith(t, rawApp(rawDiscover, func(c rawCall) {
		n := int(run.Add(1))
		given, state := c.params()
		seen.add(fmt.Sprintf("%d:%s/%s", n, given, state))
		if n == 1 {
			kit.Elapse(2 * time.Second)
		}
		if stream {
			c.streams()
			c.puts(event(answers[n-1]))
			return
		}
		c.json(200, answers[n-1])
	}), configured(rejoin.Config{Logger: kit.QuietLogger(), Tasks: rejoin.Tasks{PollInterval: 7 * time.Second}})), seen
}

// A handler that returns questions is called again when all are answered, with the answers and the state of its last round only. Clients see other keys
// in each round, and no state.
func TestRoundsOfQuestions(t *testing.T) {
	for name, stream := range map[string]bool{"JSON": false, "a stream": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, seen := rounds(t, stream,
					asksFor(`"a":`+question+`,"b.c":`+question, `"s1"`), asksFor(`"a":`+question, `{"s":2}`), asksFor(`"":`+question, ""), rawResult)
				first := w.request("tools/call", "x", `,"name":"x","inputResponses":{"old":1},"requestState":"s0"`)
				id := w.result(first)["taskId"].(string)
				require.Equal(t, `1:{"old":1}/"s0"`, seen.join(), "of a round before the task")
				kit.Elapse(time.Second)
				got := w.settled(id)
				require.Equal(t, "input_required", got["status"])
				require.Equal(t, map[string]any{"r1.a": decode(t, question), "r1.b.c": decode(t, question)}, got["inputRequests"])
				require.NotContains(t, got, "requestState")
				w.update(id, `{"r1.a":{"action":"accept"},"a":{"action":"decline"},"r2.a":{"action":"decline"}}`)
				require.Equal(t, map[string]any{"r1.b.c": decode(t, question)}, w.settled(id)["inputRequests"])
				require.Equal(t, `1:{"old":1}/"s0"`, seen.join(), "it waits for the other one")
				w.update(id, `{"r1.b.c":{"content":"<&>"},"r1.a":{"action":"cancel"}}`)
				got = w.settled(id)
				require.Equal(t, map[string]any{"r2.a": decode(t, question)}, got["inputRequests"], "the same key, in another round")
				w.update(id, `{"r1.a":{"action":"cancel"}}`)
				require.Equal(t, "input_required", w.settled(id)["status"])
				w.update(id, `{"r2.a":2}`)
				require.Contains(t, w.settled(id)["inputRequests"], "r3.")
				w.update(id, `{"r3.":3}`)
				require.Equal(t, "completed", w.settled(id)["status"])
				require.Equal(t, `1:{"old":1}/"s0" 2:{"a":{"action":"accept"},"b.c":{"content":"\u003c\u0026\u003e"}}/"s1" 3:{"a":2}/{"s":2} 4:{"":3}/`, seen.join())
				kit.Elapse(10 * time.Minute)
				w.requireUnknown(id)
				w.requireNothingLeft()
			})
		})
	}
}

// A handler that returns a state without a question is called again after PollInterval. The task works meanwhile.
func TestAStateWithoutAQuestion(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, seen := rounds(t, false, asksFor("", `"busy"`), asksFor("", `"still busy"`), rawResult)
		id := w.makeTask()
		kit.Elapse(time.Second)
		require.Equal(t, "working", w.settled(id)["status"])
		kit.Elapse(7*time.Second - time.Nanosecond)
		require.Equal(t, "1:/", seen.join())
		kit.Elapse(time.Nanosecond)
		require.Equal(t, `1:/ 2:/"busy"`, seen.join())
		require.Equal(t, "working", w.settled(id)["status"])
		kit.Elapse(7 * time.Second)
		require.Equal(t, `1:/ 2:/"busy" 3:/"still busy"`, seen.join())
		require.Equal(t, "completed", w.settled(id)["status"])
	})
}

// A task that ends between two rounds is not called again.
func TestATaskThatEndsBetweenRounds(t *testing.T) {
	for name, first := range map[string]string{"a state": asksFor("", `"busy"`), "a question": asksFor(`"a":`+question, "")} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, seen := rounds(t, false, first, rawResult)
				id := w.makeTask()
				kit.Elapse(time.Second)
				synctest.Wait()
				w.cancel(id)
				w.update(id, `{"r1.a":1}`)
				kit.Elapse(time.Minute)
				require.Equal(t, "1:/", seen.join())
				require.Equal(t, "cancelled", w.settled(id)["status"])
			})
		})
	}
}

// A question that the client cannot answer, and a round that asks nothing, are failures.
func TestRoundsThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		code   float64
	}{
		"a capability that the client lacks": {asksFor(`"a":`+question+`,"b":{"method":"sampling/createMessage","params":{}}`, ""), -32021},
		"a form of it that the client lacks": {asksFor(`"a":{"method":"elicitation/create","params":{"mode":"url"}}`, ""), -32021},
		"no question":                        {asksFor("", ""), -32603},
		"questions that are none":            {strings.Replace(asksFor(`"a":1`, ""), `{"a":1}`, `[1]`, 1), -32603},
		"a question that is none":            {asksFor(`"a":1`, ""), -32603},
		"a question without a method":        {asksFor(`"a":{"params":{}}`, ""), -32603},
		"a task of its own":                  {`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"x"}}`, -32603},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, _ := rounds(t, false, test.answer)
				id := w.makeTask()
				kit.Elapse(time.Second)
				got := w.settled(id)
				require.Equal(t, []any{"failed", test.code, nil}, failure(got))
				if test.code == -32021 {
					require.NotNil(t, at(got, "error", "data", "requiredCapabilities"))
				}
				require.EqualValues(t, 0, w.Server().Stats().TasksRunning)
			})
		})
	}
}

// What is asked before the task is passed on as ever, also to a client that takes tasks.
func TestAQuestionBeforeTheTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		asked := asksFor(`"a":`+question, `"s"`)
		w := beginWith(t, rawApp(rawDiscover, func(c rawCall) { c.json(200, asked) }), configured(rejoin.Config{}))
		require.Equal(t, asked, body(t, w, w.call()))
		w.requireNothingLeft()
	})
}

// A Handler of NewApp asks in the same way, and may ask by Handle.Ask in a later round.
func TestRoundsOfNewApp(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		tool.Returns(map[string]any{"resultType": "input_required", "inputRequests": map[string]any{"a": map[string]any{"method": "elicitation/create"}}})
		require.Contains(t, w.get(id)["inputRequests"], "r1.a")
		require.NoError(t, tool.Cause(), "the call goes on")
		w.update(id, `{"r1.a":{"action":"accept"}}`)
		tool = w.next()
		require.True(t, tool.Resumable())
		asked := tool.Asks(tool.Ctx, "elicitation/create")
		require.Contains(t, w.get(id)["inputRequests"], "q1")
		w.update(id, `{"q1":{"action":"accept"}}`)
		requireAnswer(t, `{"action":"accept"}`, asked)
		require.NoError(t, tool.Progress(1, 2, "nearly"))
		require.Equal(t, "nearly", w.get(id)["statusMessage"])
		tool.Returns(map[string]any{"content": []any{}})
		require.Equal(t, "completed", w.get(id)["status"])
	})
}

// Very large questions are shown whole, as often as the client asks.
func TestLargeQuestions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		large := `"a":{"method":"elicitation/create","params":{"message":"` + strings.Repeat("x", 8<<20) + `"}}`
		w, _ := rounds(t, true, asksFor(large, ""), rawResult)
		id := w.makeTask()
		kit.Elapse(time.Second)
		for range 2 {
			require.Len(t, at(w.settled(id), "inputRequests", "r1.a", "params", "message"), 8<<20)
		}
		w.update(id, `{"r1.a":1}`)
		require.Equal(t, "completed", w.settled(id)["status"])
	})
}
