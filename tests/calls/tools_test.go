package calls_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

var initializeParams = map[string]any{
	"protocolVersion": "2025-11-25", "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "x", "version": "1"},
}

// An app of tools lists its tools, and runs them.
func TestAnAppOfTools(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		own := map[string]any{"logging": struct{}{}}
		info := rejoin.Info{Name: "n", Version: "v", Capabilities: own}
		app := rejoin.NewToolApp(info,
			rejoin.Tool{
				Name: "add", Title: "Add", Description: "Adds \"two\" numbers.",
				InputSchema: json.RawMessage(`{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}`),
				Run: func(_ context.Context, r *rejoin.Request) (any, error) {
					var args struct {
						A int `json:"a"`
						B int `json:"b"`
					}
					if err := r.BindArguments(&args); err != nil {
						return rejoin.ToolError(err), nil
					}
					return args.A + args.B, nil
				},
			},
			rejoin.Tool{Name: "quiet", Run: func(context.Context, *rejoin.Request) (any, error) { return nil, nil }},
			rejoin.Tool{Name: "broken", Run: func(context.Context, *rejoin.Request) (any, error) {
				return rejoin.ToolError(errors.New("no paper")), nil
			}},
			rejoin.Tool{Name: "text", Run: func(context.Context, *rejoin.Request) (any, error) { return rejoin.Text("a\x00\"b"), nil }},
		)
		require.Equal(t, map[string]any{"logging": struct{}{}}, own, "the caller's map is the caller's")
		own["prompts"] = struct{}{}
		c := kit.New(t, app, rejointest.Config{})
		require.JSONEq(t, `{"tools":[
			{"name":"add","title":"Add","description":"Adds \"two\" numbers.",
				"inputSchema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}},
			{"name":"quiet","inputSchema":{"type":"object"}},
			{"name":"broken","inputSchema":{"type":"object"}},
			{"name":"text","inputSchema":{"type":"object"}}
		]}`, end(c.Start("tools/list", nil)))
		for _, again := range []string{"once", "twice"} {
			require.JSONEq(t, `{"content":[{"type":"text","text":"5"}]}`, end(c.CallTool("add", map[string]int{"a": 2, "b": 3})), again)
		}
		require.JSONEq(t, `{"content":[{"type":"text","text":"arguments of add: a cannot be of type string"}],"isError":true}`,
			end(c.CallTool("add", map[string]string{"a": "2"})))
		require.JSONEq(t, `{"content":[]}`, end(c.CallTool("quiet", nil)))
		require.JSONEq(t, `{"content":[{"type":"text","text":"no paper"}],"isError":true}`, end(c.CallTool("broken", nil)))
		require.JSONEq(t, `{"content":[{"type":"text","text":"a\u0000\"b"}]}`, end(c.CallTool("text", nil)))
		require.Equal(t, `-32602 unknown tool "subtract"`, end(c.CallTool("subtract", nil)))
		require.Equal(t, `-32602 unknown tool ""`, end(c.Start("tools/call", nil)))
		require.Equal(t, unknownMethod+`"prompts/list"`, end(c.Start("prompts/list", nil)))
		require.Equal(t, `{}`, end(c.Start("logging/setLevel", map[string]string{"level": "info"})))
	})
}

// An app announces its tools besides the other capabilities. A caller's own entry for tools is used unchanged.
func TestAnAppOfToolsAnnouncesThem(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for want, own := range map[string]map[string]any{
			`{"tools":{}}`:                   nil,
			`{"logging":{},"tools":{}}`:      {"logging": struct{}{}},
			`{"tools":{"listChanged":true}}`: {"tools": map[string]bool{"listChanged": true}},
		} {
			s := kit.NewServer(t, rejoin.NewToolApp(rejoin.Info{Name: "n", Version: "v", Capabilities: own}), rejoin.Config{})
			params, err := json.Marshal(initializeParams)
			require.NoError(t, err)
			w := kit.Serve(s, kit.Request(t, "POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+string(params)+`}`))
			require.Contains(t, w.Body.String(), `"capabilities":`+want)
		}
	})
}

// Many clients call many tools at once, and each gets its own result.
func TestManyCallToolsOfAnApp(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var tools []rejoin.Tool
		for i := range 16 {
			name := fmt.Sprint("tool-", i)
			tools = append(tools, rejoin.Tool{Name: name, Run: func(ctx context.Context, r *rejoin.Request) (any, error) {
				h := rejoin.HandleFromContext(ctx)
				_ = h.Progress(1, 0, "")
				_ = h.CloseStream(0)
				if i%2 == 0 {
					return rejoin.ToolError(errors.New(name + " as " + r.Name())), nil
				}
				return name + " as " + r.Name(), nil
			}})
		}
		c := kit.New(t, rejoin.NewToolApp(rejoin.Info{}, tools...), rejointest.Config{Server: rejoin.Config{Logger: kit.QuietLogger()}})
		var calls []*rejointest.Call
		for i := range 48 {
			calls = append(calls, c.CallTool(fmt.Sprint("tool-", i%16), nil))
		}
		for i, call := range calls {
			call.Poll()
			name := fmt.Sprint("tool-", i%16)
			require.Contains(t, end(call), `"text":"`+name+" as "+name+`"`)
			require.Equal(t, i%2 == 0, strings.Contains(end(call), `"isError":true`))
		}
	})
}

