package modern_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// What a Handler sends before its result makes the answer a stream, whose last event is the response. A client that accepts only JSON gets the
// response alone. One that accepts only a stream gets a stream.
func TestMessagesOfAModernCall(t *testing.T) {
	const token = `,"progressToken":"t"`
	kit.Bubble(t, func(t *testing.T) {
		var got, ended []error
		var late *rejoin.Handle
		c := appClient(t, rejointest.Config{}, func(ctx context.Context, r *rejoin.Request) (any, error) {
			h := rejoin.HandleFromContext(ctx)
			late = h
			got = []error{
				h.Progress(1, 2, "half"), h.Notify("notifications/x", json.RawMessage("{\n\"a\":1}")),
				h.Notify("notifications/message", map[string]string{"level": "info"}), h.Notify("notifications/message", map[string]string{"level": "error"}),
				h.Notify("notifications/tools/list_changed", nil), h.WaitConnected(ctx),
				h.Notify("x", strings.Repeat("x", 16<<20)), h.Ask(ctx, "roots/list", nil, nil), h.SetPolicy(rejoin.Policy{}), h.CloseStream(0),
				h.Notify("x", json.RawMessage("{")),
			}
			assert.True(t, h.Connected())
			assert.False(t, h.Resumable())
			assert.Nil(t, h.Session())
			return "done", nil
		})
		const (
			progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"total":2,"message":"half"}}`
			info     = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`
			failure  = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error"}}`
			result   = `{"jsonrpc":"2.0","id":"mine","result":{` + about + `,"content":[{"type":"text","text":"done"}]}}`
			custom   = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\ndata: \"a\":1}}"
		)
		level := func(l string) string { return `,"io.modelcontextprotocol/logLevel":"` + l + `"` }
		for _, test := range []struct {
			name, meta, accept string
			want               []string
		}{
			{"both", token, "application/json, text/event-stream", []string{progress, custom, result}},
			{"a level", token + level("info"), "application/json, text/event-stream", []string{progress, custom, info, failure, result}},
			{"a high level", level("error"), "text/event-stream", []string{custom, failure, result}},
			{"no such level", level("loud"), "*/*", []string{custom, result}},
			{"only JSON", token + level("debug"), "application/json", nil},
		} {
			body, res := kit.ReadAll(t, c.Do(call(t, test.meta, "Accept", test.accept)))
			require.Len(t, got, 11)
			for i, want := range []error{nil, nil, nil, nil, nil, nil, rejoin.ErrTooLarge, rejoin.ErrNotResumable, rejoin.ErrNotResumable, rejoin.ErrNotResumable} {
				require.ErrorIs(t, got[i], want, i)
			}
			require.ErrorContains(t, got[10], "not valid JSON")
			if test.want == nil {
				require.Equal(t, "200 "+result, res.Status[:4]+body, test.name)
				kit.RequireHead(t, res.Header, "Content-Type", "application/json")
			} else {
				kit.RequireStream(t, res)
				require.Equal(t, "event: message\ndata: "+strings.Join(test.want, "\n\nevent: message\ndata: ")+"\n\n", body, test.name)
			}
			ended = append(ended, late.Notify("notifications/x", nil), late.WaitConnected(t.Context()))
			require.False(t, late.Connected())
		}
		for _, err := range ended {
			require.ErrorIs(t, err, rejoin.ErrEnded)
		}
	})
}

// A client that accepts only a stream gets its result in one, and a refusal in JSON.
func TestAModernCallInAStreamAlone(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := appClient(t, rejointest.Config{}, func(context.Context, *rejoin.Request) (any, error) { return "done", nil })
		body, res := kit.ReadAll(t, c.Do(call(t, "", "Accept", "text/event-stream")))
		kit.RequireStream(t, res)
		require.Equal(t, "-:result", kit.EventsSummary(body))
		body, res = kit.ReadAll(t, c.Do(kit.ModernRequest(t, "ping", "", "", "", "Accept", "text/event-stream")))
		require.Equal(t, `404 error(-32601,"mine")`, kit.Refusal(t, body, res))
	})
}

