package calls_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// tokens are progress tokens, each with the form that it has after a library has decoded it into any and encoded it again.
var tokens = [][2]string{
	{`1`, `1`}, {`"a"`, `"a"`}, {`""`, `""`},
	{`9007199254740993`, `9007199254740992`}, {`-9007199254740993`, `-9007199254740992`}, {`123456789012345678901234567890`, `123456789012345680000000000000`},
	{`123456789012345678901234567890`, `1.2345678901234568e+29`},
	{`1.50`, `1.5`}, {`1e3`, `1000`}, {`2.0`, `2`}, {`-0`, `0`}, {`0.1e1`, `1`},
	{`"\u0061<>&"`, `"a\u003c\u003e\u0026"`}, {`"a\/b"`, `"a/b"`}, {`"\ud83d\ude00"`, `"😀"`}, {`"\ud800"`, `"` + "\ufffd" + `"`},
	{`"` + strings.Repeat("<", 1022) + `"`, `"` + strings.Repeat(`\u003c`, 1022) + `"`},
}

// noTokens are not progress tokens: they are neither a string nor a number, or longer than a kilobyte.
var noTokens = []string{`null`, `true`, `false`, `{}`, `[1]`, `{"a":1}`, `"` + strings.Repeat("x", 1023) + `"`, strings.Repeat("1", 1025)}

// begins starts a call with a progress token, and returns its response.
func begins(t *testing.T, c *rejointest.Client, session, id, token string) *kit.Response {
	t.Helper()
	return kit.Serve(c.Server(), kit.InSession(t, session, kit.CallBody(id, `{"_meta":{"progressToken":`+token+`}}`), "Accept", "text/event-stream"))
}

// Progress has the client's token in the client's own spelling, also if a library has changed it: from the handle, and in messages that a tool
// builds itself, with the call's context and without.
func TestAProgressTokenComesBackAsItWasSent(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		listen := c.Listen()
		session := sessionOf(c, next)
		for i, pair := range tokens {
			w := begins(t, c, session, fmt.Sprintf(`"c%d"`, i), pair[0])
			tool := next()
			message := func(token string) json.RawMessage {
				return json.RawMessage(`{"progress": 7, "progressToken" : ` + token + ` , "message":"m"}`)
			}
			require.NoError(t, tool.Progress(1, 0, ""))
			require.NoError(t, tool.Notify("notifications/progress", message(pair[1])))
			require.NoError(t, tool.Session().Notify(tool.Ctx, "notifications/progress", message(pair[1])))
			before := len(listen.Messages())
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/progress", message(pair[1])))
			tool.Returns("done")
			body := w.Body.String()
			own := `"params":{"progressToken":` + pair[0] + `,"progress":1}`
			require.Contains(t, body, own)
			require.Equal(t, 2, strings.Count(body, `"params":`+string(message(pair[0]))), "%s in %s", pair[0], body)
			messages := listen.Messages()
			require.Len(t, messages, before+1)
			require.Contains(t, string(messages[before]), string(message(pair[0])), "outside of the call")
		}
	})
}

// A notification with the token of another call gets that call's spelling. A token of no call is left unchanged.
func TestTheProgressTokenOfAnotherCall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		session := sessionOf(c, next)
		w := begins(t, c, session, `"one"`, "2.0")
		one := next()
		begins(t, c, session, `"other"`, "4e0")
		next()
		for _, token := range []string{"4", "2", "17", `"2"`} {
			require.NoError(t, one.Notify("notifications/progress", json.RawMessage(`{"progressToken":`+token+`}`)))
		}
		require.NoError(t, one.Notify("notifications/other", json.RawMessage(`{"progressToken":2}`)))
		one.Returns("done")
		for _, want := range []string{
			`progress","params":{"progressToken":4e0}`, `progress","params":{"progressToken":2.0}`, `progress","params":{"progressToken":17}`,
			`progress","params":{"progressToken":"2"}`, `other","params":{"progressToken":2}`,
		} {
			require.Contains(t, w.Body.String(), want)
		}
	})
}

// If a request's token is not a progress token, no progress is sent for it, however the tool reports it. The call works as usual.
func TestWhatIsNoProgressToken(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		listen := c.Listen()
		session := sessionOf(c, next)
		for i, token := range noTokens {
			w := begins(t, c, session, fmt.Sprintf(`"c%d"`, i), token)
			tool := next()
			require.NoError(t, tool.Progress(1, 0, "seen"))
			for _, ctx := range []context.Context{tool.Ctx, context.Background()} {
				require.NoError(t, tool.Session().Notify(ctx, "notifications/progress", json.RawMessage(`{"progressToken":`+token+`,"message":"seen"}`)))
			}
			tool.Returns("done")
			require.NotContains(t, w.Body.String(), "seen", token)
			require.Contains(t, w.Body.String(), `"result":"done"`)
		}
		require.Empty(t, listen.Messages())
		require.Zero(t, c.Server().Stats().Full)
	})
}

// Handlers of NewApp report progress with the handle.
func TestProgressTokensOfAHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, kit.Tool(func(_ context.Context, h *rejoin.Handle) (any, error) { return "done", h.Progress(1, 0, "seen") }), rejoin.Config{})
		id := kit.OpenReady(t, s)
		call := func(token string) string {
			return kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", `{"_meta":{"progressToken":`+token+`}}`), "Accept", "text/event-stream")).Body.String()
		}
		for _, pair := range tokens {
			require.Contains(t, call(pair[0]), `"params":{"progressToken":`+pair[0]+`,"progress":1,"message":"seen"}`)
		}
		for _, token := range noTokens {
			require.NotContains(t, call(token), "seen", token)
		}
		w := kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", `{"_meta":{"progressToken":1}}`)))
		require.Equal(t, http.StatusOK, w.Status)
	})
}
