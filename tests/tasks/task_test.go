package tasks_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A call that runs longer than TaskAfter is answered with a task, to its byte, and its result waits to be asked for.
func TestALongCallBecomesATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Node: "n"})
		began := time.Now()
		body, res := kit.ReadAll(t, w.Do(w.call()))
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		id := body[len(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"`):][:28]
		require.Regexp(t, `^n\.[A-Z2-7]{26}$`, id)
		require.Equal(t, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"`+id+`","status":"working","createdAt":"2000-01-01T00:00:01.000Z",`+
			`"lastUpdatedAt":"2000-01-01T00:00:01.000Z","ttlMs":600000,"pollIntervalMs":2000,"_meta":{"io.modelcontextprotocol/serverInfo":`+
			`{"name":"test","version":"1"}}}}`, body)

		tool := w.next()
		kit.Elapse(time.Minute)
		require.NoError(t, tool.Cause(), "the end of the request is not the end of the call")
		require.NoError(t, tool.Progress(1, 2, "half"))
		got := w.get(id)
		require.Equal(t, "half", got["statusMessage"])
		require.EqualValues(t, 660000, got["ttlMs"], "it is kept for ten minutes from now on")
		tool.Returns(map[string]any{"content": []any{}})
		body, _ = kit.ReadAll(t, w.Do(w.request("tasks/get", id, `,"taskId":"`+id+`"`)))
		require.Equal(t, `{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","taskId":"`+id+`","status":"completed","createdAt":"2000-01-01T00:00:01.000Z",`+
			`"lastUpdatedAt":"2000-01-01T00:01:01.000Z","ttlMs":660000,"pollIntervalMs":2000,"statusMessage":"half","result":{"_meta":`+
			`{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}},"resultType":"complete","content":[]},`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}}`, body)

		kit.Elapse(10*time.Minute - time.Nanosecond)
		require.Equal(t, "completed", w.get(id)["status"])
		kit.Elapse(time.Nanosecond)
		status, code := w.refused(w.request("tasks/get", id, `,"taskId":"`+id+`"`))
		require.Equal(t, []any{400, -32602.0}, []any{status, code})
	})
}

// A quick call is answered as ever, with or without the extension; a client that does not declare it waits for a long one.
func TestCallsThatBecomeNoTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		go func() { w.next().Answer <- map[string]any{"content": []any{}} }()
		require.Equal(t, "complete", w.result(w.call())["resultType"])
		w.caps = `{"elicitation":{},"tasks":{}}`
		go func() {
			tool := w.next()
			if err := tool.CloseStream(0); tool.Resumable() || !errors.Is(err, rejoin.ErrNotResumable) {
				t.Error(err)
			}
			kit.Elapse(time.Hour)
			tool.Answer <- map[string]any{"content": []any{}}
		}()
		require.Equal(t, "complete", w.result(w.call())["resultType"])
	})
}

// CloseStream makes the task at once. What was sent before it leaves at once, and the task is the last event of the stream then.
func TestATaskOnDemandAndAfterAStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{Policy: rejoin.Policy{TaskAfter: -1}})
		var tool *kit.ManualTool
		go func() {
			tool = w.next()
			if err := tool.Progress(1, 0, "one"); err != nil || !tool.Resumable() || !tool.Connected() {
				t.Error(err)
			}
			kit.Elapse(time.Hour)
			if err := tool.CloseStream(0); err != nil {
				t.Error(err)
			}
		}()
		body, res := kit.ReadAll(t, w.Do(w.call()))
		kit.RequireStream(t, res)
		require.Contains(t, body, `"message":"one"`)
		require.Contains(t, body, `"resultType":"task"`)
		require.False(t, tool.Connected())
		require.True(t, tool.Resumable())
	})
}

// A cancel ends the call, with its reason, and is acknowledged again and again.
func TestACancelledTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		for range 3 {
			require.Equal(t, "complete", w.cancel(id)["resultType"])
		}
		require.ErrorIs(t, tool.Cause(), rejoin.ErrCancelled)
		require.Equal(t, "cancelled", w.settled(id)["status"])
		require.ErrorIs(t, tool.Progress(1, 0, "late"), rejoin.ErrEnded)
		require.Equal(t, "cancelled", w.settled(id)["status"])
	})
}

// A tool that asks in its call becomes a task, and the client answers there.
func TestAQuestionInATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		outcome := make(chan any, 1)
		go func() {
			tool := w.next()
			var answer json.RawMessage
			err := tool.Ask(tool.Ctx, "elicitation/create", nil, &answer)
			outcome <- string(answer)
			assert.NoError(t, err)
		}()
		result := w.result(w.call())
		require.Equal(t, "task", result["resultType"], "it does not wait for TaskAfter")
		id := result["taskId"].(string)
		got := w.settled(id)
		require.Equal(t, "input_required", got["status"])
		require.Equal(t, map[string]any{"q1": map[string]any{"method": "elicitation/create"}}, got["inputRequests"])
		w.update(id, `{"q1":{"action":"accept"},"other":1}`)
		requireAnswer(t, `{"action":"accept"}`, outcome)
		require.Equal(t, "working", w.settled(id)["status"])
	})
}
