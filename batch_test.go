package rejoin_test

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
)

// echo answers a request with its params, after as many milliseconds as they say, having told of it as often as they say.
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
		elapse(time.Duration(p.Wait) * time.Millisecond)
		return r.Params, nil
	})
}

func call(id, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"x","params":` + params + `}`
}

// In a session of 2025-03-26 a batch of requests is answered whole: with an array, or with a stream that has one event for each response.
func TestABatchIsAnsweredWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, echo(), rejointest.Config{Version: batches})
		body, res := post(t, c, "["+call("1", `{"a":1}`)+","+call(`"1"`, `{"wait":20}`)+","+call("3", `{"wait":10}`)+"]")
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		require.JSONEq(t, `[{"jsonrpc":"2.0","id":1,"result":{"a":1}},{"jsonrpc":"2.0","id":3,"result":{"wait":10}},{"jsonrpc":"2.0","id":"1","result":{"wait":20}}]`,
			body, "in the order in which they were made")
		body, _ = post(t, c, "["+call("1", "{}")+"]")
		require.JSONEq(t, `[{"jsonrpc":"2.0","id":1,"result":{}}]`, body, "also one")

		body, res = post(t, c, "["+call("1", `{}`)+","+call("2", `{"tell":2,"wait":10}`)+","+call("3", `{"wait":200}`)+"]")
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		require.Equal(t, 2, strings.Count(body, "told"))
		require.Equal(t, 3, strings.Count(body, `"result"`))
		require.Equal(t, 5, strings.Count(body, "\ndata: {"))
		require.NotContains(t, body, "retry")

		body, _ = post(t, c, "["+call("1", `{}`)+","+call("2", `{"wait":10}`)+"]", "Accept", "text/event-stream")
		require.Equal(t, "comment 1:result 2:result", events(body))
		body, _ = post(t, c, "["+call("1", `{"tell":1}`)+","+call("2", `{"wait":1000}`)+"]", "Accept", "application/json")
		require.Equal(t, "[result result]", shape(body))
		body, _ = post(t, c, "["+call("1", `[]`)+","+call("2", `{"wait":"x"}`)+"]")
		require.Equal(t, "error(-32600,null)", shape(body), "one that is no message spoils them all")
		body, _ = post(t, c, "["+call("1", `{}`)+","+call("2", `{"wait":"x"}`)+"]")
		require.ElementsMatch(t, []string{"result", "error(-32602,2)"}, list(t, body))
		require.EqualValues(t, 1, c.Server().Stats().Sessions)
	})
}

// list are the shapes of the members of a batch.
func list(t *testing.T, body string) (shapes []string) {
	t.Helper()
	var all []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(body), &all))
	for _, m := range all {
		shapes = append(shapes, shape(string(m)))
	}
	return shapes
}

// A batch may bring notifications: with requests, which are answered, or alone. The transports specification of 2025-03-26, "sending
// messages to the server" 3.
func TestABatchWithNotifications(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told []string
		app := &fake{notification: func(n *rejoin.Notification) { told = append(told, n.Method()) }}
		c := rejointest.New(t, app, rejointest.Config{Version: batches})
		told = nil
		const note = `{"jsonrpc":"2.0","method":"notifications/`
		body, res := post(t, c, "["+note+`a"},`+call("1", "{}")+","+note+`b"}]`)
		require.Equal(t, "200 [result]", fmt.Sprintf("%d %s", res.StatusCode, shape(body)))
		require.Equal(t, []string{"notifications/a", "notifications/b"}, told)

		for _, alone := range []string{
			"[" + note + `a"},` + note + `b"}]`,
			`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"x"}}]`,
		} {
			body, res = post(t, c, alone)
			require.Equal(t, http.StatusAccepted, res.StatusCode, alone)
			require.Empty(t, body)
		}
		require.Len(t, told, 4)
	})
}

