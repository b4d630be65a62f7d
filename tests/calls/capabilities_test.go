package calls_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// offers are capabilities of a client, with a method and whether the client may be asked for it.
var offers = []struct {
	capabilities, method, params string
	may                          bool
}{
	{`{}`, "roots/list", "", false},
	{`{"roots":{}}`, "roots/list", "", true},
	{`{"roots":{"listChanged":true}}`, "roots/list", "", true},
	{`{"roots":null}`, "roots/list", "", false},
	{`{"roots":false}`, "roots/list", "", false},
	{`{"r\u006fots":{}}`, "roots/list", "", true},
	{`{"Roots":{},"experimental":{"roots":{}}}`, "roots/list", "", false},
	{`{}`, "sampling/createMessage", "{}", false},
	{`{"sampling":{}}`, "sampling/createMessage", `{"messages":[]}`, true},
	{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, false},
	{`{"sampling":{}}`, "sampling/createMessage", `{"toolChoice":{}}`, false},
	{`{"sampling":{}}`, "sampling/createMessage", `{"tools":null}`, true},
	{`{"sampling":{"tools":{}}}`, "sampling/createMessage", `{"tools":[]}`, true},
	{`{}`, "elicitation/create", `{"message":"m"}`, false},
	{`{"elicitation":{}}`, "elicitation/create", `{"message":"m"}`, true},
	{`{"elicitation":{}}`, "elicitation/create", `{"mode":"form"}`, true},
	{`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, false},
	{`{"elicitation":{}}`, "elicitation/create", `{"mode":"\u0075rl"}`, false},
	{`{"elicitation":{"form":{}}}`, "elicitation/create", `{"mode":"form"}`, true},
	{`{"elicitation":{"form":{}}}`, "elicitation/create", `{"mode":"url"}`, false},
	{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"url"}`, true},
	{`{"elicitation":{"url":{}}}`, "elicitation/create", `{}`, false},
	{`{"elicitation":{"url":{},"form":{}}}`, "elicitation/create", `{}`, true},
	{`{"sampling":{},"roots":{}}`, "elicitation/create", `{}`, false},
	{`{}`, "tasks/get", "{}", false},
	{`{"tasks":{}}`, "tasks/get", "{}", true},
	{`{"tasks":{}}`, "tasks/result", "{}", true},
	{`{"tasks":{}}`, "tasks/list", "", false},
	{`{"tasks":{"list":{}}}`, "tasks/list", "", true},
	{`{"tasks":{"list":{}}}`, "tasks/cancel", "", false},
	{`{"tasks":{"cancel":{}}}`, "tasks/cancel", "", true},
	{`{}`, "ping", "", true},
	{`{}`, "x-vendor/ask", "{}", true}, // rejoin does not know this method, so it asks
	{`[]`, "roots/list", "", false},
	{`null`, "roots/list", "", false},
	{`"roots"`, "roots/list", "", false},
	{``, "roots/list", "", false},
	{``, "ping", "", true},
	{`{"roots":{},"experimental":{"x":"` + strings.Repeat("x", 60<<10) + `"}}`, "roots/list", "", true},
	{`{"roots":{},"experimental":{"x":"` + strings.Repeat("x", 60<<10) + `"}}`, "sampling/createMessage", "{}", false},
	{`{"elicitation":{"url":{}},"experimental":{"x":"` + strings.Repeat("x", 60<<10) + `"}}`, "elicitation/create", `{"mode":"url"}`, true},
	{`{"sampling":{"x":"` + strings.Repeat("x", 60<<10) + `"}}`, "sampling/createMessage", "{}", true},
}

var withoutCapabilities = strings.Replace(kit.Initialize, `"capabilities":{"elicitation":{},"roots":{},"sampling":{}},`, "", 1)

// offering opens a session whose client has these capabilities, and starts a tool in it.
func offering(t *testing.T, s *rejoin.Server, next func() *kit.ManualTool, capabilities string) (*kit.Response, *kit.ManualTool) {
	t.Helper()
	initialize := withoutCapabilities
	if capabilities != "" {
		initialize = strings.Replace(initialize, `"params":{`, `"params":{"capabilities":`+capabilities+`,`, 1)
	}
	w := kit.Serve(s, kit.Request(t, http.MethodPost, initialize))
	require.Equal(t, "200 result ended", w.Summary())
	call := kit.Serve(s, kit.InSession(t, w.Head.Get("Mcp-Session-Id"), kit.CallBody("1", "{}")))
	return call, next()
}

// The client is not asked for what it did not offer: the tool gets an error at once, and nothing is sent.
func TestTheClientIsAskedOnlyWhatItOffered(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		s := kit.NewServer(t, app, rejoin.Config{})
		for _, test := range offers {
			call, tool := offering(t, s, next, test.capabilities)
			session := tool.Session()
			var params json.RawMessage
			if test.params != "" {
				params = json.RawMessage(test.params)
			}
			ctx, cancel := context.WithCancel(tool.Ctx)
			byHandle, byAsk, outside := make(chan error, 1), make(chan error, 1), make(chan error, 1)
			go func() { byHandle <- tool.Ask(ctx, test.method, params, nil) }()
			session.AskFunc(tool.Ctx, test.method, params, func(_ json.RawMessage, err error) { byAsk <- err })
			session.AskFunc(context.Background(), test.method, params, func(_ json.RawMessage, err error) { outside <- err })
			summary := call.Summary()
			if test.may {
				require.Contains(t, summary, "200 sse", "%.100s: %s", test.capabilities, test.method)
				require.Contains(t, call.Body.String(), `"method":"`+test.method+`"`)
				require.Empty(t, byHandle)
				require.Empty(t, byAsk)
			} else {
				require.Equal(t, "open", summary, "%.100s: %s %s", test.capabilities, test.method, test.params)
				for _, answer := range []chan error{byHandle, byAsk, outside} {
					require.Len(t, answer, 1)
					err := <-answer
					require.ErrorIs(t, err, rejoin.ErrNotOffered)
					require.ErrorContains(t, err, test.method)
				}
			}
			cancel()
			tool.Returns("done")
			session.End(nil)
			if test.params == "" || test.params == "{}" {
				require.Equal(t, test.may, session.CanAsk(test.method), "%.100s: %s", test.capabilities, test.method)
			}
			require.LessOrEqual(t, len(session.Client().Capabilities), 1200)
		}
	})
}

// A session keeps its client's capabilities unchanged.
func TestASessionKnowsItsClientsCapabilities(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var seen []json.RawMessage
		app := &kit.Fake{OnOpen: func(_ *http.Request, s *rejoin.Session) (rejoin.AppSession, error) {
			seen = append(seen, s.Client().Capabilities) // they are known already here
			return &kit.Fake{}, nil
		}}
		kit.New(t, app, rejointest.Config{Capabilities: map[string]any{"elicitation": map[string]any{"url": struct{}{}}}})
		kit.New(t, app, rejointest.Config{})
		s := kit.NewServer(t, app, rejoin.Config{})
		kit.Serve(s, kit.Request(t, http.MethodPost, withoutCapabilities))
		require.Equal(t, []json.RawMessage{json.RawMessage(`{"elicitation":{"url":{}}}`), json.RawMessage(`{}`), nil}, seen)
	})
}
