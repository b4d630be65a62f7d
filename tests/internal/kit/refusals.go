package kit

import "strings"

// Refusals are requests that the transport refuses, with the answers. Header has names and values in turn; the value "" leaves a field out.
var Refusals = []struct {
	Name   string
	Method string // of HTTP; "": POST
	Body   string
	Header []string
	Want   string // as Refusal returns it
	Says   string // what the message must contain
}{
	{Name: "a foreign origin", Body: Ping, Header: []string{"Origin", "https://evil.example"}, Want: `403 error(-32600,null)`, Says: "AllowedOrigins"},
	{Name: "no type", Body: Ping, Header: []string{"Content-Type", ""}, Want: `415 error(-32600,"mine")`, Says: "application/json"},
	{Name: "another type", Body: Ping, Header: []string{"Content-Type", "text/plain"}, Want: `415 error(-32600,"mine")`, Says: "application/json"},
	{Name: "a body that is too large", Body: Ping + strings.Repeat(" ", 5000), Want: `413 error(-32600,"mine")`, Says: "MaxBodyBytes"},
	{Name: "its id beyond the limit", Body: strings.Repeat(" ", 5000) + Ping, Want: `413 error(-32600,null)`, Says: "MaxBodyBytes"},
	{Name: "an Accept of neither", Body: Ping, Header: []string{"Accept", "text/html"}, Want: `406 error(-32600,"mine")`, Says: "Accept"},
	{Name: "initialize without JSON", Body: Initialize, Header: []string{"Accept", "text/event-stream", "Mcp-Session-Id", ""}, Want: `406 error(-32600,"mine")`, Says: "Accept"},
	{Name: "no JSON", Body: `{"id":"mine",`, Want: `400 error(-32700,"mine")`},
	{Name: "nothing", Body: " ", Want: `400 error(-32700,null)`},
	{Name: "no message", Body: `{"jsonrpc":"2.0","id":"mine"}`, Want: `400 error(-32600,"mine")`},
	{Name: "a key twice", Body: `{"jsonrpc":"2.0","id":"mine","method":"a","method":"b"}`, Want: `400 error(-32600,"mine")`, Says: "duplicate"},
	{Name: "a key in other case", Body: `{"jsonrpc":"2.0","id":"mine","METHOD":"a"}`, Want: `400 error(-32600,"mine")`},
	{Name: "too deep", Body: `{"jsonrpc":"2.0","id":"mine","method":"x","params":` + strings.Repeat(`{"a":`, 300) + `1` + strings.Repeat(`}`, 301), Want: `400 error(-32600,"mine")`},
	{Name: "an id of null", Body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, Want: `400 error(-32600,null)`},
	{Name: "an unknown version", Body: Ping, Header: []string{"Mcp-Protocol-Version", "2025-01-01"}, Want: `400 error(-32600,"mine")`, Says: "2025-11-25"},
	{Name: "no version at all", Body: Ping, Header: []string{"Mcp-Protocol-Version", "draft"}, Want: `400 error(-32600,"mine")`, Says: "Mcp-Protocol-Version"},
	{Name: "a modern version", Body: Ping, Header: []string{"Mcp-Protocol-Version", "2026-07-28"}, Want: `400 error(-32600,"mine")`, Says: "Config.Eras"},
	{Name: "a later one", Body: Ping, Header: []string{"Mcp-Protocol-Version", "2027-01-01"}, Want: `400 error(-32600,"mine")`, Says: "Config.Eras"},
	{
		Name: "a modern body", Body: `{"jsonrpc":"2.0","id":"mine","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		Want: `400 error(-32600,"mine")`, Says: "Config.Eras",
	},
	{Name: "no session", Body: Ping, Header: []string{"Mcp-Session-Id", ""}, Want: `400 error(-32600,"mine")`, Says: "initialize"},
	{Name: "an unknown session", Body: Ping, Header: []string{"Mcp-Session-Id", "nobody"}, Want: `404 error(-32001,null)`, Says: "initialize"},
	{Name: "initialize in its own session", Body: Initialize, Want: `400 error(-32600,"mine")`, Says: "DELETE"},
	{Name: "a batch in this version", Body: "[" + Ping + "]", Want: `400 error(-32600,null)`, Says: "2025-03-26"},
	{Name: "a notification to nobody", Body: `{"jsonrpc":"2.0","method":"notifications/x"}`, Header: []string{"Mcp-Session-Id", "nobody"}, Want: `404 error(-32001,null)`},
	{Name: "a notification without a session", Body: `{"jsonrpc":"2.0","method":"notifications/x"}`, Header: []string{"Mcp-Session-Id", ""}, Want: `400 error(-32600,null)`},

	{Name: "GET of a modern version", Method: "GET", Header: []string{"Mcp-Protocol-Version", "2026-07-28"}, Want: `400 error(-32600,null)`, Says: "Config.Eras"},
	{Name: "GET of an unknown version", Method: "GET", Header: []string{"Mcp-Protocol-Version", "x"}, Want: `400 error(-32600,null)`},
	{Name: "GET without a session", Method: "GET", Header: []string{"Mcp-Session-Id", ""}, Want: `400 error(-32600,null)`},
	{Name: "GET of an unknown session", Method: "GET", Header: []string{"Mcp-Session-Id", "nobody"}, Want: `404 error(-32001,null)`},
	{Name: "DELETE of an unknown session", Method: "DELETE", Header: []string{"Mcp-Session-Id", "nobody"}, Want: `404 error(-32001,null)`},
	{Name: "DELETE without a session", Method: "DELETE", Header: []string{"Mcp-Session-Id", ""}, Want: `400 error(-32600,null)`},
	{Name: "DELETE of an unknown version", Method: "DELETE", Header: []string{"Mcp-Protocol-Version", "x"}, Want: `400 error(-32600,null)`},
	{Name: "PUT", Method: "PUT", Want: `405 error(-32600,null)`, Says: "GET, POST or DELETE"},
	{Name: "OPTIONS", Method: "OPTIONS", Want: `405 error(-32600,null)`},
	{Name: "PATCH", Method: "PATCH", Body: Ping, Want: `405 error(-32600,null)`},
}
