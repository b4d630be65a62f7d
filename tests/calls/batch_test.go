package calls_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// echo answers a request with its params. The params say after how many milliseconds, and how many notifications it sends before.
func echo() rejoin.App {
	return rejoin.NewApp(rejoin.Info{Name: "echo", Version: "1"}, func(ctx context.Context, r *rejoin.Request) (any, error) {
		var p struct{ Wait, Tell int }
		if err := r.Bind(&p); err != nil {
			return nil, err
		}
		for range p.Tell {
			if err := rejoin.HandleFromContext(ctx).Notify("notifications/told", nil); err != nil {
				return nil, err
			}
		}
		kit.Elapse(time.Duration(p.Wait) * time.Millisecond)
		return r.Params, nil
	})
}

// In a session of 2025-03-26 a batch of requests gets one answer: an array, or a stream with an event for each response.
func TestABatchIsAnsweredWhole(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, echo(), rejointest.Config{Version: kit.Batches})
		body, res := kit.Post(t, c, "["+kit.CallBody("1", `{"a":1}`)+","+kit.CallBody(`"1"`, `{"wait":20}`)+","+kit.CallBody("3", `{"wait":10}`)+"]")
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		require.JSONEq(t, `[{"jsonrpc":"2.0","id":1,"result":{"a":1}},{"jsonrpc":"2.0","id":3,"result":{"wait":10}},{"jsonrpc":"2.0","id":"1","result":{"wait":20}}]`,
			body, "in the order in which they were made")
		body, _ = kit.Post(t, c, "["+kit.CallBody("1", "{}")+"]")
		require.JSONEq(t, `[{"jsonrpc":"2.0","id":1,"result":{}}]`, body, "also one")

		body, res = kit.Post(t, c, "["+kit.CallBody("1", `{}`)+","+kit.CallBody("2", `{"tell":2,"wait":10}`)+","+kit.CallBody("3", `{"wait":200}`)+"]")
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		require.Equal(t, 2, strings.Count(body, "told"))
		require.Equal(t, 3, strings.Count(body, `"result"`))
		require.Equal(t, 5, strings.Count(body, "\ndata: {"))
		require.NotContains(t, body, "retry")

		body, _ = kit.Post(t, c, "["+kit.CallBody("1", `{}`)+","+kit.CallBody("2", `{"wait":10}`)+"]", "Accept", "text/event-stream")
		require.Equal(t, "comment 1:result 2:result", kit.EventsSummary(body))
		body, _ = kit.Post(t, c, "["+kit.CallBody("1", `{"tell":1}`)+","+kit.CallBody("2", `{"wait":1000}`)+"]", "Accept", "application/json")
		require.Equal(t, "[result result]", kit.MessageSummary(body))
		body, _ = kit.Post(t, c, "["+kit.CallBody("1", `[]`)+","+kit.CallBody("2", `{"wait":"x"}`)+"]")
		require.Equal(t, "error(-32600,null)", kit.MessageSummary(body), "one that is no message spoils them all")
		body, _ = kit.Post(t, c, "["+kit.CallBody("1", `{}`)+","+kit.CallBody("2", `{"wait":"x"}`)+"]")
		require.ElementsMatch(t, []string{"result", "error(-32602,2)"}, list(t, body))
		require.EqualValues(t, 1, c.Server().Stats().Sessions)
	})
}

// list returns the summaries of the members of a batch.
func list(t *testing.T, body string) (shapes []string) {
	t.Helper()
	var all []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(body), &all))
	for _, m := range all {
		shapes = append(shapes, kit.MessageSummary(string(m)))
	}
	return shapes
}

