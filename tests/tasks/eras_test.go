package tasks_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A call of ten minutes survives a hundred cut connections in both eras, side by side on one server, and the tool is the same: in the older one its
// client polls its stream, in the newer one its task.
func TestALongCallSurvivesCutConnectionsInBothEras(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const cuts, pause = 100, 6 * time.Second
		runs := 0
		app := kit.Tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			runs++
			for i := range cuts {
				select {
				case <-ctx.Done():
					t.Errorf("the call has ended after %d cuts: %v", i, context.Cause(ctx))
					return nil, ctx.Err()
				case <-time.After(pause):
				}
				if err := h.Progress(float64(i), cuts, ""); err != nil {
					return nil, err
				}
			}
			return map[string]any{"content": []any{"ten minutes"}}, nil
		})
		w := beginWith(t, app, configured(rejoin.Config{Policy: rejoin.Policy{CloseAfter: 4 * time.Second}}))
		call := w.CallTool("x", nil)
		r := w.call()
		began := time.Now()
		id := w.result(r)["taskId"].(string)
		require.Less(t, time.Since(began), 5*time.Second, "CloseAfter gives the task too")
		for i := range cuts {
			if i%2 == 0 {
				call.Cut()
			}
			broken := &lossyWriter{Response: kit.Response{Head: http.Header{}}, lose: func() error { return errors.New("broken pipe") }}
			w.serve(broken, w.request("tasks/get", id, `,"taskId":"`+id+`"`))
			listening, hangUp := withCancel(w.listen([]string{id}, ""))
			res := w.Do(listening)
			kit.Elapse(time.Until(began.Add(time.Duration(i+1) * pause)))
			hangUp()
			_ = res.Body.Close()
			call.Poll()
		}
		require.JSONEq(t, `{"content":["ten minutes"]}`, string(call.Result()))
		require.Equal(t, kit.UpTo(cuts), kit.Progress(t, call.Messages()), "each once, in order")
		got := w.settled(id)
		require.Equal(t, "completed", got["status"])
		require.Equal(t, []any{"ten minutes"}, at(got, "result", "content"))
		require.Equal(t, "99 of 100", got["statusMessage"])
		require.Equal(t, 2, runs)
		require.InDelta(t, 600, time.Since(began).Seconds(), 20)
		require.NoError(t, <-kit.Drain(t, w.Server(), time.Second))
	})
}
