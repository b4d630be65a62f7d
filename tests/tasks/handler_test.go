package tasks_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const rawError = `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool","data":{"x":1}}}`

// What a handler may do in a task, and what the task is then. Nothing of it reaches another request, and each ends.
func TestWhatAHandlerDoesInATask(t *testing.T) {
	internal := []any{"failed", -32603.0, nil}
	for name, test := range map[string]struct {
		do     func(rawCall)
		want   []any
		logged string // what the log must say; "": it says nothing
	}{
		"panics":                {func(rawCall) { panic("secret") }, internal, "panic=secret"},
		"aborts":                {func(rawCall) { panic(http.ErrAbortHandler) }, internal, ""},
		"ends its goroutine":    {func(rawCall) { runtime.Goexit() }, internal, "runtime.Goexit"},
		"panics in JSON":        {func(c rawCall) { c.json(200, rawResult); panic("secret") }, internal, "panic=secret"},
		"panics after a result": {func(c rawCall) { c.streams(); c.puts(event(rawResult)); panic("secret") }, []any{"completed", nil, nil}, "panic=secret"},
		"answers nothing":       {func(rawCall) {}, internal, "has not answered"},
		"answers a head":        {func(c rawCall) { c.streams() }, internal, "has not answered"},
		"answers with garbage":  {func(c rawCall) { c.json(200, "garbage") }, internal, "has not answered"},
		"answers with half":     {func(c rawCall) { c.streams(); c.puts(event(rawResult)[:40]) }, internal, "has not answered"},
		"answers with text":     {func(c rawCall) { http.Error(c, "no", http.StatusInternalServerError) }, internal, "has not answered"},
		"answers as a 400":      {func(c rawCall) { c.json(400, rawError) }, []any{"failed", -32602.0, nil}, ""},
		"answers as a 500":      {func(c rawCall) { c.json(500, rawError) }, []any{"failed", -32602.0, nil}, ""},
		"answers an error":      {func(c rawCall) { c.streams(); c.puts(event(rawError)) }, []any{"failed", -32602.0, nil}, ""},
		"answers twice":         {func(c rawCall) { c.streams(); c.puts(event(rawResult) + event(rawError)) }, []any{"completed", nil, nil}, ""},
		"answers a batch":       {func(c rawCall) { c.json(200, "["+rawResult+"]") }, internal, "has not answered"},
		"asks the client": {func(c rawCall) {
			c.streams()
			c.puts(event(`{"jsonrpc":"2.0","id":5,"method":"roots/list"}`) + event(rawResult))
		}, []any{"completed", nil, nil}, ""},
		"says 100 Continue":         {func(c rawCall) { c.WriteHeader(http.StatusContinue); c.json(200, rawResult) }, []any{"completed", nil, nil}, ""},
		"gives a head that is none": {func(c rawCall) { c.WriteHeader(42) }, internal, "invalid WriteHeader code 42"},
		"writes too much":           {func(c rawCall) { c.streams(); c.puts("data: " + strings.Repeat("x", 17<<20) + "\n\n") }, internal, "has not answered"},
		"has a result over 16 MiB": {func(c rawCall) {
			c.json(200, `{"jsonrpc":"2.0","id":1,"result":"`+strings.Repeat("x", 16<<20)+`"}`)
		}, internal, "has not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				said := &kit.Log{}
				w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
					kit.Elapse(2 * time.Second)
					test.do(c)
				}), configured(rejoin.Config{Logger: logTo(said)}))
				id := w.makeTask()
				kit.Elapse(time.Second)
				got := w.settled(id)
				require.Equal(t, test.want, failure(got))
				require.NotContains(t, got, map[bool]string{true: "error", false: "result"}[got["status"] == "completed"])
				require.Len(t, said.All, map[bool]int{true: 1}[test.logged != ""], "%s", said.All)
				require.Equal(t, len(said.All), said.Count(test.logged))
				if test.want[1] == -32602.0 {
					require.Equal(t, "no such tool", at(got, "error", "message"))
					require.EqualValues(t, 1, at(got, "error", "data", "x"))
					require.Equal(t, "no such tool", got["statusMessage"])
				}
				require.NotContains(t, text(w.open(w.request("tasks/get", id, `,"taskId":"`+id+`"`))), "secret")
				require.Zero(t, w.Server().Stats().TasksRunning)
			})
		})
	}
}

// The same before the task: a client that takes tasks gets what any client gets.
func TestWhatAHandlerDoesBeforeATask(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(rawCall)
		want string
	}{
		"panics":             {func(rawCall) { panic("secret") }, `500 {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		"ends its goroutine": {func(rawCall) { runtime.Goexit() }, `500 {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		"answers nothing":    {func(rawCall) {}, `200 `},
		"answers text":       {func(c rawCall) { http.Error(c, "no", http.StatusInternalServerError) }, "500 no\n"},
		"answers a 400":      {func(c rawCall) { c.json(400, rawError) }, "400 " + rawError},
		"answers garbage":    {func(c rawCall) { c.json(200, "garbage") }, "200 garbage"},
		"answers twice":      {func(c rawCall) { c.streams(); c.puts(event(rawResult) + event(rawError)) }, "200 " + event(rawResult) + event(rawError)},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := beginWith(t, rawApp(rawDiscover, test.do), configured(rejoin.Config{Logger: kit.QuietLogger()}))
				all, res := kit.ReadAll(t, w.Do(w.call()))
				require.Equal(t, test.want, res.Status[:4]+all)
				w.requireNothingLeft()
			})
		})
	}
}

// A long message of progress is cut, and so is that of an error: a server keeps one for each task.
func TestALongStatusMessage(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := begin(t, rejoin.Config{})
		id, tool := w.task()
		require.NoError(t, tool.Progress(1, 2, strings.Repeat("é", 1<<20)))
		message := w.get(id)["statusMessage"].(string)
		require.LessOrEqual(t, len(message), 1<<10+4)
		require.True(t, strings.HasPrefix(message, "ééé"))
		require.NotContains(t, message, "\ufffd")
		tool.Returns(rejoin.Errorf(7, "%s", strings.Repeat("é", 1<<20)))
		got := w.get(id)
		require.LessOrEqual(t, len(got["statusMessage"].(string)), 1<<10)
		require.Len(t, at(got, "error", "message"), 2<<20, "the error itself is whole")
	})
}

// A handler that ignores the end of its task counts among those that run although their requests have ended, and no further request begins at
// the limit. The task itself is over.
func TestHandlersThatIgnoreTheEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
			<-release
			c.json(200, rawResult)
		}), configured(rejoin.Config{MaxSessions: 3, Tasks: rejoin.Tasks{TTL: time.Minute}}))
		for range 3 {
			id := w.makeTask()
			w.cancel(id)
			require.Equal(t, "cancelled", w.settled(id)["status"])
		}
		status, code := w.refused(w.call())
		require.Equal(t, []any{503, -32000.0}, []any{status, code})
		kit.Elapse(time.Minute)
		w.requireNothingLeft()
		close(release)
		w.requireNothingLeft()
		require.NotEmpty(t, w.makeToolResult())
	})
}

// makeToolResult is a call that is answered at once.
func (w *world) makeToolResult() map[string]any {
	w.t.Helper()
	return w.result(w.call())
}
