package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// What cannot be asked is refused at once, and makes no task.
func TestAskOfWhatCannotBeAsked(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Policy: rejoin.Policy{TaskAfter: -1}})
		res := w.open(w.call())
		tool := w.next()
		over, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("it is over"))
		kit.AtOnce(t, "Ask", func() {
			require.ErrorIs(t, tool.Ask(tool.Ctx, "sampling/createMessage", nil, nil), rejoin.ErrNotOffered)
			require.ErrorIs(t, tool.Ask(tool.Ctx, "roots/list", nil, nil), rejoin.ErrNotOffered)
			require.ErrorIs(t, tool.Ask(tool.Ctx, "elicitation/create", map[string]string{"mode": "url"}, nil), rejoin.ErrNotOffered)
			require.EqualError(t, tool.Ask(over, "elicitation/create", nil, nil), "it is over")
			require.Error(t, tool.Ask(tool.Ctx, "elicitation/create", json.RawMessage("{"), nil))
			require.ErrorIs(t, tool.Ask(tool.Ctx, "elicitation/create", strings.Repeat("x", 16<<20), nil), rejoin.ErrTooLarge)
		})
		require.Empty(t, read(t, res), "the call is no task")
		tool.Returns(map[string]any{"content": []any{}})
		require.Equal(t, "complete", at(read(t, res)[0], "result", "resultType"))

		w.caps = `{"elicitation":{}}`
		w.open(w.call())
		tool = w.next()
		require.ErrorIs(t, tool.Ask(tool.Ctx, "elicitation/create", nil, nil), rejoin.ErrNotResumable, "without tasks")
		w.requireNothingLeft()
	})
}

// A question is withdrawn when the wait for its answer ends, and an answer that comes later has no effect.
func TestAskWithAContextThatEnds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		why := errors.New("no patience")
		ctx, cancel := context.WithTimeoutCause(tool.Ctx, time.Minute, why)
		defer cancel()
		first, second := tool.Asks(ctx, "elicitation/create"), tool.Asks(tool.Ctx, "elicitation/create")
		require.Len(t, w.get(id)["inputRequests"], 2)
		kit.Elapse(time.Minute)
		require.Equal(t, why, <-first)
		got := w.settled(id)
		require.Equal(t, map[string]any{"q2": map[string]any{"method": "elicitation/create"}}, got["inputRequests"])
		w.update(id, `{"q1":{"action":"accept"}}`)
		require.Equal(t, "input_required", w.settled(id)["status"])
		w.update(id, `{"q2":{"action":"accept"}}`)
		requireAnswer(t, `{"action":"accept"}`, second)

		ends, end := context.WithCancelCause(tool.Ctx)
		third := tool.Asks(ends, "elicitation/create")
		end(why)
		require.Equal(t, why, <-third)
		require.Equal(t, "working", w.settled(id)["status"], "nothing is asked any more")
	})
}

// Goroutines of one call ask side by side, and each gets its own answer, with all that its question says.
func TestAskFromSeveralGoroutines(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Policy: rejoin.Policy{TaskAfter: -1}})
		res := w.open(w.call())
		tool := w.next()
		const n = 20
		type got struct{ asked, answered string }
		answers := make(chan got, n)
		for i := range n {
			go func() {
				name := string(rune('a' + i))
				var answer struct{ Name string }
				err := tool.Ask(tool.Ctx, "elicitation/create", map[string]string{"message": name}, &answer)
				if err != nil {
					answer.Name = err.Error()
				}
				answers <- got{name, answer.Name}
			}()
		}
		id := at(read(t, res)[0], "result", "taskId").(string)
		questions := w.settled(id)["inputRequests"].(map[string]any)
		require.Len(t, questions, n)
		for key, question := range questions {
			w.update(id, `{"`+key+`":{"name":"`+at(question.(map[string]any), "params", "message").(string)+`"}}`)
		}
		for range n {
			a := <-answers
			require.Equal(t, a.asked, a.answered)
		}
		require.Equal(t, "working", w.settled(id)["status"])
	})
}

// Where the answer of a call has begun, it cannot become a task any more: a tool that asks is told so, and does not wait for ever.
func TestAskWhenTheAnswerHasBegun(t *testing.T) {
	for name, begins := range map[string]func(rawCall){
		"JSON":         func(c rawCall) { c.json(200, `{"jsonrpc":"2.0",`) },
		"the response": func(c rawCall) { c.streams(); c.puts(event(rawResult)) },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				asked, closed := make(chan error, 1), make(chan error, 1)
				w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
					begins(c)
					h := rejoin.HandleFromContext(c.r.Context())
					assert.False(t, h.Resumable())
					closed <- h.CloseStream(0)
					asked <- h.Ask(c.r.Context(), "elicitation/create", nil, nil)
				}), configured(rejoin.Config{}))
				w.open(w.call())
				kit.Elapse(time.Hour)
				require.Len(t, asked, 1)
				require.ErrorIs(t, <-asked, rejoin.ErrNotResumable)
				require.ErrorIs(t, <-closed, rejoin.ErrNotResumable)
				w.requireNothingLeft()
			})
		})
	}
}

// After its end a call asks nothing, and what it gets says why it has ended.
func TestAskAfterTheEnd(t *testing.T) {
	for range 20 { // the order must not depend on chance
		kit.Bubble(t, func(t *testing.T) {
			w := begin(t, rejoin.Config{})
			id, tool := w.task()
			w.cancel(id)
			require.Equal(t, rejoin.ErrCancelled, tool.Ask(context.Background(), "elicitation/create", nil, nil))
			_, tool = w.task()
			tool.Returns(map[string]any{"content": []any{}})
			require.Equal(t, rejoin.ErrEnded, tool.Ask(context.Background(), "elicitation/create", nil, nil))
			require.Equal(t, rejoin.ErrEnded, tool.Notify("notifications/x", nil))
			require.Equal(t, rejoin.ErrEnded, tool.Progress(1, 2, ""))
			require.Equal(t, rejoin.ErrEnded, tool.CloseStream(0))
		})
	}
}