// A batch may have notifications, together with requests, which are answered, or alone. The transports specification of 2025-03-26, "sending
// messages to the server" 3.
func TestABatchWithNotifications(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var told []string
		app := &kit.Fake{OnNotification: func(n *rejoin.Notification) { told = append(told, n.Method()) }}
		c := kit.New(t, app, rejointest.Config{Version: kit.Batches})
		told = nil
		const note = `{"jsonrpc":"2.0","method":"notifications/`
		body, res := kit.Post(t, c, "["+note+`a"},`+kit.CallBody("1", "{}")+","+note+`b"}]`)
		require.Equal(t, "200 [result]", fmt.Sprintf("%d %s", res.StatusCode, kit.MessageSummary(body)))
		require.Equal(t, []string{"notifications/a", "notifications/b"}, told)

		for _, alone := range []string{
			"[" + note + `a"},` + note + `b"}]`,
			`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"x"}}]`,
		} {
			body, res = kit.Post(t, c, alone)
			require.Equal(t, http.StatusAccepted, res.StatusCode, alone)
			require.Empty(t, body)
		}
		require.Len(t, told, 4)
	})
}

// A batch that is refused starts nothing.
func TestRefusedBatchesStartNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		started, told := 0, 0
		app := &kit.Fake{
			OnRequest: func(c *rejoin.Call) {
				switch {
				case c.Method() == "x":
					started++
				case c.Method() == "stay":
					return
				}
				kit.Accept(c)
			},
			OnNotification: func(*rejoin.Notification) { told++ },
		}
		c := kit.New(t, app, rejointest.Config{Version: kit.Batches, Server: rejoin.Config{MaxConcurrent: 4}})
		c.Start("stay", nil) // its id is 2
		told = 0
		const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
		for name, test := range map[string]struct{ body, want string }{
			"empty":                       {"[]", "400 error(-32600,null)"},
			"with initialize":             {"[" + kit.CallBody("7", "{}") + "," + kit.Initialize + "]", "400 error(-32600,null)"},
			"the same id twice":           {"[" + kit.CallBody("7", "{}") + "," + note + "," + kit.CallBody("7", "{}") + "]", "400 error(-32600,7)"},
			"an id in flight":             {"[" + note + "," + kit.CallBody("7", "{}") + "," + kit.CallBody("2", "{}") + "]", "400 error(-32600,7)"},
			"requests and responses":      {"[" + kit.CallBody("7", "{}") + `,{"jsonrpc":"2.0","id":9,"result":{}}]`, "400 error(-32600,null)"},
			"too many":                    {"[" + kit.CallBody("5", "{}") + "," + kit.CallBody("6", "{}") + "," + kit.CallBody("7", "{}") + "," + kit.CallBody("8", "{}") + "]", "429 error(-32000,5)"},
			"a batch in a batch":          {"[[" + kit.CallBody("7", "{}") + "]]", "400 error(-32600,null)"},
			"no message":                  {"[" + kit.CallBody("7", "{}") + ",1]", "400 error(-32600,null)"},
			"no JSON":                     {"[" + kit.CallBody("7", "{}") + ",", "400 error(-32700,null)"},
			"a modern request among them": {"[" + kit.CallBody("7", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`) + "]", "400 error(-32600,null)"},
		} {
			body, res := kit.Post(t, c, test.body)
			require.Equal(t, test.want, kit.Refusal(t, body, res), name)
			require.Zero(t, started, name)
			require.Zero(t, told, name)
		}
		body, res := kit.Post(t, c, "["+kit.CallBody("7", "{}")+"]", "Accept", "text/html")
		require.Equal(t, "406 error(-32600,7)", kit.Refusal(t, body, res))
		require.EqualValues(t, 2, c.Server().Stats().Streams)
	})
	for _, version := range []string{kit.Polling, kit.Legacy, "2024-11-05"} {
		kit.Bubble(t, func(t *testing.T) {
			c := kit.New(t, echo(), rejointest.Config{Version: version})
			for _, b := range []string{"[" + kit.Ping + "]", `[{"jsonrpc":"2.0","method":"notifications/x"}]`, "[]"} {
				body, res := kit.Post(t, c, b)
				require.Equal(t, "400 error(-32600,null)", kit.Refusal(t, body, res), version)
			}
		})
	}
}

// A batch whose stream was lost is resumed like any other stream, and its end is reported for each request.
func TestABatchIsAStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var told kit.Ends
		c := kit.New(t, told.App(), rejointest.Config{Version: kit.Batches, Server: rejoin.Config{
			KeepAlive: -1, Policy: rejoin.Policy{MaxRuntime: time.Hour, StreamAfter: time.Millisecond},
		}})
		res := c.Do(kit.Request(t, http.MethodPost, "["+kit.CallBody("1", "{}")+","+kit.CallBody("2", "{}")+"]"))
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		c.Notify("notifications/cancelled", map[string]int{"requestId": 1})
		kit.Elapse(time.Hour)
		synctest.Wait()
		body, _ := kit.ReadAll(t, res)
		require.Equal(t, "comment 1:error(-32000,2) max_runtime", kit.EventsSummary(body), "one was cancelled, and has no response")
		require.Equal(t, []error{rejoin.ErrCancelled, rejoin.ErrMaxRuntime}, told.Cancelled)
	})
}

// If the rest of a batch was dropped, there is one error for each request whose response the client has not got.
func TestABatchThatWasDropped(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, echo(), rejointest.Config{Version: kit.Batches, Server: rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeSSE}}})
		body, _ := kit.Post(t, c, "["+kit.CallBody("1", `{"wait":10}`)+","+kit.CallBody("2", `{"wait":20}`)+","+kit.CallBody("3", `{"wait":30}`)+"]")
		require.Equal(t, "comment 1:result 2:result 3:result", kit.EventsSummary(body))
		first := regexp.MustCompile(`(?m)^id: (.*\.1)$`).FindStringSubmatch(body)[1]
		require.Equal(t, "comment 2:result 3:result", kit.Get(t, c, "Last-Event-ID", first))
		kit.Elapse(time.Hour / 4)
		require.Equal(t, "comment 2:error(-32000,2) expired 3:error(-32000,3) expired", kit.Get(t, c, "Last-Event-ID", first))
		require.Equal(t, "204 text/event-stream", kit.Get(t, c, "Last-Event-ID", strings.TrimSuffix(first, "1")+"3"))
	})
}

// Ids are sent back byte for byte.
func TestIDsComeBackAsTheyWereSent(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Batches} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: version})
			c.CallTool("x", nil)
			session := next().Session().ID()
			ids := []string{
				`1`, `"1"`, `1.5`, `2.50`, `9007199254740993`, `-0`, `1e3`, `""`, `"\u00e9"`, `"è"`, `"a\"b\\c\n"`, `"<>&"`, `123456789012345678901234567890`,
			}
			var all []*kit.Response
			for _, id := range ids {
				all = append(all, kit.Serve(c.Server(), kit.InSession(t, session, `{"jsonrpc":"2.0","id":`+id+`,"method":"x"}`)))
			}
			for range ids {
				next().Returns("done")
			}
			for i, w := range all {
				require.Equal(t, "200 result ended", w.Summary(), ids[i])
				require.Equal(t, `{"jsonrpc":"2.0","id":`+ids[i]+`,"result":"done"}`, w.Body.String())
			}
		})
	}
}

// The refusal of an id that is in flight contains the id, so the client knows which of its requests was refused.
func TestAnIDInFlightIsRefused(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		first := c.CallTool("x", nil)
		tool := next()
		before := c.Server().Stats()
		for range 10 {
			body, res := kit.Post(t, c, `{"jsonrpc":"2.0","id":2,"method":"x"}`)
			require.Equal(t, "400 error(-32600,2)", kit.Refusal(t, body, res))
		}
		after := c.Server().Stats()
		require.EqualValues(t, 10, after.Refused)
		after.Refused = 0
		require.Equal(t, before, after, "nothing of them is left")
		require.Equal(t, 1, first.Open(), "the one that runs is not touched")
		tool.Returns("done")
		require.Equal(t, `"done"`, string(first.Result()))
	})
}
