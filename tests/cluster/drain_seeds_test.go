package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Whatever crosses a drain is served: no client is told that its session or task is gone, or to try again.
func TestRequestsThatCrossADrain(t *testing.T) {
	for seed := range uint64(100) {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, tasks())
			call, running := w.run(t, 1)
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 1))
			upTo := func(most int) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(random.IntN(most)) * time.Millisecond
			}
			sessions := []string{w.open(t, 0), w.open(t, 0), w.session()}
			id, tool := w.task(t, 0)
			tool.Returns(done(1))
			for _, p := range w.processes {
				p.link.SetScript(func(clustertest.Call) clustertest.Fault {
					return clustertest.Fault{Delay: upTo(20), DelayAnswer: upTo(20)}
				})
			}
			wrong := make(chan string, 1000)
			send := func(n int, r *http.Request, status int, part string) (session string) {
				res := w.send(n, r)
				if body := res.Body.String(); res.Status != status || !strings.Contains(body, part) {
					wrong <- fmt.Sprint(seed, " ", n, " ", r.Method, " ", res.Status, " ", body)
				}
				return res.Head.Get("Mcp-Session-Id")
			}
			var wait sync.WaitGroup
			for i := range 30 {
				n, after := i%2, upTo(200)
				ping := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i+100)
				wait.Go(func() {
					kit.Elapse(after)
					send(n, kit.Request(t, http.MethodPost, ping, "Mcp-Session-Id", sessions[i%3]), http.StatusOK, `"result"`)
				})
				wait.Go(func() {
					kit.Elapse(after)
					send(n, taskRequest(t, "tasks/get", id), http.StatusOK, `"n":1`)
				})
				if i%5 > 0 {
					continue
				}
				wait.Go(func() {
					kit.Elapse(after)
					own := send(n, kit.Request(t, http.MethodPost, kit.Initialize), http.StatusOK, `"result"`)
					kit.Elapse(after)
					send(1-n, kit.Request(t, http.MethodDelete, "", "Mcp-Session-Id", own), http.StatusNoContent, "")
					kit.Elapse(after)
					send(n, kit.Request(t, http.MethodPost, ping, "Mcp-Session-Id", own), http.StatusNotFound, "")
				})
			}
			wait.Go(func() {
				kit.Elapse(upTo(200))
				running.Returns("done")
			})
			kit.Elapse(upTo(200))
			finished := make(chan error, 1)
			go func() { finished <- w.processes[0].Drain(t.Context()) }()
			wait.Wait()
			elapse(time.Minute)
			if len(wrong) > 0 {
				t.Fatal(<-wrong)
			}
			require.NoError(t, <-finished)
			require.Empty(t, kit.Sessions(w.processes[0].Server))
			w.use(1)
			call.Poll()
			require.Equal(t, `"done"`, string(call.Result()))
		})
	}
}
