// Package bounds has what both bridges bound of what a client can make a session of an SDK's hold. What holds for all apps rejoin bounds itself.
package bounds

import (
	"bytes"
	"net/http"

	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const (
	// Notes is how many notifications of a session may wait for their handlers, which run one by one.
	Notes = 1024
	// NoteBytes is how large those may be, with their headers. The last one may exceed it.
	NoteBytes = 4 << 20
	// URIs is how many resources a session may be subscribed to.
	URIs = 1000
	// URIBytes bounds the URI of each.
	URIBytes = 8 << 10
	// Level bounds the name of a log level.
	Level = 64
	// OpeningBytes bounds the params of initialize that an SDK gets, and keeps: see Opening.
	OpeningBytes = 8 << 10
	// OpeningParts bounds the values in them, about: each takes some hundred bytes of the memory, however short it is.
	OpeningParts = 256
)

// Messages of the errors that clients get.
const (
	TooManyURIs = "a session can be subscribed to 1,000 resources: unsubscribe from some first"
	LongURI     = "the uri is longer than 8 KiB"
)

// NoteSize is about what a notification keeps while it waits.
func NoteSize(message []byte, header http.Header) int {
	n := len(message)
	for name, values := range header {
		for _, v := range values {
			n += len(name) + len(v) + 64
		}
	}
	return n
}

// Opening is the params of initialize for an SDK, which decodes all that is in them into a multiple of its size, and keeps it as long as the
// session. Where they are large it gets the version and what rejoin keeps of the client: clientInfo and capabilities, each nil if there is none.
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

// large reports whether JSON is, or has many values: each but the first is behind one of these bytes.
func large(v []byte) bool {
	return len(v) > OpeningBytes || bytes.Count(v, []byte{','})+bytes.Count(v, []byte{'{'})+bytes.Count(v, []byte{'['}) > OpeningParts
}

// appendMember appends a member to an object that is not complete, unless it has no value.
func appendMember(object []byte, name string, v []byte) []byte {
	if len(v) == 0 {
		return object
	}
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(append(object, '"'), name+`":`...), v...)
}
