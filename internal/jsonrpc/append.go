package jsonrpc

import (
	"bytes"
	"strconv"
)

// The Append functions append a message to dst. Raw values (id, result, data, params) are copied; the caller must make sure that they are
// valid JSON. The Unicode line breaks that JSON allows in a string (U+0085, U+2028 and U+2029) are written as escapes, which mean the same,
// because some clients take them for the end of a line in an event stream. An id is never changed.

const head = `{"jsonrpc":"2.0"`

// AppendResult appends a response with a result. An empty id is written as null, an empty result as {}.
func AppendResult(dst, id, result []byte) []byte {
	dst = append(dst, head...)
	dst = appendID(dst, id)
	dst = append(dst, `,"result":`...)
	if len(result) == 0 {
		return append(dst, "{}}"...)
	}
	dst = appendRaw(dst, result)
	return append(dst, '}')
}

// AppendError appends a response with an error. An empty id is written as null. Empty data is left out.
func AppendError(dst, id []byte, code int, msg string, data []byte) []byte {
	dst = append(dst, head...)
	dst = appendID(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, msg)
	if len(data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = appendRaw(dst, data)
	}
	return append(dst, "}}"...)
}

// AppendRequest appends a request or, if id is empty, a notification. Empty params are left out.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(dst, head...)
	if len(id) > 0 {
		dst = appendID(dst, id)
	}
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = appendRaw(dst, params)
	}
	return append(dst, '}')
}

func appendID(dst, id []byte) []byte {
	dst = append(dst, `,"id":`...)
	if len(id) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}

var lineBreaks = [...][]byte{[]byte("\u0085"), []byte("\u2028"), []byte("\u2029")}

// appendRaw appends JSON with its Unicode line breaks escaped. In JSON they occur only in strings, and never after a backslash.
func appendRaw(dst, raw []byte) []byte {
	if !bytes.Contains(raw, lineBreaks[0]) && !bytes.Contains(raw, lineBreaks[1]) && !bytes.Contains(raw, lineBreaks[2]) {
		return append(dst, raw...) // nearly always, and far faster than the loop
	}
	from := 0
	for i := range raw {
		if raw[i] != 0xC2 && raw[i] != 0xE2 {
			continue
		}
		for k, text := range lineBreaks {
			if bytes.HasPrefix(raw[i:], text) {
				dst = append(append(dst, raw[from:i]...), escapedBreaks[k]...)
				from = i + len(text)
			}
		}
	}
	return append(dst, raw[from:]...)
}

var escapedBreaks = [...]string{`\u0085`, `\u2028`, `\u2029`}