// A call that sends nothing for Config.KeepAlive becomes a stream, so that comments keep its connection alive.
func TestASilentModernCallIsKeptAlive(t *testing.T) {
	for name, test := range map[string]struct {
		keepAlive time.Duration
		accept    string
		want      string
	}{
		"both":      {10 * time.Second, "*/*", "stream"},
		"only JSON": {10 * time.Second, "application/json", "JSON"},
		"off":       {-1, "*/*", "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				c := appClient(t, rejointest.Config{Server: rejoin.Config{KeepAlive: test.keepAlive}}, func(context.Context, *rejoin.Request) (any, error) {
					kit.Elapse(35 * time.Second)
					return nil, rejoin.Errorf(rejoin.CodeInvalidParams, "no")
				})
				body, res := kit.ReadAll(t, c.Do(call(t, "", "Accept", test.accept)))
				if test.want == "JSON" {
					require.Equal(t, `400 error(-32602,"mine")`, kit.Refusal(t, body, res))
					return
				}
				kit.RequireStream(t, res)
				require.Equal(t, 2, strings.Count(body, ": \n\n"), body)
				require.True(t, strings.HasSuffix(body, "event: message\n"+`data: {"jsonrpc":"2.0","id":"mine","error":{"code":-32602,"message":"no"}}`+"\n\n"), body)
			})
		})
	}
}

// The context of a Handler ends with its client and with the server. At the end of the server the client learns why.
func TestWhatEndsAModernCallOfNewApp(t *testing.T) {
	const shutdown = `{"jsonrpc":"2.0","id":"mine","error":{"code":-32000,"message":"the server is shutting down","data":{"reason":"shutdown"}}}`
	for name, sends := range map[string]bool{"JSON": false, "a stream": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				causes := make(chan error, 1)
				s := kit.NewServer(t, rejoin.NewApp(offered, func(ctx context.Context, _ *rejoin.Request) (any, error) {
					if sends {
						_ = rejoin.HandleFromContext(ctx).Notify("notifications/x", nil) // the test sees that it comes
					}
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return nil, context.Cause(ctx)
				}), rejoin.Config{Eras: rejoin.EraBoth})
				ctx, disconnect := context.WithCancel(context.Background())
				kit.Serve(s, call(t, "").WithContext(ctx))
				disconnect()
				require.ErrorIs(t, <-causes, context.Canceled)

				w := kit.Serve(s, call(t, ""))
				require.False(t, w.Ended)
				s.Close()
				synctest.Wait()
				require.ErrorIs(t, <-causes, rejoin.ErrShutdown)
				require.True(t, w.Ended)
				if sends {
					require.Equal(t, "event: message\n"+`data: {"jsonrpc":"2.0","method":"notifications/x"}`+"\n\nevent: message\ndata: "+shutdown+"\n\n", w.Body.String())
					return
				}
				require.Equal(t, "503 "+shutdown, fmt.Sprint(w.Status, " ", w.Body.String()))
			})
		})
	}
}

// A subscription is acknowledged with nothing, because NewApp has no changes to tell. It stays open until its client or the server ends it. The server
// says that it has ended.
func TestASubscriptionToNewApp(t *testing.T) {
	const (
		acknowledged = `event: message` + "\n" + `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",` +
			`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"mine"},"notifications":{}}}` + "\n\n"
		complete = `event: message` + "\n" + `data: {"jsonrpc":"2.0","id":"mine","result":{"resultType":"complete",` +
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/subscriptionId":"mine"}}}` + "\n\n"
	)
	for name, end := range map[string]func(*testing.T, *rejoin.Server){
		"Close": func(_ *testing.T, s *rejoin.Server) { s.Close() },
		"Drain": func(t *testing.T, s *rejoin.Server) { require.NoError(t, <-kit.Drain(t, s, time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				c := appClient(t, rejointest.Config{Server: rejoin.Config{KeepAlive: time.Minute}}, nilHandler)
				res := c.Do(kit.ModernRequest(t, "subscriptions/listen", "", `,"notifications":{"toolsListChanged":true}`, ""))
				kit.RequireStream(t, res)
				require.Equal(t, acknowledged, part(t, res.Body))
				kit.Elapse(90 * time.Second)
				end(t, c.Server())
				rest, _ := kit.ReadAll(t, res)
				require.Equal(t, ": \n\n"+complete, rest)
			})
		})
	}
	kit.Bubble(t, func(t *testing.T) {
		c := appClient(t, rejointest.Config{}, nilHandler)
		res := c.Do(kit.ModernRequest(t, "subscriptions/listen", "", `,"notifications":{}`, ""))
		require.Equal(t, acknowledged, part(t, res.Body))
		require.EqualValues(t, 1, c.Server().Stats().Connections)
		require.NoError(t, res.Body.Close())
		synctest.Wait()
		require.Zero(t, c.Server().Stats().Connections)
	})
}

func nilHandler(context.Context, *rejoin.Request) (any, error) { return nil, nil }
