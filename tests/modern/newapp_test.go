package modern_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// about is what each result says about the server.
const about = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}},"resultType":"complete"`

var offered = rejoin.Info{Name: "test", Version: "1", Instructions: "be quick", Capabilities: map[string]any{
	"tools": map[string]bool{"listChanged": true}, "resources": map[string]any{"subscribe": true, "x": 1}, "tasks": struct{}{}, "logging": struct{}{},
}}

// appClient is a client of a server of both eras whose app is NewApp of h.
func appClient(t *testing.T, cfg rejointest.Config, h rejoin.Handler) *rejointest.Client {
	t.Helper()
	cfg.Server.Eras = rejoin.EraBoth
	return rejointest.New(t, rejoin.NewApp(offered, h), cfg)
}

// call is a request of the modern era for a tool.
func call(t *testing.T, meta string, header ...string) *http.Request {
	t.Helper()
	return kit.ModernRequest(t, "tools/call", "x", `,"name":"x"`, meta, header...)
}

func answered(result string) string {
	return `200 {"jsonrpc":"2.0","id":"mine","result":` + result + `}`
}

func failed(status, e string) string {
	return status + ` {"jsonrpc":"2.0","id":"mine","error":` + e + `}`
}

// An app of NewApp answers each modern request in JSON, with all that this era requires in a result, and with the statuses of its errors.
func TestNewAppAnswersModernRequests(t *testing.T) {
	const internal = `{"code":-32603,"message":"internal error"}`
	returns := func(result any, err error) rejoin.Handler {
		return func(context.Context, *rejoin.Request) (any, error) { return result, err }
	}
	kit.Bubble(t, func(t *testing.T) {
		for _, test := range []struct {
			name    string
			method  string // "": tools/call
			handler rejoin.Handler
			want    string
			logged  string
		}{
			{"discover", "server/discover", returns(nil, nil), answered(`{` + about + `,"ttlMs":0,"cacheScope":"private","supportedVersions":` +
				`["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},"logging":{},"resources":{"x":1},"tools":{}},` +
				`"instructions":"be quick"}`), ""},
			{"ping", "ping", returns(nil, nil), failed("404", `{"code":-32601,"message":"version 2026-07-28 has no method \"ping\""}`), ""},
			{"a text", "", returns("done", nil), answered(`{` + about + `,"content":[{"type":"text","text":"done"}]}`), ""},
			{"a tool that failed", "", returns(rejoin.ToolError(errors.New("no")), nil),
				answered(`{` + about + `,"content":[{"type":"text","text":"no"}],"isError":true}`), ""},
			{"a number", "", returns(17, nil), answered(`{` + about + `,"content":[{"type":"text","text":"17"}]}`), ""},
			{"no number of a tool", "x/y", returns(17, nil), answered(`17`), ""},
			{"nothing", "", returns(nil, nil), failed("404", `{"code":-32601,"message":"unknown method \"tools/call\""}`), ""},
			{"an empty object", "x/y", returns(struct{}{}, nil), answered(`{` + about + `}`), ""},
			{"a list", "tools/list", returns(json.RawMessage(" { \"tools\" : [] }"), nil),
				answered(`{` + about + `,"ttlMs":0,"cacheScope":"private", "tools" : [] }`), ""},
			{"a list that may be kept", "tools/list", returns(json.RawMessage(`{"cacheScope":"public","ttlMs":9}`), nil),
				answered(`{` + about + `,"cacheScope":"public","ttlMs":9}`), ""},
			{"a question", "", returns(json.RawMessage(`{"resultType":"input_required","requestState":"s","_meta":{ "a":1}}`), nil),
				answered(`{"resultType":"input_required","requestState":"s",` +
					`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}, "a":1}}`), ""},
			{"another name", "", returns(json.RawMessage(`{"_meta":{"io.modelcontextprotocol/serverInfo":{}},"resultType":"x"}`), nil),
				answered(`{"_meta":{"io.modelcontextprotocol/serverInfo":{}},"resultType":"x"}`), ""},
			{"an error for the client", "", returns(nil, rejoin.Errorf(-32050, "out of luck")), failed("200", `{"code":-32050,"message":"out of luck"}`), ""},
			{"invalid params", "", returns(nil, rejoin.Errorf(-32602, "no")), failed("400", `{"code":-32602,"message":"no"}`), ""},
			{"a capability", "", returns(nil, &rejoin.Error{Code: -32021, Message: "no", Data: json.RawMessage(`{"a":1}`)}),
				failed("400", `{"code":-32021,"message":"no","data":{"a":1}}`), ""},
			{"invalid data", "", returns(nil, &rejoin.Error{Code: -1, Data: json.RawMessage(`{`)}),
				failed("200", `{"code":-1,"message":"","data":"{"}`), "data of an error"},
			{"a nil error", "", returns(nil, (*rejoin.Error)(nil)), failed("200", internal), ""},
			{"an error", "", returns(nil, errors.New("secret")), failed("200", internal), "error=secret"},
			{"no JSON", "", returns(json.RawMessage(`{`), nil), failed("200", internal), "not valid JSON"},
			{"too much", "", returns(strings.Repeat("x", 17<<20), nil),
				failed("200", `{"code":-32603,"message":"the response is over 16 MiB"}`), "over 16 MiB"},
			{"a panic", "", func(context.Context, *rejoin.Request) (any, error) { panic("secret") }, failed("200", internal), "panic=secret"},
			{"an end", "", func(context.Context, *rejoin.Request) (any, error) {
				runtime.Goexit()
				return nil, errors.New("not reached")
			}, failed("200", internal), "runtime.Goexit"},
		} {
			said := &kit.Log{}
			c := appClient(t, rejointest.Config{Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(said, nil))}}, test.handler)
			if test.method == "" {
				test.method = "tools/call"
			}
			body, res := kit.ReadAll(t, c.Do(kit.ModernRequest(t, test.method, "x", `,"name":"x"`, "")))
			require.Equal(t, test.want, res.Status[:4]+body, test.name)
			kit.RequireHead(t, res.Header, "Content-Type", "application/json")
			if test.logged == "" {
				require.Zero(t, said.Count("level="), test.name)
				continue
			}
			require.Equal(t, 1, said.Count(test.logged), test.name)
			require.Equal(t, 1, said.Count("level="), "%s is logged once", test.name)
		}
	})
}

