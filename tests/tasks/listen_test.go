package tasks_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// statuses are the states that a listener has got, without the acknowledgement.
func statuses(t *testing.T, res *kit.Response) (all []any) {
	t.Helper()
	for _, m := range read(t, res)[1:] {
		require.Equal(t, "notifications/tasks", m["method"], "%v", m)
		require.NotContains(t, m["params"], "resultType")
		all = append(all, at(m, "params", "status"))
	}
	return all
}

// A listener gets an acknowledgement, the present state of each task, and each change up to the end: what tasks/get says.
func TestAListener(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Node: "n"})
		id, tool := w.task()
		require.NoError(t, tool.Progress(1, 0, "one"))
		res := w.open(w.listen([]string{"n.unknown", id, id}, ""))
		all := strings.Split(text(res), "\n\n")
		require.Equal(t, `event: message
data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},`+
			`"notifications":{"taskIds":["`+id+`"]}}}`, all[0])
		require.Equal(t, `event: message
data: {"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"`+id+`","status":"working","createdAt":"2000-01-01T00:00:01.000Z",`+
			`"lastUpdatedAt":"2000-01-01T00:00:01.000Z","ttlMs":600000,"pollIntervalMs":2000,"statusMessage":"one",`+
			`"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`, all[1])
		require.Equal(t, "text/event-stream", res.Head.Get("Content-Type"))

		require.NoError(t, tool.Progress(2, 0, "two"))
		same := func() map[string]any {
			m := read(t, res)
			last := m[len(m)-1]["params"].(map[string]any)
			require.EqualValues(t, 2, at(last, "_meta", "io.modelcontextprotocol/subscriptionId"))
			delete(last, "_meta")
			last["resultType"], last["_meta"] = "complete", map[string]any{"io.modelcontextprotocol/serverInfo": map[string]any{"name": "test", "version": "1"}}
			require.Equal(t, w.get(id), last)
			return last
		}
		require.Equal(t, "two", same()["statusMessage"])
		require.NoError(t, tool.Progress(2, 0, "two"))
		require.Len(t, statuses(t, res), 2, "nothing has changed")
		asked := tool.Asks(tool.Ctx, "elicitation/create")
		require.Contains(t, same()["inputRequests"], "q1")
		w.update(id, `{"q1":{}}`)
		<-asked
		require.Equal(t, "working", same()["status"])
		tool.Returns(map[string]any{"content": []any{}})
		require.Contains(t, same(), "result")
		require.Equal(t, []any{"working", "working", "input_required", "working", "completed"}, statuses(t, res))
		kit.Elapse(time.Hour)
		require.Len(t, statuses(t, res), 5)
		require.False(t, ended(res), "it stays, with comments")
		w.requireUnknown(id)
	})
}

// The id of the subscription keeps its JSON type, and several listeners of one task each get all.
func TestListenersOfOneTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		var all []*kit.Response
		ids := []string{`17`, `"17"`, `"é\u00e9\n"`, `1.5e3`}
		for _, own := range ids {
			raw := strings.Replace(string(bodyOf(t, w.listen([]string{id}, ""))), fmt.Sprintf(`"id":%d`, w.last), `"id":`+own, 1)
			all = append(all, w.open(replaced(w.listen([]string{id}, ""), raw)))
		}
		w.cancel(id)
		require.ErrorIs(t, tool.Cause(), rejoin.ErrCancelled)
		for i, res := range all {
			require.Equal(t, []any{"working", "cancelled"}, statuses(t, res))
			require.Equal(t, 3, strings.Count(text(res), `"io.modelcontextprotocol/subscriptionId":`+ids[i]+`}`), text(res))
		}
	})
}

// A listener that has got the result has fetched it. It keeps its task from AbandonAfter, which counts from its end.
func TestAListenerKeepsItsTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Policy: rejoin.Policy{AbandonAfter: time.Minute}})
		id, tool := w.task()
		other, abandoned := w.task()
		res := w.Do(w.listen([]string{id}, ""))
		kit.Elapse(time.Hour)
		require.NoError(t, tool.Cause())
		require.ErrorIs(t, abandoned.Cause(), rejoin.ErrAbandoned)
		require.Equal(t, int64(1), w.Server().Stats().TasksRunning)
		w.requireUnknown(other)
		require.NoError(t, res.Body.Close())
		kit.Elapse(59 * time.Second)
		require.NoError(t, tool.Cause())
		again := w.Do(w.listen([]string{id}, ""))
		kit.Elapse(time.Hour)
		require.NoError(t, tool.Cause())
		tool.Returns(map[string]any{"content": []any{}})
		require.NoError(t, again.Body.Close())
		synctest.Wait()
		require.NoError(t, <-kit.Drain(t, w.Server(), time.Second), "nothing is left to fetch")
	})
}

// A drain ends listeners with a result.
func TestADrainEndsListeners(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		res := w.open(w.listen([]string{id}, ""))
		done := kit.Drain(t, w.Server(), 0)
		all := read(t, res)
		require.Equal(t, map[string]any{"resultType": "complete", "_meta": map[string]any{
			"io.modelcontextprotocol/serverInfo": map[string]any{"name": "test", "version": "1"}, "io.modelcontextprotocol/subscriptionId": 2.0,
		}}, all[len(all)-1]["result"])
		require.True(t, ended(res))
		require.Empty(t, done)
		tool.Returns(map[string]any{"content": []any{}})
		require.Equal(t, "completed", w.get(id)["status"])
		require.NoError(t, <-done)
	})
}

// No more than a thousand tasks can be listened to at once.
func TestAListenerOfManyTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		ids := make([]string, 1001)
		for i := range ids {
			ids[i] = fmt.Sprintf("n.%d", i)
		}
		status, code := w.refused(w.listen(ids, ""))
		require.Equal(t, []any{400, -32602.0}, []any{status, code})
		ids[999] = id
		res := w.open(w.listen(ids[:1000], ""))
		tool.Returns(map[string]any{"content": []any{}})
		require.Equal(t, []any{"working", "completed"}, statuses(t, res))
		require.Equal(t, []any{id}, at(read(t, res)[0], "params", "notifications", "taskIds"))
		require.Equal(t, []any{}, at(read(t, w.open(w.listen([]string{}, "")))[0], "params", "notifications", "taskIds"))
	})
}

// What a listener was not told counts as not fetched: behind a writer that cannot flush nothing leaves.
func TestAListenerThatNothingReaches(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Logger: kit.QuietLogger()})
		id, tool := w.task()
		w.serve(bare{&kit.Response{Head: http.Header{}}}, w.listen([]string{id}, ""))
		tool.Returns(map[string]any{"content": []any{}})
		require.Equal(t, &rejoin.DrainError{Unfetched: 1}, <-kit.Drain(t, w.Server(), time.Second))
	})
}

// A store that fails to return a result is asked again: a client that listens need not poll.
func TestAListenerAndAStoreThatFails(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		store := kit.NewLossyStore()
		w := begin(t, rejoin.Config{Store: store, Logger: kit.QuietLogger()})
		id, tool := w.task()
		tool.Returns(map[string]any{"content": []any{}})
		store.Fail(errors.New("no disk"))
		res := w.open(w.listen([]string{id}, ""))
		kit.Elapse(time.Minute)
		require.Empty(t, statuses(t, res))
		store.Fail(nil)
		kit.Elapse(2 * time.Second)
		require.Equal(t, []any{"completed"}, statuses(t, res))
		require.NoError(t, <-kit.Drain(t, w.Server(), time.Second))
	})
}
