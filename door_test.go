package rejoin_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

const (
	ping       = `{"jsonrpc":"2.0","id":"mine","method":"ping"}`
	initialize = `{"jsonrpc":"2.0","id":"mine","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
)

// door are requests that the transport refuses, and how. Header fields are named in turn with their values; "" is a field left out.
var door = []struct {
	name   string
	method string // of HTTP; "": POST
	body   string
	header []string
	want   string // status, code, id
	says   string
}{
	{name: "a foreign origin", body: ping, header: []string{"Origin", "https://evil.example"}, want: `403 error(-32600,null)`, says: "AllowedOrigins"},
	{name: "no type", body: ping, header: []string{"Content-Type", ""}, want: `415 error(-32600,"mine")`, says: "application/json"},
	{name: "another type", body: ping, header: []string{"Content-Type", "text/plain"}, want: `415 error(-32600,"mine")`, says: "application/json"},
	{name: "a body that is too large", body: ping + strings.Repeat(" ", 5000), want: `413 error(-32600,"mine")`, says: "MaxBodyBytes"},
	{name: "its id beyond the limit", body: strings.Repeat(" ", 5000) + ping, want: `413 error(-32600,null)`, says: "MaxBodyBytes"},
	{name: "an Accept of neither", body: ping, header: []string{"Accept", "text/html"}, want: `406 error(-32600,"mine")`, says: "Accept"},
	{name: "initialize without JSON", body: initialize, header: []string{"Accept", "text/event-stream", "Mcp-Session-Id", ""}, want: `406 error(-32600,"mine")`, says: "Accept"},
	{name: "no JSON", body: `{"id":"mine",`, want: `400 error(-32700,"mine")`},
	{name: "nothing", body: " ", want: `400 error(-32700,null)`},
	{name: "no message", body: `{"jsonrpc":"2.0","id":"mine"}`, want: `400 error(-32600,"mine")`},
	{name: "a key twice", body: `{"jsonrpc":"2.0","id":"mine","method":"a","method":"b"}`, want: `400 error(-32600,"mine")`, says: "duplicate"},
	{name: "a key in other case", body: `{"jsonrpc":"2.0","id":"mine","METHOD":"a"}`, want: `400 error(-32600,"mine")`},
	{name: "too deep", body: `{"jsonrpc":"2.0","id":"mine","method":"x","params":` + strings.Repeat(`{"a":`, 300) + `1` + strings.Repeat(`}`, 301), want: `400 error(-32600,"mine")`},
	{name: "an id of null", body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, want: `400 error(-32600,null)`},
	{name: "an unknown version", body: ping, header: []string{"Mcp-Protocol-Version", "2025-01-01"}, want: `400 error(-32600,"mine")`, says: "2025-11-25"},
	{name: "no version at all", body: ping, header: []string{"Mcp-Protocol-Version", "draft"}, want: `400 error(-32600,"mine")`, says: "Mcp-Protocol-Version"},
	{name: "a modern version", body: ping, header: []string{"Mcp-Protocol-Version", "2026-07-28"}, want: `400 error(-32600,"mine")`, says: "Config.Eras"},
	{name: "a later one", body: ping, header: []string{"Mcp-Protocol-Version", "2027-01-01"}, want: `400 error(-32600,"mine")`, says: "Config.Eras"},
	{
		name: "a modern body", body: `{"jsonrpc":"2.0","id":"mine","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		want: `400 error(-32600,"mine")`, says: "Config.Eras",
	},
	{name: "no session", body: ping, header: []string{"Mcp-Session-Id", ""}, want: `400 error(-32600,"mine")`, says: "initialize"},
	{name: "an unknown session", body: ping, header: []string{"Mcp-Session-Id", "nobody"}, want: `404 error(-32001,null)`, says: "initialize"},
	{name: "initialize in its own session", body: initialize, want: `400 error(-32600,"mine")`, says: "DELETE"},
	{name: "a batch in this version", body: "[" + ping + "]", want: `400 error(-32600,null)`, says: "2025-03-26"},
	{name: "a notification to nobody", body: `{"jsonrpc":"2.0","method":"notifications/x"}`, header: []string{"Mcp-Session-Id", "nobody"}, want: `404 error(-32001,null)`},
	{name: "a notification without a session", body: `{"jsonrpc":"2.0","method":"notifications/x"}`, header: []string{"Mcp-Session-Id", ""}, want: `400 error(-32600,null)`},

	{name: "GET of a modern version", method: "GET", header: []string{"Mcp-Protocol-Version", "2026-07-28"}, want: `400 error(-32600,null)`, says: "Config.Eras"},
	{name: "GET of an unknown version", method: "GET", header: []string{"Mcp-Protocol-Version", "x"}, want: `400 error(-32600,null)`},
	{name: "GET without a session", method: "GET", header: []string{"Mcp-Session-Id", ""}, want: `400 error(-32600,null)`},
	{name: "GET of an unknown session", method: "GET", header: []string{"Mcp-Session-Id", "nobody"}, want: `404 error(-32001,null)`},
	{name: "DELETE of an unknown session", method: "DELETE", header: []string{"Mcp-Session-Id", "nobody"}, want: `404 error(-32001,null)`},
	{name: "DELETE without a session", method: "DELETE", header: []string{"Mcp-Session-Id", ""}, want: `400 error(-32600,null)`},
	{name: "DELETE of an unknown version", method: "DELETE", header: []string{"Mcp-Protocol-Version", "x"}, want: `400 error(-32600,null)`},
	{name: "PUT", method: "PUT", want: `405 error(-32600,null)`, says: "GET, POST or DELETE"},
	{name: "OPTIONS", method: "OPTIONS", want: `405 error(-32600,null)`},
	{name: "PATCH", method: "PATCH", body: ping, want: `405 error(-32600,null)`},
}

// Each refusal says what was wrong, with the request's id where there is one: without it the official Go client ends its session.
// Invariant 7: it leaves nothing behind.
func TestRefusalsSayWhyAndLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		opened := 0
		app := &fake{open: func(*http.Request, *rejoin.Session) (rejoin.AppSession, error) {
			opened++
			return &fake{}, nil
		}}
		c := rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{MaxBodyBytes: 4096}})
		before := c.Server().Stats()
		resting := len(goroutines())
		require.Positive(t, resting)
		for _, test := range door {
			method := test.method
			if method == "" {
				method = http.MethodPost
			}
			body, res := whole(t, c.Do(request(t, method, test.body, test.header...)))
			require.Equal(t, test.want, refusal(t, body, res), "%s: %s", test.name, body)
			require.Contains(t, body, test.says, test.name)
			if res.StatusCode == http.StatusMethodNotAllowed {
				require.Equal(t, "GET, POST, DELETE", res.Header.Get("Allow"), test.name)
			}
		}
		elapse(time.Second) // net/http waits a little before it hangs up on a client that is still sending
		after := c.Server().Stats()
		require.EqualValues(t, len(door), after.Refused)
		after.Refused = 0
		require.Equal(t, before, after)
		require.Equal(t, 1, opened, "the app was asked for no session")
		running := goroutines()
		require.LessOrEqual(t, len(running), resting, strings.Join(running, "\n\n"))
		c.Start("ping", nil).Result() // and the session lives
	})
}

