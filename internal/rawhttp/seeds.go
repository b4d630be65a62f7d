package rawhttp

import (
	"embed"
	"path"
	"slices"
	"strings"
)

// recorded is what other clients send to a server that detaches them once. Their tests in conformance write it (-record).
//
//go:embed recorded/*.http
var recorded embed.FS

// Recorded returns the recorded scripts.
func Recorded() (all []string) {
	const folder = "recorded"
	files, _ := recorded.ReadDir(folder) // embedded, so it cannot fail
	for _, f := range files {
		raw, _ := recorded.ReadFile(path.Join(folder, f.Name()))
		all = append(all, string(raw)+"{{later}}")
	}
	return all
}

// Path is the path of all requests of the seeds.
const Path = "/mcp"

// head returns the head of a request without its blank line. header is a list of names and values in turn.
func head(method, session string, header ...string) string {
	var b strings.Builder
	b.WriteString(method + " " + Path + " HTTP/1.1\r\nHost: localhost\r\n")
	if session != "" {
		b.WriteString("Mcp-Session-Id: " + session + "\r\n")
	}
	for pair := range slices.Chunk(header, 2) {
		b.WriteString(strings.Join(pair, ": ") + "\r\n")
	}
	return b.String()
}

// Post returns a POST with its length. header is a list of names and values in turn.
func Post(session, body string, header ...string) string {
	return head("POST", session, header...) + "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {{length}}\r\n\r\n" + body + "{{end}}"
}

// Initialize returns the body of an initialize request. Its client accepts requests from the server.
func Initialize(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{"elicitation":{},"roots":{},"sampling":{}},"clientInfo":{"name":"raw","version":"1"}}}`
}

// call returns the body of a tools/call.
func call(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},"_meta":{"progressToken":"p"}}}`
}

func get(session string, header ...string) string {
	return head("GET", session, header...) + "Accept: text/event-stream\r\n\r\n"
}

func poll() string { return get("{{session}}", "Last-Event-ID", "{{cursor}}") }

func chunked(parts ...string) string {
	var b strings.Builder
	b.WriteString(head("POST", session) + "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, part := range parts {
		b.WriteString(hex(len(part)) + "\r\n" + part + "\r\n")
	}
	return b.String()
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hex(n/16) + digits[n%16:n%16+1]
}

// modern returns a request of version 2026-07-28.
func modern(method, name, params string) string {
	header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
		params = `"name":"` + name + `","arguments":{},` + params
	}
	return Post("", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+
		`"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"m","version":"1"}}}}`, header...)
}

