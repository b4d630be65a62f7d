package calls_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Invariant 1: a tool never runs in the goroutine that serves its request. So a tool that never returns does not hold a connection, and does
// not delay other clients.
func TestAToolThatBlocksForEverBlocksNobody(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		app := rejoin.NewApp(rejoin.Info{}, func(_ context.Context, r *rejoin.Request) (any, error) {
			if r.Method == "stuck" {
				<-release // it ignores its context
			}
			return "done", nil
		})
		c := kit.New(t, app, rejointest.Config{})
		stuck := c.Start("stuck", nil)
		kit.Elapse(time.Second)
		require.Equal(t, "200 sse primer@0 open", kit.Last(stuck), "the head is sent while the tool blocks")
		for range 3 {
			require.Equal(t, `"done"`, string(c.Start("x", nil).Result()))
			require.Equal(t, `{}`, string(c.Start("ping", nil).Result()))
		}
		stuck.Cut()
		require.Zero(t, c.Server().Stats().Connections, "the connection's goroutine has ended, whatever the tool does")
		lost := c.Start("stuck", nil)
		lost.Cut()
		require.Zero(t, c.Server().Stats().Connections, "also where nothing was sent yet")
		require.EqualValues(t, 2, c.Server().Stats().Parked)
	})
}

// Invariant 1: only the goroutine inside Serve touches a ResponseWriter, whatever happens to its stream.
func TestOnlyTheServingGoroutineTouchesTheWriter(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Handler: func(s *rejoin.Server) http.Handler {
			h := stdadapter.New(s)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				cw := &kit.CheckedWriter{ResponseWriter: w, T: t, Owner: kit.Goroutine()}
				h.ServeHTTP(cw, r)
				cw.Mu.Lock()
				defer cw.Mu.Unlock()
				cw.Over = true
			})
		}})
		listen := c.Listen()
		for i := range 8 {
			call := c.CallTool("x", nil)
			tool := next()
			if i%2 == 0 {
				_ = tool.Progress(1, 0, "")
				_ = tool.CloseStream(0)
				_ = tool.Progress(2, 0, "")
				call.Poll()
				_ = tool.Progress(3, 0, "")
				call.Poll() // a takeover
				call.Cut()
				_ = tool.Progress(4, 0, "")
			}
			_ = tool.Session().Notify(context.Background(), "notifications/x", nil)
			switch i % 4 {
			case 0, 1:
				tool.Returns("done")
				require.Equal(t, `"done"`, string(call.Result()))
			case 2:
				call.Cancel("")
			case 3:
				_ = tool.SetPolicy(rejoin.Policy{MaxRuntime: time.Second})
				call.Err()
			}
		}
		kit.Elapse(time.Minute) // keep-alive
		require.Len(t, listen.Messages(), 8)
	})
}

// Invariant 3: each message is on exactly one stream. The transports specification, "multiple connections" 2.
func TestMessagesOf16ConcurrentCallsStayOnTheirStreams(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const calls, each = 16, 20
		app := rejoin.NewApp(rejoin.Info{}, func(ctx context.Context, r *rejoin.Request) (any, error) {
			h := rejoin.HandleFromContext(ctx)
			var args struct{ Me int }
			if err := r.Bind(&args); err != nil {
				return nil, err
			}
			for i := range each {
				if err := h.Notify("notifications/of-call", map[string]int{"me": args.Me, "n": i}); err != nil {
					return nil, err
				}
				if err := h.Session().Notify(context.Background(), "notifications/of-session", json.RawMessage(fmt.Sprintf(`{"me":%d,"n":%d}`, args.Me, i))); err != nil {
					return nil, err
				}
				if i%7 == args.Me%7 {
					_ = h.CloseStream(time.Duration(1+args.Me) * time.Millisecond)
				}
				kit.Elapse(time.Duration(1+args.Me%3) * time.Millisecond)
			}
			return args.Me, nil
		})
		c := kit.New(t, app, rejointest.Config{})
		listen := c.Listen()
		var all []*rejointest.Call
		for i := range calls {
			all = append(all, c.Start("x", map[string]int{"me": i}))
		}
		ids := map[string]bool{}
		for i, call := range all {
			require.Equal(t, strconv.Itoa(i), string(call.Result()), "the response of another call")
			require.Equal(t, kit.UpTo(each), numbers(t, call.Messages(), "notifications/of-call", i))
			for _, id := range call.IDs() {
				require.False(t, ids[id], "event id %s is on two streams", id)
				ids[id] = true
			}
		}
		for i := range calls {
			require.Equal(t, kit.UpTo(each), numbers(t, listen.Messages(), "notifications/of-session", i))
		}
		require.Len(t, listen.Messages(), calls*each)
	})
}

// numbers returns the n of the messages of one sender. All messages must have that method and, if they are a call's, that sender.
func numbers(t *testing.T, messages []json.RawMessage, method string, sender int) (list []int) {
	t.Helper()
	for _, raw := range messages {
		var m struct {
			Method string
			Params struct{ Me, N int }
		}
		require.NoError(t, json.Unmarshal(raw, &m))
		switch {
		case m.Method == "":
		case m.Method != method, method == "notifications/of-call" && m.Params.Me != sender:
			t.Fatalf("on a stream of %s, sender %d: %s", method, sender, raw)
		case m.Params.Me == sender:
			list = append(list, m.Params.N)
		}
	}
	return list
}

// Several goroutines may send in one call. The messages of each goroutine keep their order.
func TestManyGoroutinesSendInOneCall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const senders, each = 8, 50
		c := kit.New(t, kit.Tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			var work sync.WaitGroup
			for i := range senders {
				work.Go(func() {
					for n := range each {
						_ = h.Notify("notifications/of-many", map[string]int{"me": i, "n": n})
					}
				})
			}
			work.Wait()
			return "done", nil
		}), rejointest.Config{})
		call := c.CallTool("x", nil)
		require.Equal(t, `"done"`, string(call.Result()))
		for i := range senders {
			require.Equal(t, kit.UpTo(each), numbers(t, call.Messages(), "notifications/of-many", i))
		}
		require.Len(t, call.Messages(), senders*each+1)
	})
}

// What a call sends after its end goes to the standalone stream, except progress, which is then useless (unless the request was
// task-augmented).
func TestWhatACallSendsAfterItsEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		listen := c.Listen()
		call := c.CallTool("x", nil)
		tool := next()
		tool.Returns("done")
		require.NoError(t, tool.Progress(1, 0, ""))
		require.NoError(t, tool.Notify("notifications/late", nil))
		require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrEnded)
		require.ErrorIs(t, tool.SetPolicy(rejoin.Policy{}), rejoin.ErrEnded)
		require.ErrorIs(t, tool.WaitConnected(context.Background()), rejoin.ErrEnded)
		require.Equal(t, []string{"200 result answered"}, kit.Summaries(call))
		require.Equal(t, "200 sse primer@0 1:late open", kit.Last(listen))

		task := c.Start("tools/call", map[string]any{"task": map[string]any{}, "_meta": map[string]any{"progressToken": 1}})
		tool = next()
		tool.Returns("accepted")
		require.NoError(t, tool.Progress(1, 0, ""))
		synctest.Wait()
		require.Equal(t, "200 result answered", kit.Last(task))
		require.Equal(t, "200 sse primer@0 1:late 2:progress open", kit.Last(listen))
	})
}
