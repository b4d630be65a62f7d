package load

import (
	"fmt"
	"strconv"
)

// ModernProtocol is the version of the modern requests, which have no session.
const ModernProtocol = "2026-07-28"

// PostModern returns the bytes of a POST of body, a modern request. name is its tool or task, which the head repeats; empty: it has none.
func PostModern(method, name string, body []byte) []byte {
	raw := head("POST", "")
	raw = append(raw, "Content-Type: application/json\r\nMcp-Protocol-Version: "+ModernProtocol+"\r\nMcp-Method: "+method+"\r\n"...)
	if name != "" {
		raw = append(raw, "Mcp-Name: "+name+"\r\n"...)
	}
	raw = append(raw, "Content-Length: "...)
	raw = strconv.AppendInt(raw, int64(len(body)), 10)
	raw = append(raw, "\r\n\r\n"...)
	return append(raw, body...)
}

// CallModern returns the bytes of a modern tools/call. id is also its progress token; arguments is JSON. tasks: the client declares that it takes
// a task in place of the result.
func CallModern(id int, tool, arguments string, tasks bool) []byte {
	return PostModern("tools/call", tool, fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s,"_meta":{%s,"progressToken":%d}}}`,
		id, tool, arguments, meta(tasks), id))
}

// GetTask returns the bytes of a tasks/get.
func GetTask(id int, task string) []byte {
	return PostModern("tasks/get", task, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tasks/get","params":{"taskId":"%s","_meta":{%s}}}`, id, task, meta(true)))
}

// meta is what _meta has in each modern request, without braces.
func meta(tasks bool) string {
	capabilities := `{}`
	if tasks {
		capabilities = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	}
	return `"io.modelcontextprotocol/protocolVersion":"` + ModernProtocol + `","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities
}
