package lifetime_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// verbs has a request of each kind that a client can send in a session.
func verbs(t *testing.T) map[string]*http.Request {
	t.Helper()
	return map[string]*http.Request{
		"request":      kit.Request(t, http.MethodPost, kit.Ping),
		"notification": kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/x"}`),
		"cancellation": kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`),
		"response":     kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","id":"x.1","result":{}}`),
		"batch":        kit.Request(t, http.MethodPost, "["+kit.Ping+"]"),
		"listen":       kit.Request(t, http.MethodGet, ""),
		"resume":       kit.Request(t, http.MethodGet, "", "Last-Event-ID", "AAAAAAAAAAAAAAAAAAAAAA.0"),
		"delete":       kit.Request(t, http.MethodDelete, ""),
	}
}

// Transports, "session management" 3, 2025-11-25.
func TestATerminatedSessionIsNotFoundByAnyVerb(t *testing.T) {
	for name, end := range map[string]func(*rejointest.Client, *kit.ManualTool){
		"by the client":   func(c *rejointest.Client, _ *kit.ManualTool) { c.Delete() },
		"by the app":      func(_ *rejointest.Client, tool *kit.ManualTool) { tool.Session().End(nil) },
		"by the operator": func(c *rejointest.Client, tool *kit.ManualTool) { _ = c.Server().EndSession(tool.Session().Ref()) },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				c := rejointest.New(t, app, rejointest.Config{Version: kit.Batches})
				c.CallTool("x", nil)
				end(c, next())
				synctest.Wait()
				for verb, req := range verbs(t) {
					body, res := kit.ReadAll(t, c.Do(req))
					require.Equal(t, "404 error(-32001,null)", kit.Refusal(t, body, res), verb)
				}
			})
		})
	}
}

// Transports, "security warning" 1, 2025-11-25.
func TestAForeignOriginIsForbiddenOnEveryVerb(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, &kit.Fake{}, rejointest.Config{})
		all := verbs(t)
		all["initialize"] = kit.Request(t, http.MethodPost, kit.Initialize, "Mcp-Session-Id", "")
		all["another"] = kit.Request(t, http.MethodOptions, "")
		for verb, req := range all {
			req.Header.Set("Origin", "https://evil.example")
			body, res := kit.ReadAll(t, c.Do(req))
			require.Equal(t, "403 error(-32600,null)", kit.Refusal(t, body, res), verb)
		}
		require.Equal(t, `{}`, string(c.Start("ping", nil).Result()), "and the session was not deleted")
	})
}

// Transports, "session management" 1, 2025-11-25: unique, from a secure source, and only visible ASCII.
func TestSessionIDsAreUniqueAndVisible(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, &kit.Fake{}, rejoin.Config{})
		seen := map[string]bool{}
		for range 200 {
			id := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize)).Head.Get("Mcp-Session-Id")
			require.Regexp(t, `^[A-Z2-7]{26}$`, id, "130 bits in base 32")
			require.False(t, seen[id])
			seen[id] = true
		}
		for i := range 26 {
			letters := map[byte]bool{}
			for id := range seen {
				letters[id[i]] = true
			}
			require.Greater(t, len(letters), 16, "letter %d is random", i)
		}
	})
}

// Transports, "protocol version header", 2025-11-25: without the header, the version is the one of the session.
func TestWithoutAVersionTheSessionsHolds(t *testing.T) {
	for version, want := range map[string]string{kit.Polling: "400 error(-32600,null)", kit.Legacy: "400 error(-32600,null)", kit.Batches: "200 [result]"} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := rejointest.New(t, app, rejointest.Config{Version: version})
			body, res := kit.Post(t, c, "["+kit.Ping+"]", "Mcp-Protocol-Version", "")
			require.Equal(t, want, fmt.Sprintf("%d %s", res.StatusCode, kit.MessageSummary(body)), "batches are of 2025-03-26 alone")
			res = c.Do(kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","id":"mine","method":"x"}`, "Mcp-Protocol-Version", "", "Accept", "text/event-stream"))
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, version == kit.Polling, next().Resumable())
		})
	}
}

// withID matches an event on the wire that has an id.
var withID = regexp.MustCompile(`(?m)^id: (.*)\n(?:retry: .*\n)?data: (.*)\n$`)

// Transports, "resumability and redelivery" 1, 2025-11-25: one id is one event, on all connections of all streams of a session. An event that is
// sent again has the same id.
func TestEventIDsAreUniqueInASession(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := rejointest.New(t, app, rejointest.Config{Version: version})
			var calls []*rejointest.Call
			for range 3 {
				call := c.CallTool("x", nil)
				tool := next()
				for i := range 3 {
					require.NoError(t, tool.Progress(float64(i), 0, ""))
				}
				call.PollFrom(call.IDs()[0])
				call.Poll()
				tool.Returns("done")
				call.PollFrom(call.IDs()[0])
				require.NoError(t, tool.Session().Notify(t.Context(), "notifications/x", json.RawMessage(`{}`)))
				calls = append(calls, call, c.Listen())
			}
			what := map[string]string{}
			primers := 0
			for _, call := range calls {
				for _, block := range withID.FindAllStringSubmatch(call.Wire(), -1) {
					id, data := block[1], block[2]
					before, again := what[id]
					require.True(t, !again || before == data && data != "", "%s is %q and %q", id, before, data)
					what[id] = data
					if data == "" {
						primers++
					}
				}
			}
			require.Equal(t, version == kit.Polling, primers > 0)
			require.Len(t, what, primers+3*4+3)
		})
	}
}
