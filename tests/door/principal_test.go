package door_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// answer returns a whole response as it was written: the status, the header without Date, the body.
func answer(t *testing.T, c *rejointest.Client, req *http.Request) string {
	t.Helper()
	body, res := kit.ReadAll(t, c.Do(req))
	res.Header.Del("Date")
	var fields []string
	for name, values := range res.Header {
		fields = append(fields, fmt.Sprintf("%s: %q", name, values))
	}
	sort.Strings(fields)
	return strings.Join(append([]string{res.Proto + " " + res.Status, fmt.Sprint(res.ContentLength, res.Trailer)}, append(fields, body)...), "\n")
}

// With each verb and each kind of message, a session of another user is answered byte for byte like an unknown session. So guessing ids reveals
// nothing, and does nothing to the session.
func TestAForeignSessionLooksLikeNone(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Batches} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			thinking := make(chan struct{})
			defer close(thinking)
			c := rejointest.New(t, app, rejointest.Config{
				OnRequest: func(string, json.RawMessage) (any, error) {
					<-thinking
					return nil, nil
				},
				Version: version, Header: http.Header{"X-User": {"ann"}}, Server: rejoin.Config{Principal: kit.ByUser, MaxConcurrent: 2},
			})
			call := c.CallTool("x", nil)
			tool := next()
			asked := make(chan error, 1)
			go func() { asked <- tool.Ask(t.Context(), "roots/list", nil, nil) }()
			question := call.WaitMessages(1)[0]
			_, rest, _ := strings.Cut(string(question), `"id":`)
			id, _, _ := strings.Cut(rest, ",")
			listen := c.Listen()
			before := c.Server().Stats()
			count := 0
			for _, kind := range []struct {
				method, body string
				header       []string
			}{
				{"POST", kit.Ping, nil},
				{"POST", kit.Ping, []string{"Accept", "application/json"}},
				{"POST", kit.Ping, []string{"Accept", "text/event-stream"}},
				{"POST", kit.Ping, []string{"Mcp-Protocol-Version", ""}},
				{"POST", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`, nil}, // an id in flight in that session
				{"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil},
				{"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, nil},
				{"POST", `{"jsonrpc":"2.0","id":` + id + `,"result":{"roots":[]}}`, nil},
				{"POST", `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":1,"message":"no"}}`, nil},
				{"POST", "[" + kit.Ping + "]", nil},
				{"POST", `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}]`, nil},
				{"POST", "[]", nil},
				{"POST", `{`, nil},
				{"POST", kit.Ping, []string{"Content-Type", "text/plain"}},
				{"POST", kit.Ping, []string{"Accept", "text/html"}},
				{"GET", "", nil},
				{"GET", "", []string{"Accept", "text/html"}},
				{"GET", "", []string{"Last-Event-ID", call.IDs()[0]}},
				{"GET", "", []string{"Last-Event-ID", call.IDs()[len(call.IDs())-1]}},
				{"GET", "", []string{"Last-Event-ID", "garbage"}},
				{"DELETE", "", nil},
				{"DELETE", "", []string{"Mcp-Protocol-Version", "x"}},
				{"PUT", "", nil},
				{"OPTIONS", "", nil},
			} {
				for _, user := range []string{"bob", "Ann", "ann, ann", ""} {
					header := append([]string{"X-User", user}, kind.header...)
					foreign := answer(t, c, kit.Request(t, kind.method, kind.body, header...))
					unknown := answer(t, c, kit.Request(t, kind.method, kind.body, append(header, "Mcp-Session-Id", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")...))
					require.Equal(t, unknown, foreign, "%+v", kind)
					require.NotContains(t, foreign, "200 OK")
					count += 2
				}
			}
			after := c.Server().Stats()
			require.EqualValues(t, count, after.Refused-before.Refused)
			after.Refused = before.Refused
			require.Equal(t, before, after)
			require.NoError(t, tool.Cause())
			require.Equal(t, 1, call.Open())
			require.Equal(t, 1, listen.Open())
			require.Empty(t, asked, "the question was answered by nobody")

			_, _ = kit.Post(t, c, `{"jsonrpc":"2.0","id":`+id+`,"result":{"roots":[]}}`)
			require.NoError(t, <-asked, "but by its own user")
		})
	}
}

