package tasks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A client may answer some of the questions, answer again, and answer what nobody has asked: each question takes its first answer.
func TestAnswersInParts(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		first, second := tool.Asks(tool.Ctx, "elicitation/create"), tool.Asks(tool.Ctx, "elicitation/create")
		require.Len(t, w.get(id)["inputRequests"], 2)
		for range 3 {
			w.update(id, `{"q2":{"action":"accept","content":{"n":1}},"q3":1,"":null,"r1.x":{}}`)
			got := w.settled(id)
			require.Equal(t, "input_required", got["status"], "one is open")
			require.Equal(t, map[string]any{"q1": map[string]any{"method": "elicitation/create"}}, got["inputRequests"])
		}
		requireAnswer(t, `{"action":"accept","content":{"n":1}}`, second)
		w.update(id, `{}`)
		w.update(id, `{"q2":{"action":"decline"}}`)
		require.Equal(t, "input_required", w.settled(id)["status"])
		w.update(id, `{"q1":{"action":"cancel"},"q2":{"action":"decline"}}`)
		requireAnswer(t, `{"action":"cancel"}`, first)
		require.Empty(t, second)
		got := w.settled(id)
		require.Equal(t, "working", got["status"])
		require.NotContains(t, got, "inputRequests")

		third := tool.Asks(tool.Ctx, "elicitation/create")
		require.Contains(t, w.get(id)["inputRequests"], "q3", "no key comes twice, and the early answer to this one has no effect")
		w.update(id, `{"q3":{"action":"accept"}}`)
		requireAnswer(t, `{"action":"accept"}`, third)
		tool.Returns(map[string]any{"content": []any{}})
		w.update(id, `{"q3":{"action":"decline"},"q4":1}`)
		require.Equal(t, "completed", w.get(id)["status"], "an update of what has ended is acknowledged")
	})
}

// A cancellation, or any other end, ends the wait for an answer, with its reason.
func TestTheEndOfATaskThatAsks(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(w *world, id string)
		want error
		task []any
	}{
		"cancel":    {func(w *world, id string) { w.cancel(id) }, rejoin.ErrCancelled, []any{"cancelled", nil, nil}},
		"close":     {func(w *world, _ string) { w.Server().Close() }, rejoin.ErrShutdown, []any{"failed", -32000.0, "shutdown"}},
		"abandoned": {func(*world, string) { kit.Elapse(20 * time.Minute) }, rejoin.ErrAbandoned, []any{"failed", -32000.0, "abandoned"}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := begin(t, rejoin.Config{Policy: rejoin.Policy{AbandonAfter: 20 * time.Minute}, Tasks: rejoin.Tasks{TTL: time.Hour}})
				id, tool := w.task()
				asked, again := tool.Asks(tool.Ctx, "elicitation/create"), tool.Asks(tool.Ctx, "elicitation/create")
				require.Len(t, w.get(id)["inputRequests"], 2)
				test.end(w, id)
				require.Equal(t, test.want, <-asked)
				require.Equal(t, test.want, <-again)
				require.ErrorIs(t, tool.Cause(), test.want)
				got := w.settled(id)
				require.Equal(t, test.task, failure(got))
				require.NotContains(t, got, "inputRequests")
				for range 3 {
					w.update(id, `{"q1":{"action":"accept"}}`)
					w.cancel(id)
				}
				require.Equal(t, got, w.settled(id), "final is final")
			})
		})
	}
}

// A task that has ended with its answer stays as it is, whatever its client sends.
func TestACancelAfterTheEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		tool.Returns(map[string]any{"content": []any{}, "isError": true})
		before := w.get(id)
		require.Equal(t, "completed", before["status"])
		for range 3 {
			require.Equal(t, "complete", w.cancel(id)["resultType"])
			require.Equal(t, before, w.settled(id))
		}
	})
}
