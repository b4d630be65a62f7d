package calls_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// An answer of the client is accepted in each form that libraries use: with null for the member that it lacks, and with another spelling of
// the question's id.
func TestHowAnAnswerMayBeWritten(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Batches} {
		kit.Bubble(t, func(t *testing.T) {
			onRequest, _ := silent(t)
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: version, OnRequest: onRequest, Server: rejoin.Config{Node: "n"}})
			call := c.CallTool("x", nil)
			tool := next()
			for i, test := range []struct{ answer, want string }{
				{`"result":{"a":1},"error":null`, `{"a":1}`},
				{`"error":null,"result":7`, `7`},
				{`"result":null,"error":null`, `null`},
				{`"result":null,"error":{"code":-3,"message":"no"}`, "no"},
				{`"result":{}`, `{}`},
			} {
				got := tool.Asks(tool.Ctx, "roots/list")
				ids := asked(t, call.Messages())
				require.Len(t, ids, i+1)
				id := strings.Replace(ids[i], `"n.`, `"\u006e\u002e`, 1)
				require.NotEqual(t, ids[i], id)
				body, res := kit.Post(t, c, `{"jsonrpc":"2.0","id":`+id+`,`+test.answer+`}`)
				require.Equal(t, http.StatusAccepted, res.StatusCode, body)
				switch answer := (<-got).(type) {
				case error:
					require.ErrorContains(t, answer, test.want)
				default:
					require.Equal(t, test.want, answer)
				}
			}
			body, res := kit.Post(t, c, `{"jsonrpc":"2.0","id":"n.1","result":1,"error":{}}`)
			require.Equal(t, http.StatusBadRequest, res.StatusCode, body)
		})
	}
}

// Characters that some clients take for a line end are escaped in every answer and event: in results, params, errors and progress.
func TestLineBreaksOfUnicodeDoNotLeave(t *testing.T) {
	const breaks = "a\u0085b\u2028c\u2029d"
	raw := json.RawMessage(`{"text":"` + breaks + `"}`)
	for _, accept := range []string{"application/json", "text/event-stream"} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{OnRequest: func(string, json.RawMessage) (any, error) { return 1, nil }})
			session := sessionOf(c, next)
			for _, result := range []any{raw, &rejoin.Error{Code: 1, Message: breaks, Data: raw}} {
				w := kit.Serve(c.Server(), kit.InSession(t, session, kit.CallBody("1", `{"_meta":{"progressToken":1}}`), "Accept", accept))
				tool := next()
				if accept != "application/json" {
					require.NoError(t, tool.Progress(1, 0, breaks))
					require.NoError(t, tool.Notify("notifications/x", raw))
					tool.Session().AskFunc(tool.Ctx, "ping", raw, func(json.RawMessage, error) {})
				}
				tool.Returns(result)
				body := w.Body.String()
				require.NotContains(t, body, "\u0085")
				require.NotContains(t, body, "\u2028")
				require.NotContains(t, body, "\u2029")
				require.Contains(t, body, `a\u0085b\u2028c\u2029d`)
			}
		})
	}
}

// If the data of an error is not JSON, or not UTF-8, a client could not decode the message, nor the other answers of a batch. Such data is
// sent as a string, and logged once.
func TestDataOfAnErrorThatIsNotJSON(t *testing.T) {
	for data, want := range map[string]string{
		`{"uri":"a\x01"}`: `"{\"uri\":\"a\\x01\"}"`, `{"a":1`: `"{\"a\":1"`, `{"a":1}}`: `"{\"a\":1}}"`, "\"\xff\"": `"\"\ufffd\""`, "\"\x01\"": `"\"\u0001\""`,
		" ": `" "`, `{"uri":"a\u0001"}`: `{"uri":"a\u0001"}`, `null`: `null`, "": "",
	} {
		kit.Bubble(t, func(t *testing.T) {
			var logged kit.Log
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: kit.Batches, Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}})
			session := sessionOf(c, next)
			for _, accept := range []string{"application/json", "text/event-stream"} {
				w := kit.Serve(c.Server(), kit.InSession(t, session, "["+kit.CallBody("1", `{}`)+","+kit.CallBody("2", `{}`)+"]", "Accept", accept))
				next().Returns(&rejoin.Error{Code: 1, Message: "m", Data: json.RawMessage(data)})
				next().Returns(map[string]int{"a": 1})
				body := w.Body.String()
				if want == "" {
					require.NotContains(t, body, `"data"`)
				} else {
					require.Contains(t, body, `"message":"m","data":`+want+`}`)
				}
				require.Contains(t, body, `"result":{"a":1}`)
				for line := range strings.SplitSeq(body, "\n") {
					message, event := strings.CutPrefix(line, "data: ")
					require.True(t, !event && accept != "application/json" || message == "" || json.Valid([]byte(message)), line)
				}
			}
			most := 1
			if data == want {
				most = 0
			}
			require.Equal(t, most, logged.Count("is not valid JSON"))
		})
	}
}
