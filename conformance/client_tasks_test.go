package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/bridge/gosdk"
	"github.com/rejoin-mcp/rejoin/client"
)

// dual mounts an app for both eras. A call becomes a task after a second.
func dual(s sdk) func(*testing.T, work) http.Handler {
	return func(t *testing.T, w work) http.Handler { return mountBoth(t, s.bridge(w)) }
}

func mountBoth(t *testing.T, app rejoin.App) http.Handler {
	srv, err := rejoin.NewServer(app, rejoin.Config{
		Eras: rejoin.EraBoth, Policy: rejoin.Policy{TaskAfter: time.Second}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	return stdadapter.New(srv)
}

// dualHouses are the servers of rejoin in which calls become tasks.
func dualHouses() []house {
	return []house{
		{"rejoin", primes, dual(sdk{bridge: newWorkApp})},
		{"rejoin with go-sdk", primes, dual(goSDK)},
		{"rejoin with mcp-go", primes, dual(mcpGo)},
	}
}

// callTask is call, with what the server says of the task among the messages.
func (v *visit) callTask() (told []string, text string, err error) {
	ctx, cancel := context.WithTimeout(v.Context(), time.Hour)
	defer cancel()
	c, err := v.session.Start(ctx, "tools/call", map[string]any{
		"name": "work", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": "t"},
	})
	require.NoError(v, err)
	for m := range c.Messages() {
		var params struct{ Message, StatusMessage string }
		require.NoError(v, json.Unmarshal(m.Params, &params))
		told = append(told, params.Message+params.StatusMessage)
	}
	var result struct {
		Content []struct{ Text string }
	}
	if err := c.Wait(ctx, &result); err != nil {
		require.NotErrorIs(v, err, context.DeadlineExceeded, "a call must not hang")
		return told, "", err
	}
	require.Len(v, result.Content, 1)
	return told, result.Content[0].Text, nil
}

// The connection of a task's first poll breaks at each byte, and the next one's somewhere: the call lives on, and was sent once.
func TestClientIsCutWhileItPollsATask(t *testing.T) {
	for _, s := range dualHouses() {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := enter(t, s, slowly, client.Config{})
				require.Equal(t, "2026-07-28", v.session.Version())
				for n, calls := 0, int64(1); ; n, calls = n+7, calls+1 {
					v.next = func() { v.cutAt(`"tasks/get"`, n/2) }
					v.cutAt(`"tasks/get"`, n)
					told, text, err := v.callTask()
					cut, _ := v.isCut()
					elapse(time.Minute)
					where := fmt.Sprintf("byte %d", n)
					require.NoError(t, err, where)
					require.Equal(t, "done", text, where)
					require.Equal(t, []string{"one", "two"}, told, where)
					require.Equal(t, calls, v.calls.Load(), "%s: sent once", where)
					if !cut {
						require.Greater(t, n, 300, "the answer was cut somewhere")
						return
					}
				}
			})
		})
	}
}

// Before the task the connection is the call: cut at each byte of its answer it is lost, unless the whole answer came, and is not sent again.
func TestClientIsCutBeforeItsTask(t *testing.T) {
	for _, s := range dualHouses() {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := enter(t, s, slowly, client.Config{})
				for n, calls := 0, int64(1); ; n, calls = n+7, calls+1 {
					v.cutAt(`"tools/call"`, n)
					_, text, err := v.callTask()
					cut, seen := v.isCut()
					elapse(time.Minute)
					require.Equal(t, calls, v.calls.Load(), "byte %d: sent once", n)
					_, task, _ := bytes.Cut(seen, []byte(`"taskId"`))
					if !cut || bytes.Contains(task, []byte("\n\n")) { // the event has come whole
						require.NoError(t, err, "byte %d, after %q", n, seen)
						require.Equal(t, "done", text)
					} else {
						require.ErrorIs(t, err, client.ErrMayHaveRun, "byte %d, after %q", n, seen)
					}
					if !cut {
						require.Greater(t, n, 300, "the answer was cut somewhere")
						return
					}
				}
			})
		})
	}
}

// asking is a server of go-sdk whose tool works, asks, and asks again.
func asking(work time.Duration) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "work", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-time.After(work)
			answer, ok := r.Params.InputResponses["confirm"].(*mcp.ElicitResult)
			if !ok || r.Params.RequestState == "first" && answer.Action == "accept" {
				next := "first"
				if ok {
					next = "second"
				}
				result := &mcp.CallToolResult{RequestState: next}
				result.InputRequests = mcp.InputRequestMap{"confirm": &mcp.ElicitParams{
					Mode: "form", Message: next, RequestedSchema: map[string]any{"type": "object"},
				}}
				return result, nil
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.Params.RequestState + " " + answer.Action}}}, nil
		})
	return s
}

// Both rounds are answered: by calling again before the task, and by updates in it. Without a handler the tool is not told yes.
func TestClientAnswersRoundsOfQuestions(t *testing.T) {
	for name, test := range map[string]struct {
		work  time.Duration
		mount func(t *testing.T, s *mcp.Server) http.Handler
		calls int64
	}{
		"go-sdk": {0, func(_ *testing.T, s *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
		}, 3},
		"go-sdk behind rejoin, at once": {0, func(t *testing.T, s *mcp.Server) http.Handler { return mountBoth(t, gosdk.New(s)) }, 3},
		"go-sdk behind rejoin, a task":  {5 * time.Second, func(t *testing.T, s *mcp.Server) http.Handler { return mountBoth(t, gosdk.New(s)) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				v := enter(t, house{mount: func(t *testing.T, _ work) http.Handler { return test.mount(t, asking(test.work)) }}, nil, client.Config{
					Era: client.EraModern, Capabilities: map[string]any{"elicitation": map[string]any{"form": struct{}{}}},
					OnRequest: func(_ context.Context, method string, params json.RawMessage) (any, error) {
						var p struct{ Message string }
						asked = append(asked, method+" "+p.Message)
						return map[string]any{"action": "accept", "content": map[string]any{}}, json.Unmarshal(params, &p)
					},
				})
				_, text, err := v.callTask()
				require.NoError(t, err)
				require.Equal(t, "second accept", text)
				require.Len(t, asked, 2)
				require.Equal(t, test.calls, v.calls.Load())
			})
		})
	}
}

// A server of both eras that has no tasks keeps its long calls in the legacy era, if it keeps them at all.
func TestClientTakesTheLegacyEraOfServersWithoutTasks(t *testing.T) {
	for _, s := range []house{
		{"go-sdk", forgets, own(goSDK, false)}, {"go-sdk with a store", primes, own(goSDK, true)},
		{"mcp-go", forgets, own(mcpGo, false)}, {"mcp-go with a store", repeats, own(mcpGo, true)},
	} {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.Equal(t, "2025-11-25", enter(t, s, slowly, client.Config{}).session.Version())
			})
		})
	}
}