// initialize with the session id of another user opens a new session, as with an unknown id.
func TestInitializeWithAForeignSessionID(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{
			Header: http.Header{"X-User": {"ann"}}, Server: rejoin.Config{Principal: kit.ByUser},
		})
		call := c.CallTool("x", nil)
		tool := next()
		var answers []string
		for _, header := range [][]string{{"X-User", "bob"}, {"X-User", "bob", "Mcp-Session-Id", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}, {"X-User", "bob", "Mcp-Session-Id", ""}} {
			body, res := kit.Post(t, c, kit.Initialize, header...)
			id := res.Header.Get("Mcp-Session-Id")
			require.NotEmpty(t, id)
			require.NotEqual(t, tool.Session().ID(), id)
			res.Header.Del("Mcp-Session-Id")
			answers = append(answers, fmt.Sprint(res.StatusCode, res.Header, body))
			_, res = kit.ReadAll(t, c.Do(kit.Request(t, "DELETE", "", "X-User", "bob", "Mcp-Session-Id", id)))
			require.Equal(t, http.StatusNoContent, res.StatusCode, "it is his")
		}
		require.Equal(t, answers[0], answers[1])
		require.Equal(t, answers[0], answers[2])
		require.NoError(t, tool.Cause())
		require.Equal(t, 1, call.Open())
		body, res := kit.Post(t, c, kit.Initialize)
		require.Equal(t, `400 error(-32600,"mine")`, kit.Refusal(t, body, res), "her own is another matter")
	})
}

// A cursor that is not one of the session is answered byte for byte in the same way, whatever it is, and nothing is taken over.
func TestAForeignCursorLooksLikeGarbage(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := rejointest.New(t, app, rejointest.Config{
			Header: http.Header{"X-User": {"ann"}}, Server: rejoin.Config{Principal: kit.ByUser},
		})
		live := c.CallTool("x", nil)
		require.NoError(t, next().Progress(1, 0, ""))
		parked := c.CallTool("x", nil)
		require.NoError(t, next().CloseStream(0))
		parked.WaitClosed()
		sealed := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		tool.Returns("done")
		listen := c.Listen()
		require.NoError(t, tool.Session().Notify(t.Context(), "notifications/x", nil))
		// The test cuts streams' names out of event ids only to make cursors past their end.
		name := func(id string) string { return id[:strings.LastIndex(id[:23+1], ".")] }
		cursors := map[string]string{
			"garbage": "garbage", "huge": strings.Repeat("A", 100_000), "huge number": name(live.IDs()[0]) + ".18446744073709551616",
			"a stream that never was": "AAAAAAAAAAAAAAAAAAAAAA.0", "a quoted one": `"` + live.IDs()[0] + `"`,
		}
		own := map[string]*rejointest.Call{"live": live, "parked": parked, "sealed": sealed, "standalone": listen}
		for what, call := range own {
			cursors["past the end of one that is "+what] = name(call.IDs()[0]) + ".7"
			cursors["a primer past the end of one that is "+what] = name(call.IDs()[0]) + ".7.abc"
		}
		whose := map[string][]string{}
		for _, user := range []string{"ann", "bob"} {
			_, res := kit.Post(t, c, kit.Initialize, "X-User", user, "Mcp-Session-Id", "")
			whose[user] = []string{"X-User", user, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id")}
		}
		seen := map[string]bool{}
		ask := func(cursor string, header []string) {
			seen[answer(t, c, kit.Request(t, http.MethodGet, "", append(header, "Last-Event-ID", cursor)...))] = true
		}
		for what, cursor := range cursors {
			if strings.Contains(what, "past the end of one that is standalone") { // the user's own stream, which is answered otherwise
			} else if strings.Contains(what, "past the end") { // likewise: the client keeps its session
				res := c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", cursor))
				require.Equal(t, http.StatusOK, res.StatusCode, what)
				require.NoError(t, res.Body.Close())
			} else {
				ask(cursor, nil)
			}
			require.LessOrEqual(t, len(seen), 1, what)
			ask(cursor, whose["ann"])
			ask(cursor, whose["bob"])
			require.Len(t, seen, 1, what)
		}
		for what, call := range own {
			for _, id := range call.IDs() {
				ask(id, whose["ann"]) // another session of the same user
				ask(id, whose["bob"])
				require.Len(t, seen, 1, what)
			}
		}
		for text := range seen {
			require.Contains(t, text, "400 Bad Request")
		}
		require.Equal(t, 1, live.Open())
		require.Equal(t, 1, listen.Open())
		require.Equal(t, "200 sse primer@0 1:progress 2:result closed", kit.Last(sealed))
		require.Zero(t, c.Server().Stats().TakenOver)
	})
}
