package calls_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// returns makes what a handler returns, by name.
func returns(name string) (any, error) {
	var (
		noRaw   json.RawMessage
		noMap   map[string]any
		noError *rejoin.Error
	)
	switch name {
	case "string":
		return "say \"hi\"\n\u2028", nil
	case "empty string":
		return "", nil
	case "number":
		return 42, nil
	case "list":
		return []string{"a", "b"}, nil
	case "object":
		return map[string]any{"content": []any{}, "isError": true}, nil
	case "raw":
		return json.RawMessage(`"as it is"`), nil
	case "nothing":
		return nil, nil
	case "no raw message":
		return noRaw, nil
	case "no map":
		return noMap, nil
	case "null":
		return json.RawMessage("null"), nil
	case "for the model":
		return rejoin.ToolError(errors.New("the disk is \"full\"")), nil
	case "error":
		return "ignored", errors.New("the disk is \"full\"")
	case "wrapped":
		return nil, fmt.Errorf("export: %w", errors.New("no rows"))
	case "own error":
		return nil, fmt.Errorf("export: %w", rejoin.Errorf(rejoin.CodeInvalidParams, "rows: too many"))
	case "no error":
		return nil, noError
	case "no JSON":
		return math.Inf(1), nil
	case "not UTF-8":
		return map[string]any{"x": json.RawMessage("\"\xff\"")}, nil
	case "panic":
		panic("secret")
	}
	return rejoin.Errorf(1, "no such case"), nil
}

const (
	unknownMethod = "-32601 unknown method "
	internal      = "-32603 internal error"
)

// The client of tools/call gets the result of a tool or a JSON-RPC error. Client and model read a result. An error says that the call was not
// made, or that the server is at fault.
var toolResults = map[string]string{
	"string":         `{"content":[{"type":"text","text":"say \"hi\"\n\u2028"}]}`,
	"empty string":   `{"content":[{"type":"text","text":""}]}`,
	"number":         `{"content":[{"type":"text","text":"42"}]}`,
	"list":           `{"content":[{"type":"text","text":"[\"a\",\"b\"]"}]}`,
	"object":         `{"content":[],"isError":true}`,
	"raw":            `"as it is"`,
	"nothing":        unknownMethod + `"tools/call"`,
	"no raw message": unknownMethod + `"tools/call"`,
	"no map":         unknownMethod + `"tools/call"`,
	"null":           unknownMethod + `"tools/call"`,
	"for the model":  `{"content":[{"type":"text","text":"the disk is \"full\""}],"isError":true}`,
	"error":          internal,
	"wrapped":        internal,
	"own error":      "-32602 rows: too many",
	"no error":       internal,
	"no JSON":        internal,
	"not UTF-8":      internal,
	"panic":          internal,
}

// Results of other methods are sent unchanged, and errors are hidden.
var otherResults = map[string]string{
	"string":         `"say \"hi\"\n\u2028"`,
	"object":         `{"content":[],"isError":true}`,
	"raw":            `"as it is"`,
	"nothing":        unknownMethod + `"prompts/list"`,
	"no raw message": unknownMethod + `"prompts/list"`,
	"no map":         unknownMethod + `"prompts/list"`,
	"null":           unknownMethod + `"prompts/list"`,
	"error":          internal,
	"own error":      "-32602 rows: too many",
	"no error":       internal,
	"no JSON":        internal,
	"not UTF-8":      internal,
	"panic":          internal,
}

// end describes how a call has ended.
func end(call *rejointest.Call) string {
	all := call.Messages()
	if len(all) == 0 {
		return "without an answer"
	}
	var m struct {
		Result json.RawMessage
		Error  *rejoin.Error
	}
	if err := json.Unmarshal(all[len(all)-1], &m); err != nil {
		return err.Error()
	}
	if m.Error != nil {
		return strconv.Itoa(m.Error.Code) + " " + m.Error.Message
	}
	return string(m.Result)
}

// What a handler returns reaches its client in the form of the method's results, by each way of the answer: as plain JSON, on its stream, or to
// a client that was disconnected and polls.
func TestWhatAHandlerReturns(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app := rejoin.NewApp(kit.Info, func(ctx context.Context, r *rejoin.Request) (any, error) {
			h := rejoin.HandleFromContext(ctx)
			var p struct{ Way string }
			if err := r.Bind(&p); err != nil {
				return nil, err
			}
			if p.Way != "plain" {
				_ = h.Notify("notifications/x", nil)
			}
			if p.Way == "polled" {
				_ = h.CloseStream(0)
			}
			return returns(r.Name())
		})
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Logger: kit.QuietLogger()}})
		for method, want := range map[string]map[string]string{"tools/call": toolResults, "prompts/list": otherResults} {
			for name, want := range want {
				for _, way := range []string{"plain", "stream", "polled"} {
					call := c.Start(method, map[string]string{"name": name, "way": way})
					if way == "polled" {
						call.WaitClosed()
						call.Poll()
					}
					require.Equal(t, want, end(call), "%s of %s, %s", name, method, way)
				}
			}
		}
	})
}

