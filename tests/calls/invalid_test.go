package calls_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// broken are values that are not JSON, or only partly. An SDK has written a URI with a control character into the data of an error.
var broken = []string{"{", `{"uri":"a` + "\x01" + `b"}`, `"a` + "\xff" + `"`, "{}{}", "nul", "\ufeff{}", " ", `{"a":1,}`, "\x00"}

// Invalid JSON of an app does not reach a client: most clients could then decode nothing of the message, nor the other answers of a batch.
func TestWhatIsNoJSONDoesNotReachAClient(t *testing.T) {
	for _, value := range broken {
		kit.Bubble(t, func(t *testing.T) {
			said := &kit.Log{}
			app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
				switch c.Method() {
				case "result":
					_ = c.Reply(json.RawMessage(value))
				case "data":
					_ = c.Fail(&rejoin.Error{Code: 7, Message: "no such resource", Data: json.RawMessage(value)})
				default:
					kit.Accept(c)
				}
			}}
			s := kit.NewServer(t, app, rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil))})
			id, _ := kit.OpenNow(t, s, strings.Replace(kit.Initialize, kit.Polling, kit.Batches, 1))
			for _, accept := range []string{"application/json", "text/event-stream"} {
				ask := func(body string) string { // returns the response byte for byte
					w := kit.Serve(s, kit.InSession(t, id, body, "Accept", accept))
					require.Regexp(t, `^200 .* ended$`, strings.ReplaceAll(w.Summary(), "\n", " "))
					for line := range strings.Lines(w.Body.String()) {
						if text, ok := strings.CutPrefix(line, "data: "); ok {
							require.True(t, json.Valid([]byte(text)), "%q", text)
						} else if accept == "application/json" {
							require.True(t, json.Valid([]byte(line)), "%q", line)
						}
					}
					return w.Body.String()
				}
				call := func(method string) string { return `{"jsonrpc":"2.0","id":"` + method + `","method":"` + method + `"}` }
				noResult, text := `"id":"result","error":{"code":-32603,"message":"internal error"}}`, `"error":{"code":7,"message":"no such resource","data":"`
				require.Contains(t, ask(call("result")), noResult, "%q", value)
				require.Contains(t, ask(call("data")), text, "%q: as a string", value)
				all := ask("[" + call("result") + "," + call("data") + "," + call("ping") + "]")
				for _, part := range []string{noResult, text, `"id":"ping","result":{}}`} {
					require.Contains(t, all, part, "%q", value)
				}
			}
			require.Equal(t, 4, said.Count("a result that is not valid JSON"))
			require.Equal(t, 1, said.Count("the data of an error is not valid JSON"), "said once")
		})
	}
}

// The same for the error of App.Open. A sender of an invalid notification gets an error.
func TestMessagesThatAreNoJSONAreTheSendersFault(t *testing.T) {
	for _, value := range broken {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			s := kit.NewServer(t, app, rejoin.Config{Logger: kit.QuietLogger()})
			id := kit.OpenReady(t, s)
			w := kit.Serve(s, kit.InSession(t, id, kit.CallBody("1", "{}")))
			tool := next()
			raw := json.RawMessage(value)
			for _, params := range []any{raw, []byte(value), &raw} {
				require.Error(t, tool.Notify("notifications/x", params), "%q", value)
				require.Error(t, tool.Session().Notify(tool.Ctx, "notifications/x", params), "%q", value)
				require.Error(t, tool.Ask(tool.Ctx, "roots/list", params, nil), "%q", value)
			}
			asked := make(chan error, 1)
			tool.Session().AskFunc(context.Background(), "roots/list", raw, func(_ json.RawMessage, err error) { asked <- err })
			require.ErrorContains(t, <-asked, "not valid JSON")
			tool.Returns("done")
			require.Equal(t, "200 result ended", w.Summary(), "nothing was sent, so it needs no stream")

			refusing := &kit.Fake{OnOpen: func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
				return nil, &rejoin.Error{Code: 7, Message: "no", Data: raw}
			}}
			w = kit.Serve(kit.NewServer(t, refusing, rejoin.Config{Logger: kit.QuietLogger()}), kit.Request(t, http.MethodPost, kit.Initialize))
			require.Equal(t, http.StatusBadRequest, w.Status)
			require.Contains(t, w.Body.String(), `"error":{"code":7,"message":"no","data":"`)
			require.True(t, json.Valid([]byte(w.Body.String())))
			synctest.Wait()
		})
	}
}
