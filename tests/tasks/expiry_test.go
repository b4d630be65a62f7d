package tasks_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A task is kept for TTL after its end, however it has ended, and asking for it does not keep it longer. Then nothing of it is left.
func TestATaskExpires(t *testing.T) {
	for name, end := range map[string]func(*world, string, *kit.ManualTool){
		"completed": func(_ *world, _ string, tool *kit.ManualTool) { tool.Returns(map[string]any{"content": []any{}}) },
		"failed":    func(_ *world, _ string, tool *kit.ManualTool) { tool.Returns(rejoin.Errorf(7, "no")) },
		"cancelled": func(w *world, id string, _ *kit.ManualTool) { w.cancel(id) },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := begin(t, rejoin.Config{Tasks: rejoin.Tasks{TTL: 90 * time.Second}, KeepAlive: -1})
				id, tool := w.task()
				for i := range 5 {
					require.EqualValues(t, 90_000+60_000*i, w.get(id)["ttlMs"], "it grows as long as the work goes on")
					kit.Elapse(time.Minute)
				}
				end(w, id, tool)
				for range 8 {
					got := w.settled(id)
					require.Equal(t, name, got["status"])
					require.EqualValues(t, 390_000, got["ttlMs"], "it is fixed now")
					kit.Elapse(10 * time.Second)
				}
				kit.Elapse(10*time.Second - time.Nanosecond)
				require.Equal(t, name, w.get(id)["status"])
				kit.Elapse(time.Nanosecond)
				w.requireUnknown(id)
				w.requireNothingLeft()
			})
		})
	}
}

// A result that the store has dropped to make room, or has lost, is a failure with that reason. It stays one.
func TestAResultThatTheStoreLoses(t *testing.T) {
	small := eventstore.NewMemory(eventstore.MemoryConfig{TotalBytes: 64 << 10})
	lossy := kit.NewLossyStore()
	for name, test := range map[string]struct {
		store  eventstore.Store
		lose   func(w *world)
		want   []any
		counts int64
	}{
		"evicted": {small, func(w *world) {
			for range 20 { // others need the room
				id, tool := w.task()
				tool.Returns(map[string]any{"content": strings.Repeat("x", 8000)})
				w.get(id)
			}
		}, []any{"failed", -32000.0, "expired"}, 0},
		"lost": {lossy, func(*world) { lossy.Lose(0, false) }, []any{"failed", -32603.0, "store"}, 0},
		"gone": {lossy, func(*world) { lossy.Lose(0, true) }, []any{"failed", -32603.0, "store"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := begin(t, rejoin.Config{Store: test.store, Logger: kit.QuietLogger(), KeepAlive: -1})
				id, tool := w.task()
				tool.Returns(map[string]any{"content": strings.Repeat("x", 8000)})
				require.Equal(t, "completed", w.get(id)["status"], "fetched, so it may go")
				test.lose(w)
				for range 3 {
					got := w.get(id)
					require.Equal(t, test.want, failure(got))
					require.NotContains(t, got, "result")
				}
				kit.Elapse(10 * time.Minute)
				w.requireUnknown(id)
				require.Zero(t, w.Server().Stats().Tasks)
			})
		})
	}
}

// A store that fails to take a result, or has no room, costs nothing: the server keeps the result itself.
func TestAResultThatTheStoreDoesNotTake(t *testing.T) {
	failing, lossy := kit.NewLossyStore(), kit.NewLossyStore()
	for name, store := range map[string]eventstore.Store{
		"fails": failing,
		"full":  kit.FullStore{Store: lossy, SealsToo: true},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := begin(t, rejoin.Config{Store: store, Logger: kit.QuietLogger()})
				id, tool := w.task()
				failing.Fail(errors.New("no disk"))
				tool.Returns(map[string]any{"content": []any{}})
				got := w.get(id)
				require.Equal(t, "completed", got["status"])
				require.Equal(t, []any{}, at(got, "result", "content"))
				kit.Elapse(10 * time.Minute)
				w.requireUnknown(id)
			})
		})
	}
}

// A store that never answers delays one task for StoreTimeout, and neither other tasks nor a cancellation.
func TestAStoreThatNeverAnswers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		store := kit.NewStuckStore(t)
		w := begin(t, rejoin.Config{Store: store, Logger: kit.QuietLogger()})
		id, tool := w.task()
		cancelled, doomed := w.task()
		store.Block("append")
		began := time.Now()
		tool.Returns(map[string]any{"content": []any{}})
		doomed.Returns(map[string]any{"content": []any{}})
		kit.AtOnce(t, "a look at the task", func() { require.Equal(t, "working", w.get(id)["status"]) })
		kit.AtOnce(t, "a cancel", func() { require.Equal(t, "complete", w.cancel(cancelled)["resultType"]) })
		require.Equal(t, "cancelled", w.get(cancelled)["status"])
		kit.Elapse(5*time.Second - time.Since(began))
		require.Equal(t, "completed", w.settled(id)["status"])
		require.Equal(t, "cancelled", w.settled(cancelled)["status"], "what was final stays")

		store.Block()
		late, tool := w.task()
		tool.Returns(nil)
		store.Block("read")
		began = time.Now()
		status, code := w.refused(w.request("tasks/get", late, `,"taskId":"`+late+`"`))
		require.Equal(t, []any{503, -32000.0}, []any{status, code})
		require.Equal(t, 5*time.Second, time.Since(began))
		store.Block()
		require.Equal(t, "completed", w.get(late)["status"], "the next one gets it")
	})
}

// A result that reaches the store only when its task has expired is not left there.
func TestAResultThatComesAfterItsTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		store := &slowStore{Store: eventstore.NewMemory(eventstore.MemoryConfig{}), release: make(chan struct{})}
		w := begin(t, rejoin.Config{Store: store, Logger: kit.QuietLogger(), StoreTimeout: -1, Tasks: rejoin.Tasks{TTL: time.Second}})
		id, tool := w.task()
		tool.Returns(map[string]any{"content": []any{}}) // which waits for the store
		w.cancel(id)
		kit.Elapse(time.Minute)
		w.requireUnknown(id)
		close(store.release)
		w.requireNothingLeft()
	})
}

// What clients may rely on of the result: it is the app's, with all its members.
func TestAResultIsPassedOnWhole(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const result = `{"resultType":"complete","content":[{"type":"text","text":"<&>\u2028"}],"isError":true,"structuredContent":{"big":12345678901234567890,"f":1.50},"_meta":{"a/b":1}}`
		w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
			kit.Elapse(2 * time.Second)
			c.json(200, `{"jsonrpc":"2.0","id":1,"result":`+result+`}`)
		}), configured(rejoin.Config{}))
		id := w.makeTask()
		kit.Elapse(time.Second)
		synctest.Wait()
		text := body(t, w, w.request("tasks/get", id, `,"taskId":"`+id+`"`))
		require.Contains(t, text, `"status":"completed"`, "an error of a tool is no failure of the task")
		require.Contains(t, text, `"result":`+result+`,"_meta"`)
		require.True(t, json.Valid([]byte(text)))
	})
}