// A handler that does not know a method only has to return: the client gets "method not found". Methods without a result are answered with an
// empty one.
func TestAMethodThatAHandlerDoesNotKnow(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app := rejoin.NewApp(kit.Info, func(context.Context, *rejoin.Request) (any, error) { return nil, nil })
		c := kit.New(t, app, rejointest.Config{})
		for _, method := range []string{"tools/list", "tools/call", "resources/read", "completion/complete", "vendor/x", "Ping", "logging/setlevel"} {
			require.Equal(t, unknownMethod+strconv.Quote(method), end(c.Start(method, nil)))
		}
		for _, method := range []string{"logging/setLevel", "resources/subscribe", "resources/unsubscribe", "ping"} {
			require.Equal(t, `{}`, end(c.Start(method, nil)), method)
		}
	})
}

// The text of a tool's error may not be for the client, so it is logged. A tool that returns because its call has ended, or that returns the
// cause of that, is not answered.
func TestAnErrorOfAToolIsTheOperators(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var logged bytes.Buffer
		app := rejoin.NewApp(kit.Info, func(ctx context.Context, r *rejoin.Request) (any, error) {
			if r.Name() == "slow" {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return returns(r.Name())
		})
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}})
		require.Equal(t, internal, end(c.CallTool("error", nil)))
		require.Contains(t, logged.String(), "level=ERROR")
		require.Contains(t, logged.String(), `the disk is \"full\"`)
		logged.Reset()
		require.Equal(t, toolResults["for the model"], end(c.CallTool("for the model", nil)))
		slow := c.CallTool("slow", nil)
		slow.Cancel("")
		require.Equal(t, "without an answer", end(slow))
		require.Empty(t, logged.String())
	})
}

// A missing handler or tool is found when the server is made, not when a client calls it.
func TestAppsThatCannotWork(t *testing.T) {
	run := func(context.Context, *rejoin.Request) (any, error) { return nil, nil }
	info := rejoin.Info{Name: "x", Version: "1"}
	for want, app := range map[string]rejoin.App{
		"NewApp needs a Handler": rejoin.NewApp(info, nil),
		"a tool has no name":     rejoin.NewToolApp(info, rejoin.Tool{Run: run}),
		`tool "a": Run is nil`:   rejoin.NewToolApp(info, rejoin.Tool{Name: "a"}),
		"tool \"b\": Run is nil\ntool \"a\" is listed twice": rejoin.NewToolApp(info,
			rejoin.Tool{Name: "a", Run: run}, rejoin.Tool{Name: "b"}, rejoin.Tool{Name: "a", Run: run}),
		`tool "s": InputSchema is not a JSON object whose "type" is "object"`: rejoin.NewToolApp(info,
			rejoin.Tool{Name: "s", Run: run, InputSchema: json.RawMessage(`{"type":"string"}`)}),
		`tool "t": InputSchema is not a JSON object whose "type" is "object"`: rejoin.NewToolApp(info,
			rejoin.Tool{Name: "t", Run: run, InputSchema: json.RawMessage(`{"type":"object"`)}),
		"": rejoin.NewToolApp(info),
	} {
		srv, err := rejoin.NewServer(app, rejoin.Config{})
		if want == "" {
			require.NoError(t, err)
			srv.Close()
			continue
		}
		require.EqualError(t, err, "rejoin: invalid configuration: "+want)
	}
	_, err := rejoin.NewServer(rejoin.NewApp(info, nil), rejoin.Config{Eras: rejoin.EraBoth, KeepAlive: 1})
	require.ErrorContains(t, err, "NewApp needs a Handler")
	require.ErrorContains(t, err, "KeepAlive", "all contradictions are named together")
}

// If such an app is inside another one, which NewServer cannot inspect, it opens no session.
func TestAnAppInsideAnotherThatCannotWork(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var logged bytes.Buffer
		app := struct{ rejoin.App }{rejoin.NewApp(kit.Info, nil)}
		s := kit.NewServer(t, app, rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		w := kit.Serve(s, kit.Request(t, "POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`))
		require.Equal(t, http.StatusInternalServerError, w.Status)
		require.NotContains(t, w.Body.String(), "Handler")
		require.Contains(t, logged.String(), "NewApp needs a Handler")
		require.Empty(t, kit.Sessions(s))
	})
}