// NewToolApp serves its tools in both eras at one URL. A Handler gets params, header and values of the request as in the legacy era.
func TestToolsOfBothEras(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for _, eras := range []rejoin.Eras{rejoin.EraBoth, rejoin.EraModern} {
			app := rejoin.NewToolApp(rejoin.Info{Name: "test", Version: "1"}, rejoin.Tool{Name: "x", Run: func(ctx context.Context, r *rejoin.Request) (any, error) {
				var arguments struct{ A int }
				err := r.BindArguments(&arguments)
				return []any{arguments.A, r.Name(), r.Header.Get("X-Mine"), rejoin.ServerFromContext(ctx).Stats().Sessions}, err
			}})
			s := kit.NewServer(t, app, rejoin.Config{Eras: eras})
			w := kit.Serve(s, kit.ModernRequest(t, "tools/list", "", "", ""))
			require.Contains(t, w.Body.String(), `"tools":[{"name":"x","inputSchema":{"type":"object"}}]`)
			w = kit.Serve(s, kit.ModernRequest(t, "tools/call", "x", `,"name":"x","arguments":{"a":7}`, "", "X-Mine", "yes"))
			require.Contains(t, w.Body.String(), `"text":"[7,\"x\",\"yes\",0]"`)
			w = kit.Serve(s, kit.ModernRequest(t, "tools/call", "y", `,"name":"y"`, ""))
			require.Equal(t, `400 error(-32602,"mine") ended`, w.Summary())
			require.Equal(t, "202 ended", kit.Serve(s, kit.Request(t, http.MethodPost, kit.ModernNotification, kit.ModernHeader...)).Summary())
			_, refused := kit.Open(t, s)
			require.Equal(t, eras == rejoin.EraModern, refused != "", refused)
		}
	})
}

// If the schema of a tool says that a header field repeats an argument, they must agree (SEP-2243). In the legacy era there are no such fields.
func TestHeadersThatRepeatArguments(t *testing.T) {
	toolApp := func(header string) rejoin.App {
		return rejoin.NewToolApp(rejoin.Info{Name: "test", Version: "1"}, rejoin.Tool{
			Name:        "x",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"` + header + `"}}}`),
			Run:         func(context.Context, *rejoin.Request) (any, error) { return "done", nil },
		})
	}
	_, err := rejoin.NewServer(toolApp("a b"), rejoin.Config{})
	require.ErrorContains(t, err, `tool "x": InputSchema: property "city": x-mcp-header must be`)
	kit.Bubble(t, func(t *testing.T) {
		c := rejointest.New(t, toolApp("City"), rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth}})
		const params = `,"name":"x","arguments":{"city":"Bern"}`
		for header, want := range map[string]string{
			"Bern": "200 result", "=?base64?QmVybg==?=": "200 result", "Basel": `400 error(-32020,"mine")`, "": `400 error(-32020,"mine")`,
		} {
			body, res := kit.ReadAll(t, c.Do(kit.ModernRequest(t, "tools/call", "x", params, "", "Mcp-Param-City", header)))
			require.Equal(t, want, res.Status[:4]+kit.MessageSummary(body), header)
		}
		require.Contains(t, string(c.CallTool("x", map[string]string{"city": "Bern"}).Result()), "done")
	})
}
