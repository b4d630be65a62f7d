package rejoin

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/door"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	metaPrefix         = "io.modelcontextprotocol/"
	metaServerInfo     = metaPrefix + "serverInfo"
	metaSubscriptionID = metaPrefix + "subscriptionId"
	tasksExtension     = metaPrefix + "tasks"
	methodListen       = "subscriptions/listen"
	methodHeader       = "Mcp-Method"
	nameHeader         = "Mcp-Name"
)

// checkModernMeta checks what the modern era requires of each request: its version, its method and name in header and body, and the client's
// capabilities (SEP-2575, SEP-2243).
func checkModernMeta(srv *Server, h http.Header, m *jsonrpc.Message) *Error {
	version, _ := door.Single(h[versionHeader])
	raw, _ := jsonrpc.Field(m.Params, "_meta", metaPrefix+"protocolVersion")
	declared, isString := jsonrpc.Unquote(raw)
	switch {
	case version == "":
		return Errorf(codeHeader, "%s is missing", versionHeader)
	case !isString:
		return Errorf(CodeInvalidParams, "params._meta needs %sprotocolVersion, a string", metaPrefix)
	case declared != version:
		return Errorf(codeHeader, "%s differs from the version in params._meta", versionHeader)
	case version != core.FirstModern:
		return &Error{Code: codeVersion, Message: unknownVersion, Data: json.RawMessage(srv.unknownVersionData(version))}
	}
	switch string(m.Method) {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return Errorf(CodeMethodNotFound, "version %s has no method %q", core.FirstModern, m.Method)
	}
	if e := checkModernNames(h, m); e != nil {
		return e
	}
	if !isObject(modernCapabilitiesOf(m.Params)) {
		return Errorf(CodeInvalidParams, "params._meta needs %sclientCapabilities, an object", metaPrefix)
	}
	return nil
}

// checkModernNames compares the method and the name in the header with those in the body.
func checkModernNames(h http.Header, m *jsonrpc.Message) *Error {
	if e := checkModernHeader(h, methodHeader, string(m.Method)); e != nil {
		return e
	}
	var field string
	switch string(m.Method) {
	case "tools/call", "prompts/get":
		field = "name"
	case "resources/read":
		field = "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		field = "taskId"
	default:
		return nil
	}
	raw, _ := jsonrpc.Field(m.Params, field)
	name, ok := jsonrpc.Unquote(raw)
	if !ok {
		return Errorf(CodeInvalidParams, "params needs a %s, a string", field)
	}
	return checkModernHeader(h, nameHeader, name)
}

// checkModernHeader checks that all lines of a header field have one value. A name may be encoded as =?base64?…?=.
func checkModernHeader(h http.Header, field, want string) *Error {
	lines := h[field]
	if len(lines) == 0 {
		return Errorf(codeHeader, "%s is missing", field)
	}
	for _, value := range lines {
		value = strings.Trim(value, " \t")
		if field == nameHeader {
			var ok bool
			if value, ok = door.DecodeHeader(value); !ok {
				return Errorf(codeHeader, "%s is not valid base64", field)
			}
		}
		if value != want {
			return Errorf(codeHeader, "%s differs from the body", field)
		}
	}
	return nil
}

// modernCapabilitiesOf returns the capabilities that the client declares in a modern request, as JSON.
func modernCapabilitiesOf(params []byte) []byte {
	capabilities, _ := jsonrpc.Field(params, "_meta", metaPrefix+"clientCapabilities")
	return capabilities
}

// declaresTasks reports whether the client of a modern request can be given a task. A request says so for itself alone (tasks, "negotiation").
// By the specification the value is {}, and extensions have objects for their settings. So any object counts: a client with settings that this
// server does not know still takes tasks. Any other value says nothing.
func declaresTasks(m *jsonrpc.Message) bool {
	extension, _ := jsonrpc.Field(modernCapabilitiesOf(m.Params), "extensions", tasksExtension)
	return isObject(extension)
}
