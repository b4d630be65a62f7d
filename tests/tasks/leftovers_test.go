package tasks_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A result of just under 16 MiB goes through a task as it goes through a call, several times.
func TestALargeResult(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		large := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("x", 16<<20-100) + `"}}`
		for _, stream := range []bool{false, true} {
			w := beginWith(t, rawApp(rawDiscover, func(c rawCall) {
				kit.Elapse(2 * time.Second)
				if stream {
					c.streams()
					c.puts(event(large))
					return
				}
				c.json(200, large)
			}), configured(rejoin.Config{}))
			id := w.makeTask()
			kit.Elapse(time.Second)
			synctest.Wait()
			for range 2 {
				all := body(t, w, w.request("tasks/get", id, `,"taskId":"`+id+`"`))
				require.True(t, strings.Contains(all, `"status":"completed"`) && strings.Contains(all, large[len(`{"jsonrpc":"2.0","id":1,`):len(large)-1]))
			}
			kit.Elapse(10 * time.Minute)
			w.requireUnknown(id)
			w.requireNothingLeft()
		}
	})
}

// Whatever clients and tools do, in whatever order: when the last task has expired, nothing is left, neither in the store nor of goroutines.
func TestNothingIsLeftOfTasks(t *testing.T) {
	for seed := range uint64(40) {
		kit.Bubble(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			app, next := kit.ManualTools()
			w := beginWith(t, app, rejointest.Config{Server: rejoin.Config{
				Logger: kit.QuietLogger(), KeepAlive: -1, Tasks: rejoin.Tasks{TTL: time.Minute, Max: 6}, Policy: rejoin.Policy{AbandonAfter: 5 * time.Minute},
			}})
			resting := len(kit.Goroutines())
			type call struct {
				tool *kit.ManualTool
				res  *kit.Response
				id   string
			}
			var calls []*call
			ctx, cancel := context.WithCancel(context.Background())
			for range 60 {
				switch n := rnd.IntN(12); {
				case n < 2 || len(calls) == 0:
					res := w.open(w.call().WithContext(ctx))
					calls = append(calls, &call{tool: next(), res: res})
					continue
				case n == 2:
					kit.Elapse(time.Duration(rnd.IntN(3000)) * time.Millisecond)
					continue
				default:
					c := calls[rnd.IntN(len(calls))]
					if all := read(t, c.res); c.id == "" && len(all) > 0 {
						c.id, _ = at(all[len(all)-1], "result", "taskId").(string)
					}
					switch n {
					case 3:
						_ = c.tool.Progress(rnd.Float64(), 1, "")
					case 4:
						c.tool.Asks(c.tool.Ctx, "elicitation/create")
					case 5:
						_ = c.tool.CloseStream(0)
					case 6:
						select {
						case c.tool.Answer <- map[string]any{"content": []any{}}:
						default: // it has returned
						}
					case 7:
						broken := &lossyWriter{Response: kit.Response{Head: http.Header{}}, pass: rnd.IntN(3), lose: func() error { return context.Canceled }}
						w.serve(broken, w.call().WithContext(ctx))
						calls = append(calls, &call{tool: next(), res: &broken.Response})
					case 8:
						w.open(w.request("tasks/cancel", c.id, `,"taskId":"`+c.id+`"`))
					case 9:
						w.open(w.request("tasks/update", c.id, `,"taskId":"`+c.id+`","inputResponses":{"q1":1,"q2":2}`))
					case 10:
						w.open(w.listen([]string{c.id}, "").WithContext(ctx))
					case 11:
						w.open(w.request("tasks/get", c.id, `,"taskId":"`+c.id+`"`))
					}
				}
			}
			cancel()
			if seed%2 == 0 {
				_ = w.Server().Drain(ctx)
			}
			kit.Elapse(20 * time.Minute)
			w.requireNothingLeft()
			require.Zero(t, w.Server().Stats().Connections)
			kit.RequireRested(t, resting)
		})
	}
}