// A batch that is refused starts nothing.
func TestRefusedBatchesStartNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		started, told := 0, 0
		app := &fake{
			request: func(c *rejoin.Call) {
				switch {
				case c.Method() == "x":
					started++
				case c.Method() == "stay":
					return
				}
				accept(c)
			},
			notification: func(*rejoin.Notification) { told++ },
		}
		c := rejointest.New(t, app, rejointest.Config{Version: batches, Server: rejoin.Config{MaxConcurrent: 4}})
		c.Start("stay", nil) // its id is 2
		told = 0
		const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
		for name, test := range map[string]struct{ body, want string }{
			"empty":                       {"[]", "400 error(-32600,null)"},
			"with initialize":             {"[" + call("7", "{}") + "," + initialize + "]", "400 error(-32600,null)"},
			"the same id twice":           {"[" + call("7", "{}") + "," + note + "," + call("7", "{}") + "]", "400 error(-32600,7)"},
			"an id in flight":             {"[" + note + "," + call("7", "{}") + "," + call("2", "{}") + "]", "400 error(-32600,7)"},
			"requests and responses":      {"[" + call("7", "{}") + `,{"jsonrpc":"2.0","id":9,"result":{}}]`, "400 error(-32600,null)"},
			"too many":                    {"[" + call("5", "{}") + "," + call("6", "{}") + "," + call("7", "{}") + "," + call("8", "{}") + "]", "429 error(-32000,5)"},
			"a batch in a batch":          {"[[" + call("7", "{}") + "]]", "400 error(-32600,null)"},
			"no message":                  {"[" + call("7", "{}") + ",1]", "400 error(-32600,null)"},
			"no JSON":                     {"[" + call("7", "{}") + ",", "400 error(-32700,null)"},
			"a modern request among them": {"[" + call("7", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`) + "]", "400 error(-32600,null)"},
		} {
			body, res := post(t, c, test.body)
			require.Equal(t, test.want, refusal(t, body, res), name)
			require.Zero(t, started, name)
			require.Zero(t, told, name)
		}
		body, res := post(t, c, "["+call("7", "{}")+"]", "Accept", "text/html")
		require.Equal(t, "406 error(-32600,7)", refusal(t, body, res))
		require.EqualValues(t, 2, c.Server().Stats().Streams)
	})
	for _, version := range []string{polling, legacy, "2024-11-05"} {
		bubble(t, func(t *testing.T) {
			c := rejointest.New(t, echo(), rejointest.Config{Version: version})
			for _, b := range []string{"[" + ping + "]", `[{"jsonrpc":"2.0","method":"notifications/x"}]`, "[]"} {
				body, res := post(t, c, b)
				require.Equal(t, "400 error(-32600,null)", refusal(t, body, res), version)
			}
		})
	}
}

// A batch whose stream was lost is resumed like any other; and what ends it is told of each request.
func TestABatchIsAStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told causes
		c := rejointest.New(t, told.app(), rejointest.Config{Version: batches, Server: rejoin.Config{
			KeepAlive: -1, Policy: rejoin.Policy{MaxRuntime: time.Hour, StreamAfter: time.Millisecond},
		}})
		res := c.Do(request(t, http.MethodPost, "["+call("1", "{}")+","+call("2", "{}")+"]"))
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		c.Notify("notifications/cancelled", map[string]int{"requestId": 1})
		elapse(time.Hour)
		synctest.Wait()
		body, _ := whole(t, res)
		require.Equal(t, "comment 1:error(-32000,2) max_runtime", events(body), "one was cancelled, and has no response")
		require.Equal(t, []error{rejoin.ErrCancelled, rejoin.ErrMaxRuntime}, told.cancelled)
	})
}

// Where the rest of a batch was dropped, there is one error for each request whose response the client has not seen.
func TestABatchThatWasDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, echo(), rejointest.Config{Version: batches, Server: rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.SSE}}})
		body, _ := post(t, c, "["+call("1", `{"wait":10}`)+","+call("2", `{"wait":20}`)+","+call("3", `{"wait":30}`)+"]")
		require.Equal(t, "comment 1:result 2:result 3:result", events(body))
		first := regexp.MustCompile(`(?m)^id: (.*\.1)$`).FindStringSubmatch(body)[1]
		require.Equal(t, "comment 2:result 3:result", get(t, c, "Last-Event-ID", first))
		elapse(time.Hour / 4)
		require.Equal(t, "comment 2:error(-32000,2) expired 3:error(-32000,3) expired", get(t, c, "Last-Event-ID", first))
		require.Equal(t, "204 text/event-stream", get(t, c, "Last-Event-ID", strings.TrimSuffix(first, "1")+"3"))
	})
}

// Ids come back as they were sent, to the letter, and are told apart likewise.
func TestIDsComeBackAsTheyWereSent(t *testing.T) {
	for _, version := range []string{polling, batches} {
		bubble(t, func(t *testing.T) {
			app, next := puppets()
			c := rejointest.New(t, app, rejointest.Config{Version: version})
			c.CallTool("x", nil)
			session := next().Session().ID()
			ids := []string{
				`1`, `"1"`, `1.5`, `1.50`, `9007199254740993`, `-0`, `1e3`, `""`, `"\u00e9"`, `"é"`, `"a\"b\\c\n"`, `"<>&"`, `123456789012345678901234567890`,
			}
			var all []*response
			for _, id := range ids {
				all = append(all, serve(c.Server(), inSession(t, session, `{"jsonrpc":"2.0","id":`+id+`,"method":"x"}`)))
			}
			for range ids {
				next().returns("done")
			}
			for i, w := range all {
				require.Equal(t, "200 result ended", w.story(), ids[i])
				require.Equal(t, `{"jsonrpc":"2.0","id":`+ids[i]+`,"result":"done"}`, w.body.String())
			}
		})
	}
}

// The refusal of an id that is in flight names it, so that the client can tell which of its requests was refused.
func TestAnIDInFlightIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		first := c.CallTool("x", nil)
		tool := next()
		before := c.Server().Stats()
		for range 10 {
			body, res := post(t, c, `{"jsonrpc":"2.0","id":2,"method":"x"}`)
			require.Equal(t, "400 error(-32600,2)", refusal(t, body, res))
		}
		after := c.Server().Stats()
		require.EqualValues(t, 10, after.Refused)
		after.Refused = 0
		require.Equal(t, before, after, "nothing of them is left")
		require.Equal(t, 1, first.Open(), "the one that runs is not touched")
		tool.returns("done")
		require.Equal(t, `"done"`, string(first.Result()))
	})
}
