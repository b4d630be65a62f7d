package tasks_test

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// This test has a real clock and real sockets, because the scheduler of a bubble is too orderly: the turn, CloseStream, progress, the result and a
// disconnect meet within a millisecond, many times. Each call ends in one of its ways, and nothing is left.
func TestManyTurnsAtOnce(t *testing.T) {
	const rounds, users = 60, 8
	var cancelled atomic.Int64
	app := kit.Tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
		var beside sync.WaitGroup
		for i := range 3 {
			beside.Go(func() { _ = h.Progress(float64(i), 3, "") }) // the client may be gone
		}
		if rand.IntN(4) == 0 {
			beside.Go(func() { _ = h.CloseStream(0) })
		}
		for range rand.IntN(3000) { // about TaskAfter
			runtime.Gosched()
		}
		beside.Wait()
		if ctx.Err() != nil {
			cancelled.Add(1)
		}
		return map[string]any{"content": []any{}}, nil
	})
	s := kit.NewServer(t, app, rejoin.Config{
		Eras: rejoin.EraBoth, Logger: kit.QuietLogger(), Policy: rejoin.Policy{TaskAfter: time.Millisecond}, Tasks: rejoin.Tasks{TTL: time.Millisecond},
	})
	hs := httptest.NewServer(stdadapter.New(s))
	defer hs.Close()
	post := func(ctx context.Context, method, name, params string) (string, error) {
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":` + declared + `,"progressToken":1}` + params + `}}`
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, hs.URL, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
		} {
			r.Header.Set(name, value)
		}
		res, err := hs.Client().Do(r)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		return string(all), err
	}
	var tasks, results atomic.Int64
	var work sync.WaitGroup
	for user := range users {
		work.Go(func() {
			for i := range rounds {
				ctx, cancel := context.WithCancel(context.Background())
				if (user+i)%4 == 0 {
					time.AfterFunc(time.Millisecond, cancel)
				}
				all, err := post(ctx, "tools/call", "x", `,"name":"x"`)
				cancel()
				if err != nil {
					continue // it has disconnected
				}
				at := strings.LastIndex(all, `{"jsonrpc"`)
				var m struct {
					Result struct{ ResultType, TaskID string }
				}
				if at < 0 || json.NewDecoder(strings.NewReader(all[at:])).Decode(&m) != nil {
					t.Errorf("no answer: %q", all)
					return
				}
				switch m.Result.ResultType {
				case "task":
					tasks.Add(1)
					if all, err := post(context.Background(), "tasks/get", m.Result.TaskID, `,"taskId":"`+m.Result.TaskID+`"`); err != nil || !strings.Contains(all, `"status":`) && !strings.Contains(all, "-32602") {
						t.Errorf("%q, %v", all, err)
					}
				case "complete":
					results.Add(1)
				default:
					t.Errorf("%q", all)
				}
			}
		})
	}
	work.Wait()
	t.Logf("%d tasks, %d results, %d saw that they were cancelled", tasks.Load(), results.Load(), cancelled.Load())
	require.Positive(t, tasks.Load())
	require.Eventually(t, func() bool {
		now := s.Stats()
		return now.Tasks == 0 && now.TasksRunning == 0 && now.StoredBytes == 0 && now.Connections == 0
	}, 10*time.Second, time.Millisecond, "nothing is left")
}