// ofTasks returns a modern request of a client that takes tasks. name is Mcp-Name; params end with a comma.
func ofTasks(method, name, params string) string {
	header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return Post("", `{"jsonrpc":"2.0","id":"t","method":"`+method+`","params":{`+params+
		`"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+
		`{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.modelcontextprotocol/clientInfo":{"name":"m","version":"1"}}}}`, header...)
}

// callWithTasks calls a tool that may become a task, and about asks about it.
func callWithTasks(tool string) string {
	return ofTasks("tools/call", tool, `"name":"`+tool+`","arguments":{},`)
}

func about(method, params string) string {
	return ofTasks("tasks/"+method, "{{task}}", `"taskId":"{{task}}",`+params)
}

const (
	session     = "{{session}}"
	ping        = `{"jsonrpc":"2.0","id":"mine","method":"ping"}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	cancelled   = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
)

// Seeds returns exchanges for a fuzzer to start from: what clients do, and what they should not do.
func Seeds() []string {
	remove := head("DELETE", session) + "\r\n"
	ready := Post("", Initialize("2025-11-25")) + "{{wait}}" + Post(session, initialized, "Mcp-Protocol-Version", "2025-11-25") + "{{wait}}"
	lines := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	return append(Recorded(), []string{
		// whole sessions
		ready + Post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`) + "{{wait}}" + Post(session, call("2", "quick")) + "{{wait}}" + remove,
		ready + get(session) + "{{new}}" + Post(session, call("1", "progress")) + "{{wait}}" + remove,
		ready + Post(session, call("1", "poll")) + "{{later}}" + poll() + "{{wait}}{{new}}" + poll() + "{{wait}}" + remove,
		ready + Post(session, call("1", "poll")) + "{{wait}}{{new}}" + poll() + "{{new}}" + poll() + "{{new}}" + poll() + "{{long}}",
		ready + Post(session, call("1", "ask")) + "{{wait}}{{new}}" + Post(session, `{"jsonrpc":"2.0","id":{{question}},"result":{"action":"accept","content":{"color":"blue"}}}`) + "{{later}}",
		ready + Post(session, call("1", "ask")) + "{{wait}}{{new}}" + Post(session, `{"jsonrpc":"2.0","id":{{question}},"error":{"code":-1,"message":"no"}}`) + "{{later}}" + remove,
		ready + Post(session, call("1", "block")) + "{{wait}}{{new}}" + Post(session, cancelled) + "{{later}}" + Post(session, ping),
		ready + Post(session, call("1", "block")) + "{{later}}{{new}}" + remove + "{{wait}}" + Post(session, ping),
		ready + Post(session, call("1", "block")) + "{{wait}}{{cut}}{{new}}" + get(session) + "{{long}}{{fin}}",
		ready + Post(session, call("1", "poll")) + "{{wait}}{{cut}}{{new}}" + poll() + "{{fin}}{{wait}}{{new}}" + poll(),
		ready + get(session) + "{{wait}}{{freeze}}{{new}}" + Post(session, call("1", "progress")) + "{{long}}{{long}}",
		ready + Post(session, call("1", "quick")) + Post(session, call("1", "quick")) + Post(session, call("2", "fail")) + Post(session, call("3", "nothing")) + "{{later}}",
		// batches, and other versions
		Post("{{batches}}", "["+call("1", "progress")+","+ping+","+initialized+","+call("2", "quick")+"]") + "{{later}}" + Post("{{batches}}", "["+cancelled+"]") + "{{wait}}",
		Post("{{batches}}", "["+call("1", "block")+","+call("2", "ask")+"]") + "{{later}}{{new}}" + Post("{{batches}}", `[{"jsonrpc":"2.0","id":{{question}},"result":{}},`+cancelled+"]") + "{{long}}",
		Post("{{batches}}", "[]") + Post("{{batches}}", "[1]") + Post("{{batches}}", "["+ping+","+ping+"]") + "{{wait}}",
		Post("", Initialize("2025-06-18")) + "{{wait}}" + Post(session, call("1", "poll"), "Mcp-Protocol-Version", "2025-06-18") + "{{later}}" + get(session),
		Post("", Initialize("2024-11-05")) + "{{wait}}" + Post(session, call("1", "progress")) + "{{later}}",
		Post("", Initialize("2026-07-28")) + Post("", Initialize("1999-01-01")) + "{{wait}}" + Post("", "["+Initialize("2025-03-26")+"]"),
		// the modern era
		modern("server/discover", "", "") + "{{wait}}" + modern("tools/list", "", "") + "{{wait}}" + modern("tools/call", "quick", "") + "{{wait}}" + modern("ping", "", ""),
		modern("tools/call", "progress", "") + "{{later}}" + modern("tools/call", "nothing", "") + "{{wait}}" + modern("nothing", "", ""),
		modern("tools/call", "block", "") + "{{later}}{{cut}}{{new}}" + modern("tools/call", "block", "") + "{{long}}{{fin}}{{new}}" + modern("tools/call", "block", "") + "{{long}}{", // net/http does not see that a client has gone if more bytes are waiting
		modern("tools/call", "ask", "") + "{{later}}{{new}}" + modern("tools/call", "poll", "") + "{{later}}",
		modern("subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`) + "{{long}}{{new}}" + get("", "Mcp-Protocol-Version", "2026-07-28") + remove,
		strings.Replace(modern("notifications/cancelled", "", `"requestId":1,`), "Method: notifications", "Method: other", 1) + strings.Replace(modern("tools/list", "", ""), "Method: tools", "Method: other", 1),
		strings.Replace(modern("notifications/cancelled", "", `"requestId":1,`), `"id":1,`, "", 1) + "{{wait}}" + strings.Replace(modern("notifications/x", "", ""), `"id":1,"method":"n`, `"method":"N`, 1),
		modern("notifications/cancelled", "", `"requestId":1,`) + "{{wait}}" + Post("", ping, "Mcp-Protocol-Version", "2026-07-28") + Post("", "["+ping+"]", "Mcp-Protocol-Version", "2026-07-28") + Post("", ping, "Mcp-Protocol-Version", "2999-01-01"),
		// tasks
		callWithTasks("block") + "{{later}}" + about("get", "") + "{{wait}}" + about("cancel", "") + "{{wait}}" + about("get", "") + about("cancel", "") + "{{wait}}",
		callWithTasks("poll") + "{{later}}" + about("get", "") + "{{later}}{{later}}" + about("get", "") + "{{wait}}" + about("list", "") + ofTasks("tasks/get", "x", `"taskId":"x",`),
		callWithTasks("ask") + "{{later}}" + about("get", "") + "{{wait}}" + about("update", `"inputResponses":{"q1":{"action":"accept"},"r1.a":{"action":"accept"}},`) +
			"{{wait}}" + about("update", `"inputResponses":{"q1":{"action":"decline"}},`) + about("get", "") + "{{wait}}",
		callWithTasks("progress") + callWithTasks("quick") + callWithTasks("nothing") + "{{later}}" + callWithTasks("fail") + callWithTasks("block") + "{{later}}{{long}}{{later}}" + about("get", ""),
		callWithTasks("block") + "{{later}}{{new}}" + ofTasks("subscriptions/listen", "", `"notifications":{"taskIds":["{{task}}","x"]},`) + "{{wait}}{{new}}" + about("cancel", "") + "{{later}}",
		callWithTasks("poll") + "{{later}}{{new}}" + ofTasks("subscriptions/listen", "", `"notifications":{"toolsListChanged":true,"taskIds":["{{task}}"]},`) + "{{long}}{{cut}}{{new}}" + about("get", ""),
		callWithTasks("block") + "{{wait}}{{cut}}{{new}}" + callWithTasks("block") + "{{later}}{{cut}}{{new}}" + callWithTasks("block") + "{{freeze}}{{later}}{{new}}" + about("get", "") + "{{long}}",
		ofTasks("server/discover", "", "") + "{{wait}}" + about("get", "") + about("update", "") + about("update", `"inputResponses":[],`) + ofTasks("tasks/result", "", "") + "{{wait}}" +
			modern("tasks/get", "", `"taskId":"{{task}}",`) + ofTasks("subscriptions/listen", "", `"notifications":{"taskIds":1},`) + "{{wait}}",
		// how HTTP can be written
		chunked(ping[:10], ping[10:], "") + "{{wait}}" + chunked(call("1", "quick")) + "0;x=y\r\nX-Trailer: 1\r\nContent-Length: 9\r\n\r\n{{wait}}" + Post(session, ping),
		Post(session, ping, "Expect", "100-continue") + "{{wait}}" + Post(session, ping, "Expect", "something") + Post(session, ping),
		head("POST", session, "Expect", "100-continue", "Content-Type", "text/plain", "Content-Length", "100") + "\r\n{{wait}}",
		head("T", session, "Expect", "something", "Content-Length", "100") + "\r\n{{wait}}",
		head("T", session, "Expect", "100-continue", "Content-Length", "100") + "\r\n{{wait}}", // net/http has answered and waits for the body
		strings.Replace(Post(session, ping), " /mcp ", " http://localhost/mcp?a=b ", 1) + strings.Replace(Post(session, ping), "localhost", "evil.example", 1) + "{{wait}}",
		strings.Replace(Post(session, call("1", "progress"), "Connection", "keep-alive"), "HTTP/1.1", "HTTP/1.0", 1) + "{{later}}" + Post(session, ping),
		strings.Replace(get(session), "HTTP/1.1", "HTTP/1.0", 1) + "{{long}}",
		Post(session, ping) + Post(session, ping) + get(session) + Post(session, ping) + remove + "{{long}}",
		strings.ReplaceAll(Post(session, ping, "X-Folded", "a\r\n b"), "\r\n", "\n") + Post(session, ping),
		Post(session, ping, "Transfer-Encoding", "chunked") + "{{wait}}{{new}}" + Post(session, ping, "Transfer-Encoding", "gzip, chunked") + "{{new}}" + Post(session, ping, "Content-Length", "3"),
		Post(session, ping, "Mcp-Session-Id", "{{session}}", "Mcp-Protocol-Version", "2025-11-25, 2025-11-25", "Accept", "text/html;q=0", "Origin", "http://localhost"),
		Post(session, ping, "Mcp-Session-Id", "x", "Origin", "null") + get(session, "Last-Event-ID", "a", "Last-Event-ID", "b") + "{{wait}}",
		Post(session, ping, "X-Big", "{{fill}}") + "{{wait}}{{new}}" + Post(session, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"{{fill}}{{fill}}"}}`) + Post(session, ping),
		head("POST", session, "Content-Type", "application/json", "Content-Length", "100") + "\r\n" + ping + "{{long}}{{fin}}{{wait}}",
		head("POST", session, "Content-Type", "application/json", "Content-Length", "100") + "\r\n" + ping + "{{new}}" + head("POST", session)[:40] + "{{long}}{{cut}}",
		chunked(ping) + "{{long}}{{new}}" + chunked(ping) + "ffffffffffffffffff\r\n{{wait}}{{new}}" + chunked(ping) + "zz\r\n",
		Post(session, ping, "Content-Encoding", "gzip") + Post(session, ping, "Accept", "text/event-stream") + Post("", Initialize("2025-11-25"), "Connection", "close, upgrade", "Upgrade", "h2c"),
		lines("PUT /mcp HTTP/1.1\nHost: localhost\n\nHEAD /mcp HTTP/1.1\nHost: localhost\n\nOPTIONS * HTTP/1.1\nHost: localhost\n\nTRACE / HTTP/1.1\nHost: localhost\n\n"),
		lines("CONNECT localhost:80 HTTP/1.1\nHost: localhost\n\nGET /elsewhere HTTP/1.1\n\n"),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET\r\n\r\n", "\r\n\r\n" + Post("", ping),
		get(session, "Last-Event-ID", "garbage") + get(session, "Last-Event-ID", "AAAAAAAAAAAAAAAAAAAAAA.0") + get(session, "Last-Event-ID", "{{cursor}}9") + "{{wait}}",
		Post(session, "{") + Post(session, "") + Post(session, `{"jsonrpc":"2.0","id":null,"method":"x"}`) + Post(session, `{"jsonrpc":"2.0","id":1.5e3,"method":"x"}`) + Post(session, "\xef\xbb\xbf"+ping),
		Post(session, `{"jsonrpc":"2.0","id":"\u0061","method":"resources/read","params":{"uri":"a:\u0000"}}`) + Post(session, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`) + "{{wait}}" + Post(session, call("3", "log")) + "{{later}}",
	}...)
}