// A body whose length is not said is refused in the same way.
func TestATooLargeBodyOfUnknownLength(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, &fake{}, rejointest.Config{Server: rejoin.Config{MaxBodyBytes: 4096}})
		for _, test := range []struct{ body, want string }{
			{ping + strings.Repeat(" ", 5000), `413 error(-32600,"mine")`},
			{ping + strings.Repeat(" ", 4096-len(ping)), "200 result"},
		} {
			req := request(t, http.MethodPost, test.body)
			req.ContentLength = -1
			body, res := whole(t, c.Do(req))
			require.Equal(t, test.want, fmt.Sprintf("%d %s", res.StatusCode, shape(body)))
		}
	})
}

// Two values of a field that names one thing are refused; the same value twice is one.
func TestAmbiguousHeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		c.CallTool("x", nil)
		id := next().Session().ID()
		for _, test := range []struct {
			method, body, name string
			values             []string
			want               string
		}{
			{"POST", ping, "Mcp-Session-Id", []string{id, "other"}, `400 error(-32600,"mine")`},
			{"POST", ping, "Mcp-Session-Id", []string{id, id}, "200 result"},
			{"POST", initialize, "Mcp-Session-Id", []string{id, "other"}, `400 error(-32600,"mine")`},
			{"POST", ping, "Last-Event-Id", []string{"a", "b"}, "200 result"}, // it means nothing there
			{"GET", "", "Mcp-Session-Id", []string{id, "other"}, `400 error(-32600,null)`},
			{"GET", "", "Last-Event-Id", []string{"a", "b"}, `400 error(-32600,null)`},
			{"DELETE", "", "Mcp-Session-Id", []string{id, "other"}, `400 error(-32600,null)`},
		} {
			req := request(t, test.method, test.body)
			req.Header[test.name] = test.values
			body, res := whole(t, c.Do(req))
			require.Equal(t, test.want, fmt.Sprintf("%d %s", res.StatusCode, shape(body)), "%+v", test)
		}
	})
}