func TestToolError(t *testing.T) {
	for want, err := range map[string]error{
		"no paper":              errors.New("no paper"),
		"printing: no paper":    fmt.Errorf("printing: %w", errors.New("no paper")),
		"rows: too many":        rejoin.Errorf(rejoin.CodeInvalidParams, "rows: too many"),
		"the tool failed":       nil,
		"\ufffd is no UTF-8":    errors.New("\xff is no UTF-8"),
		"a\nb </script> \u2029": errors.New("a\nb </script> \u2029"),
	} {
		var result struct {
			Content []struct{ Type, Text string }
			IsError bool
		}
		require.NoError(t, json.Unmarshal(rejoin.ToolError(err), &result))
		require.True(t, result.IsError)
		require.Len(t, result.Content, 1)
		require.Equal(t, "text", result.Content[0].Type)
		require.Equal(t, want, result.Content[0].Text)
	}
	var none *rejoin.Error
	require.Equal(t, string(rejoin.ToolError(nil)), string(rejoin.ToolError(none)))
}

// A server that offers nothing is usually a mistake, and clients see an empty list. So it is logged once.
func TestAServerThatOffersNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		handler := func(context.Context, *rejoin.Request) (any, error) { return struct{}{}, nil }
		offers := func(names ...string) rejoin.App {
			info := rejoin.Info{Capabilities: map[string]any{}}
			for _, name := range names {
				info.Capabilities[name] = struct{}{}
			}
			return rejoin.NewApp(info, handler)
		}
		for name, test := range map[string]struct {
			app  rejoin.App
			warn bool
		}{
			"no capabilities":          {rejoin.NewApp(rejoin.Info{}, handler), true},
			"none of them":             {offers(), true},
			"nothing but logs":         {offers("logging"), true},
			"a name that only ends so": {offers("notools"), true},
			"tools":                    {offers("tools"), false},
			"resources":                {offers("resources"), false},
			"prompts":                  {offers("prompts"), false},
			"completions":              {offers("logging", "completions"), false},
			"tasks":                    {offers("tasks"), false},
			"an extension":             {offers("extensions"), false},
			"an experiment":            {offers("experimental"), false},
			"an app of tools":          {rejoin.NewToolApp(rejoin.Info{}), false},
			"another app, with nothing": {&kit.Fake{OnRequest: func(c *rejoin.Call) {
				_ = c.Reply(json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{},"instructions":"\"tools\":{}"}`))
			}}, true},
			"another app, with something": {&kit.Fake{}, false},
			"an initialize that fails":    {&kit.Fake{OnRequest: func(c *rejoin.Call) { _ = c.Fail(rejoin.Errorf(1, "no")) }}, false},
		} {
			var logged bytes.Buffer
			s := kit.NewServer(t, test.app, rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			params, err := json.Marshal(initializeParams)
			require.NoError(t, err)
			for range 3 {
				kit.Serve(s, kit.Request(t, "POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+string(params)+`}`))
			}
			n := 0
			if test.warn {
				n = 1
			}
			require.Equal(t, n, strings.Count(logged.String(), "offers nothing"), "%s: %s", name, &logged)
			require.Equal(t, n, strings.Count(logged.String(), "level=WARN"), name)
		}
	})
}

// A server that announces tools and lists none was probably made for one request instead of one session. So it is logged once.
func TestAServerThatListsNoTools(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		for list, warn := range map[string]bool{
			`{"tools":[]}`: true, `{"tools": [ ] }`: true, `{"tools":[],"_meta":{}}`: true,
			`{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`: false,
			`{"tools":[],"nextCursor":"1"}`:                            false,
			`{}`:                                                       false,
			`{"tools":1}`:                                              false,
			`[]`:                                                       false,
		} {
			for _, announced := range []bool{true, false} {
				var logged bytes.Buffer
				info := rejoin.Info{Capabilities: map[string]any{"prompts": struct{}{}}}
				if announced {
					info = kit.Info
				}
				app := rejoin.NewApp(info, func(context.Context, *rejoin.Request) (any, error) { return json.RawMessage(list), nil })
				c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}})
				c.Start("prompts/list", nil).Result()
				c.Start("tools/list", map[string]string{"cursor": "2"}).Result()
				require.Empty(t, logged.String())
				for range 3 {
					require.Equal(t, list, end(c.Start("tools/list", nil)))
				}
				n := 0
				if warn && announced {
					n = 1
				}
				require.Equal(t, n, strings.Count(logged.String(), "lists none"), "%s, announced: %t: %s", list, announced, &logged)
			}
		}
	})
}
