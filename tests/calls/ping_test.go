package calls_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A ping is always answered: calls that fill MaxConcurrent, parked or not, do not block it, and pings do not use up MaxConcurrent.
func TestAPingIsAlwaysAnswered(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy, kit.Batches} {
		t.Run(version, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := kit.New(t, app, rejointest.Config{Version: version})
				var tools []*kit.ManualTool
				var calls []*rejointest.Call
				for range 64 {
					calls = append(calls, c.CallTool("x", nil))
					tools = append(tools, next())
					_ = tools[len(tools)-1].CloseStream(0)
				}
				ping := func() {
					t.Helper()
					for _, accept := range []string{"application/json", "text/event-stream", "application/json, text/event-stream"} {
						body, res := kit.Post(t, c, kit.Ping, "Accept", accept)
						require.Equal(t, http.StatusOK, res.StatusCode, body)
						require.Contains(t, body, `{"jsonrpc":"2.0","id":"mine","result":{}}`)
					}
				}
				for range 100 {
					ping()
				}
				require.Regexp(t, `^429 error\(-32000,\d+\) answered$`, kit.Last(c.Start("x", nil)))
				if version == kit.Batches {
					body, _ := kit.Post(t, c, "["+kit.Ping+","+strings.Replace(kit.Ping, "mine", "yours", 1)+"]")
					require.Equal(t, "[result result]", kit.MessageSummary(body))
					body, res := kit.Post(t, c, "["+kit.Ping+","+kit.CallBody("7000", "{}")+"]")
					require.Equal(t, "429 error(-32000,\"mine\")", kit.Refusal(t, body, res), "a call in a batch with a ping is a call")
				}
				for i, tool := range tools {
					tool.Returns(i)
				}
				for i, call := range calls {
					require.Equal(t, fmt.Sprint(i), string(call.Result()))
				}
				ping()
			})
		})
	}
}

// An app that does not answer pings does not get any number of them: a few pings have places of their own, and others count as calls.
func TestPingsThatAreNotAnsweredAreBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var pending []*rejoin.Call
		s := kit.NewServer(t, &kit.Fake{OnRequest: func(c *rejoin.Call) {
			if c.Method() == "initialize" {
				kit.Accept(c)
				return
			}
			pending = append(pending, c)
		}}, rejoin.Config{MaxConcurrent: 4, Policy: rejoin.Policy{StreamAfter: -1}})
		id := kit.OpenReady(t, s)
		send := func(method string) string {
			return kit.Serve(s, kit.InSession(t, id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, len(pending), method))).Summary()
		}
		for range 16 {
			require.Equal(t, "open", send("ping"))
		}
		for range 4 {
			require.Equal(t, "open", send("x"))
		}
		require.Equal(t, "429 error(-32000,20) ended", send("ping"))
		require.Equal(t, "429 error(-32000,20) ended", send("x"))
		for _, c := range pending[15:17] { // one ping and one call
			require.NoError(t, c.Reply(nil))
		}
		require.Equal(t, "open", send("ping"))
		require.Equal(t, "open", send("ping"), "there is room for a call")
		require.Equal(t, "429 error(-32000,22) ended", send("x"))
		for _, c := range pending {
			_ = c.Reply(nil)
		}
		require.Equal(t, "open", send("x"))
	})
}