// What is accepted although a strict reader might not: another known version than the session's, none, types with parameters.
func TestWhatIsAcceptedToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		app, next := puppets()
		c := rejointest.New(t, app, rejointest.Config{})
		for _, header := range [][]string{
			{"Mcp-Protocol-Version", legacy},
			{"Mcp-Protocol-Version", "2024-11-05"},
			{"Mcp-Protocol-Version", ""},
			{"Content-Type", "Application/JSON; charset=utf-8"},
			{"Accept", ""},
			{"Accept", "*/*"},
			{"Accept", "application/json"},
			{"Last-Event-ID", "nonsense"},
			{"Origin", ""},
		} {
			body, res := post(t, c, ping, header...)
			require.Equal(t, "200 result", fmt.Sprintf("%d %s", res.StatusCode, shape(body)), header)
		}
		body, res := post(t, c, `{"jsonrpc":"2.0","method":"notifications/x"}`, "Accept", "text/html")
		require.Equal(t, http.StatusAccepted, res.StatusCode, "Accept is not looked at where there is no answer: %s", body)
		body, res = post(t, c, `{"jsonrpc":"2.0","id":"nobody.1","result":{}}`, "Accept", "text/html")
		require.Equal(t, http.StatusAccepted, res.StatusCode, "nor are answers that nobody waits for refused: %s", body)

		// The session's rules were agreed on in initialize: a client that polls does so whatever its later headers say.
		res = c.Do(request(t, http.MethodPost, `{"jsonrpc":"2.0","id":"mine","method":"x"}`, "Mcp-Protocol-Version", legacy, "Accept", "text/event-stream"))
		require.True(t, next().Resumable())
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	})
}

// Accept chooses the form of the answer.
func TestAcceptChoosesTheForm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(_ context.Context, h *rejoin.Handle) (any, error) {
			return "done", h.Progress(1, 0, "")
		}), rejointest.Config{})
		const call = `{"jsonrpc":"2.0","id":"mine","method":"x","params":{"_meta":{"progressToken":1}}}`
		body, _ := post(t, c, call, "Accept", "application/json")
		require.Equal(t, "result", shape(body), "progress is dropped where there is no stream")
		body, _ = post(t, c, call, "Accept", "text/event-stream")
		require.Equal(t, "primer@0 1:progress 2:result", events(body))
		body, _ = post(t, c, call)
		require.Equal(t, "primer@0 1:progress 2:result", events(body))
		body, _ = post(t, c, ping, "Accept", "text/event-stream")
		require.Equal(t, "primer@0 1:result", events(body))
	})
}

// A response that the server makes names no session, but that of initialize.
func TestTheSessionIDIsNamedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, &fake{}, rejointest.Config{})
		body, res := post(t, c, initialize, "Mcp-Session-Id", "")
		require.Equal(t, "result", shape(body))
		require.Regexp(t, `^[!-~]{20,}$`, res.Header.Get("Mcp-Session-Id"))
		_, res = post(t, c, ping)
		require.Empty(t, res.Header.Get("Mcp-Session-Id"))
		require.Len(t, sessions(c.Server()), 2)
	})
}

// The id of a request outlives it, so its length is limited.
func TestTheLengthOfAnID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, tool(func(context.Context, *rejoin.Handle) (any, error) { return "done", nil }), rejointest.Config{})
		id := `"` + strings.Repeat("x", 1022) + `"`
		body, res := post(t, c, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Contains(t, body, id)
		body, res = post(t, c, `{"jsonrpc":"2.0","id":"x`+id[1:]+`,"method":"ping"}`)
		require.Equal(t, http.StatusBadRequest, res.StatusCode)
		require.Contains(t, body, `"message":"the id is longer than 1024 bytes"`)
		require.Contains(t, body, id[1:], "it is the id of the refusal all the same")
	})
}
