package calls_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// The answer has the client's version if it is known, otherwise the newest one. The lifecycle specification, "version negotiation".
func TestVersionNegotiation(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		s := kit.NewServer(t, rejoin.NewApp(rejoin.Info{
			Name: "n", Version: "v", Instructions: "i", Capabilities: map[string]any{"tools": struct{}{}},
		}, func(context.Context, *rejoin.Request) (any, error) { return nil, nil }), rejoin.Config{})
		for asked, want := range map[string]string{
			`"2025-11-25"`: "2025-11-25", `"2025-06-18"`: "2025-06-18", `"2025-03-26"`: "2025-03-26", `"2024-11-05"`: "2024-11-05",
			`"1999-01-01"`: "2025-11-25", `"2026-07-28"`: "2025-11-25", `"x"`: "2025-11-25",
			`""`: "", `1`: "", `null`: "",
		} {
			w := kit.Serve(s, kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":`+asked+`}}`))
			if want == "" {
				require.Equal(t, "200 error(-32602,1) ended", w.Summary(), asked)
				require.Empty(t, w.Head.Get("Mcp-Session-Id"))
				continue
			}
			require.Equal(t, "200 result ended", w.Summary(), asked)
			require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"`+want+`","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"v"},"instructions":"i"}}`,
				w.Body.String())
		}
		w := kit.Serve(s, kit.Request(t, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`))
		require.Equal(t, "200 error(-32602,1) ended", w.Summary(), "no params")
		require.Len(t, kit.Sessions(s), 7)
	})
}

// A handler's rejoin.Error is sent to the client. Other errors are hidden and logged.
func TestErrorsOfAHandler(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var logged bytes.Buffer
		var typedNil *rejoin.Error
		app := rejoin.NewApp(rejoin.Info{}, func(_ context.Context, r *rejoin.Request) (any, error) {
			switch r.Method {
			case "own":
				return nil, &rejoin.Error{Code: 7, Message: "mine", Data: json.RawMessage(`{"reason":"r"}`)}
			case "wrapped":
				return nil, fmt.Errorf("secret: %w", rejoin.Errorf(8, "%d is enough", 1))
			case "other":
				return nil, errors.New("secret")
			case "panic":
				panic("secret")
			case "no JSON":
				return make(chan int), nil
			case "typed nil":
				return nil, typedNil
			case "nothing":
				return struct{}{}, nil
			case "raw":
				return json.RawMessage(`{ "a" : 1 }`), nil
			}
			return "fine", nil
		})
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}})
		beside := c.Listen()
		require.Equal(t, &rejoin.Error{Code: 7, Message: "mine", Data: json.RawMessage(`{"reason":"r"}`)}, c.Start("own", nil).Err())
		require.Equal(t, &rejoin.Error{Code: 8, Message: "1 is enough"}, c.Start("wrapped", nil).Err())
		for _, hidden := range []string{"other", "panic", "no JSON", "typed nil"} {
			call := c.Start(hidden, nil)
			require.Equal(t, rejoin.CodeInternal, call.Err().Code, hidden)
			require.NotContains(t, call.Wire(), "secret")
			require.NotContains(t, call.Wire(), "chan")
		}
		require.Contains(t, logged.String(), "secret")
		require.Contains(t, logged.String(), "newapp_test.go", "a panic with its stack")
		require.Equal(t, `{}`, string(c.Start("nothing", nil).Result()))
		require.Equal(t, `{ "a" : 1 }`, string(c.Start("raw", nil).Result()))
		require.Equal(t, `"fine"`, string(c.Start("x", nil).Result()), "others are not harmed")
		require.Equal(t, `{}`, string(c.Start("ping", nil).Result()))
		require.Equal(t, 1, beside.Open())
	})
}

// A panic becomes the response: on a stream, and for a client that is disconnected.
func TestAPanicIsAResponse(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, kit.Tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			_ = h.Progress(1, 0, "")
			_ = h.CloseStream(0)
			panic("secret")
		}), rejointest.Config{Server: rejoin.Config{Logger: kit.QuietLogger()}})
		call := c.CallTool("x", nil)
		require.Equal(t, rejoin.CodeInternal, call.Err().Code)
		require.Equal(t, "200 sse primer@1 2:error(-32603,2) closed", kit.Last(call))
	})
}

func TestBind(t *testing.T) {
	var v struct {
		A int `json:"a"`
		B struct {
			C []string `json:"c"`
		} `json:"b"`
	}
	require.NoError(t, (&rejoin.Request{Method: "x", Params: json.RawMessage(`{"a":1,"b":{"c":["d"]},"e":2}`)}).Bind(&v))
	require.Equal(t, 1, v.A)
	require.NoError(t, (&rejoin.Request{Method: "x"}).Bind(&v), "no params are an empty object")
	for params, says := range map[string]string{
		`{"a":"text"}`:    "params of x: a cannot be of type string",
		`{"b":{"c":[1]}}`: "params of x: b.c cannot be of type number",
		`{"a":1e99}`:      "params of x: a cannot be of type number 1e99",
		`{"b":[]}`:        "params of x: b cannot be of type array",
	} {
		err := (&rejoin.Request{Method: "x", Params: json.RawMessage(params)}).Bind(&v)
		var e *rejoin.Error
		require.ErrorAs(t, err, &e, params)
		require.Equal(t, rejoin.CodeInvalidParams, e.Code)
		require.Equal(t, says, e.Message)
	}
	var local struct {
		X rejoin.Policy `json:"x"`
	}
	err := (&rejoin.Request{Method: "x", Params: json.RawMessage(`{"x":{"Retry":"soon"}}`)}).Bind(&local)
	require.NotContains(t, err.Error(), "Policy", "the names of our types are none of the client's business")
	require.NotContains(t, err.Error(), "Duration")
}

// A call is answered once.
func TestOnlyTheFirstAnswerCounts(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
			kit.Accept(c)
			for range 3 {
				require.ErrorIs(t, c.Reply(json.RawMessage(`2`)), rejoin.ErrEnded)
				require.ErrorIs(t, c.Fail(rejoin.Errorf(1, "x")), rejoin.ErrEnded)
			}
		}}
		c := kit.New(t, app, rejointest.Config{})
		require.Equal(t, `{}`, string(c.Start("x", nil).Result()))
		require.Equal(t, http.StatusOK, c.Start("ping", nil).Status())
	})
}

// A tool's arguments are decoded into its own type, once.
func TestNameAndArguments(t *testing.T) {
	type args struct {
		Text string `json:"text"`
		N    int    `json:"n"`
	}
	for params, want := range map[string]string{
		`{"name":"echo","arguments":{"text":"a","n":1}}`:           "echo a 1",
		`{"arguments":{"n":2,"text":"\u0062"},"name":"e\u0063ho"}`: "echo b 2",
		`{"name":"echo"}`:                       "echo  0",
		`{}`:                                    "  0",
		``:                                      "  0",
		`{"name":"echo","arguments":{"n":"x"}}`: "error -32602 arguments of echo: n cannot be of type string",
		`{"name":"echo","arguments":[1]}`:       "error -32602 arguments of echo: they cannot be of type array",
		`{"name":7,"arguments":{}}`:             "  0",
	} {
		r := &rejoin.Request{Method: "tools/call", Params: json.RawMessage(params)}
		var a args
		var got string
		if err := r.BindArguments(&a); err == nil {
			got = fmt.Sprintf("%s %s %d", r.Name(), a.Text, a.N)
		} else {
			var e *rejoin.Error
			require.ErrorAs(t, err, &e)
			got = fmt.Sprintf("error %d %s", e.Code, e.Message)
		}
		require.Equal(t, want, got, params)
	}
}

// A handler that ends its goroutine is answered like one that panics.
func TestAHandlerThatEndsItsGoroutine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, rejoin.NewApp(rejoin.Info{}, func(context.Context, *rejoin.Request) (any, error) {
			runtime.Goexit()
			return "never", nil
		}), rejointest.Config{Server: rejoin.Config{Logger: kit.QuietLogger()}})
		require.Equal(t, "200 error(-32603,2) answered", kit.Last(c.CallTool("x", nil)))
	})
}
