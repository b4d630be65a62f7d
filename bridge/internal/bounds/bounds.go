// Package bounds has the limits of both bridges for what a client can store in a session of an SDK. rejoin itself has the limits for all apps.
package bounds

import (
	"bytes"
	"net/http"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	// Notes is how many notifications of a session may wait for their handlers, which run one by one.
	Notes = 1024
	// NoteBytes bounds their total size, with their headers. The last one may exceed it.
	NoteBytes = 4 << 20
	// URIs is how many resources a session may be subscribed to.
	URIs = 1000
	// URIBytes bounds the URI of each.
	URIBytes = 8 << 10
	// Level bounds the name of a log level.
	Level = 64
	// OpeningBytes bounds the params of initialize that an SDK gets and keeps: see Opening.
	OpeningBytes = 8 << 10
	// OpeningParts bounds the number of values in them, approximately. Each value takes some hundred bytes of memory, even a short one.
	OpeningParts = 256
)

// Messages of errors that clients get.
const (
	TooManyURIs = "a session can be subscribed to 1,000 resources: unsubscribe from some first"
	LongURI     = "the uri is longer than 8 KiB"
)

// NoteSize returns approximately the bytes that a waiting notification keeps.
func NoteSize(message []byte, header http.Header) int {
	n := len(message)
	for name, values := range header {
		for _, v := range values {
			n += len(name) + len(v) + 64
		}
	}
	return n
}

// Opening returns the params of initialize for an SDK. An SDK decodes all of them, which takes a multiple of their size, and keeps them as long as
// the session. If they are large, the SDK gets only the version, and the clientInfo and capabilities that rejoin keeps. These are nil if there are
// none. If clientInfo is large too, the SDK gets only name, title and version of it.
func Opening(params, clientInfo, capabilities []byte) []byte {
	if !large(params) {
		return params
	}
	version, _ := jsonrpc.Field(params, "protocolVersion")
	out := appendMember([]byte{'{'}, "protocolVersion", version)
	out = appendMember(out, "capabilities", capabilities)
	if !large(clientInfo) {
		return append(appendMember(out, "clientInfo", clientInfo), '}')
	}
	client := []byte{'{'}
	for _, name := range []string{"name", "title", "version"} {
		if v, _ := jsonrpc.Field(clientInfo, name); len(v) > 0 && v[0] == '"' {
			client = appendMember(client, name, v)
		}
	}
	return append(appendMember(out, "clientInfo", append(client, '}')), '}')
}

// large reports whether JSON is large or has many values. Each value but the first follows one of the counted bytes.
func large(v []byte) bool {
	return len(v) > OpeningBytes || bytes.Count(v, []byte{','})+bytes.Count(v, []byte{'{'})+bytes.Count(v, []byte{'['}) > OpeningParts
}

// appendMember appends a member to an incomplete object, if v is not empty.
func appendMember(object []byte, name string, v []byte) []byte {
	if len(v) == 0 {
		return object
	}
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(append(object, '"'), name+`":`...), v...)
}
