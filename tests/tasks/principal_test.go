package tasks_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// What others ask about a task gets the answer of an unknown id, byte for byte, and changes nothing.
func TestTheTaskOfAnotherPrincipal(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Principal: kit.ByUser})
		w.user = "" // the session of the client
		id, tool := w.task()
		asked := tool.Asks(tool.Ctx, "elicitation/create")
		const unknown = "abcdefgh.AAAAAAAAAAAAAAAAAAAAAAAAAA"
		ask := func(id string) (all []string) {
			for method, more := range map[string]string{"tasks/get": "", "tasks/cancel": "", "tasks/update": `,"inputResponses":{"q1":{"action":"accept"}}`} {
				w.last = 100
				r := w.request(method, id, `,"taskId":"`+id+`"`+more)
				text, res := kit.ReadAll(t, w.Do(r))
				res.Header.Del("Date")
				all = append(all, method, res.Status, text, strings.ReplaceAll(dump(res.Header), id, ""))
			}
			return all
		}
		sorted := func(all []string) map[string]string {
			by := map[string]string{}
			for i := 0; i < len(all); i += 4 {
				by[all[i]] = strings.Join(all[i+1:i+4], "\n")
			}
			return by
		}
		w.user = "mallory"
		require.Equal(t, sorted(ask(unknown)), sorted(ask(id)))
		require.Contains(t, sorted(ask(id))["tasks/cancel"], "-32602")
		w.last = 200
		listens := func(id string) string {
			w.last = 300
			res := w.open(w.listen([]string{id}, ""))
			synctest.Wait()
			require.False(t, ended(res))
			return text(res)
		}
		require.Equal(t, listens(unknown), listens(id))
		require.Contains(t, listens(id), `"taskIds":[]`)

		w.user = ""
		got := w.settled(id)
		require.Equal(t, "input_required", got["status"], "neither answered nor cancelled")
		w.update(id, `{"q1":{"action":"decline"}}`)
		requireAnswer(t, `{"action":"decline"}`, asked)
		require.NoError(t, tool.Cause())
	})
}

func dump(h http.Header) string {
	var b strings.Builder
	_ = h.Write(&b)
	return b.String()
}

// The tasks of one principal are bounded, so that they leave room for others. A call beyond the bound is answered as ever, and an end makes room
// only when the task is no longer kept.
func TestTheTasksOfOnePrincipal(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		said := &kit.Log{}
		w := begin(t, rejoin.Config{Principal: kit.ByUser, Tasks: rejoin.Tasks{Max: 4, MaxPerPrincipal: 2}, Logger: logTo(said)})
		full := func(what string) {
			res := w.open(w.call())
			tool := w.next()
			kit.Elapse(time.Minute)
			require.False(t, tool.Resumable(), what)
			require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable)
			require.ErrorIs(t, tool.Ask(tool.Ctx, "elicitation/create", nil, nil), rejoin.ErrNotResumable)
			tool.Returns(map[string]any{"content": []any{}})
			require.Equal(t, "complete", at(read(t, res)[0], "result", "resultType"), what)
			require.True(t, ended(res))
		}
		first, tool := w.task()
		w.task()
		full("it has two")
		w.user = "another"
		w.task()
		last, _ := w.task()
		full("so has this one")
		w.user = "third"
		full("there are four")
		require.Equal(t, 1, said.Count("Tasks.Max"))
		w.user = "another"
		w.cancel(last)
		full("it is kept")
		w.user = ""
		tool.Returns(map[string]any{"content": []any{}})
		require.Equal(t, "completed", w.get(first)["status"])
		kit.Elapse(20 * time.Minute)
		w.task()
	})
}

// Where there is no bound, there is none for a principal either.
func TestTasksWithoutABound(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Principal: kit.ByUser, Tasks: rejoin.Tasks{Max: -1}})
		for range 3 {
			res := w.open(w.call())
			kit.Elapse(time.Second)
			require.Equal(t, "task", at(read(t, res)[0], "result", "resultType"))
		}
		require.EqualValues(t, 3, w.Server().Stats().TasksRunning)
	})
}
