package jsonrpc

import "strconv"

// The Append functions write a message to dst. Raw values (id, result, data, params) are copied as they are: whether they are
// valid JSON is for the caller to know.

const head = `{"jsonrpc":"2.0"`

// AppendResult appends a response with a result. No id is written as null, no result as {}.
func AppendResult(dst, id, result []byte) []byte {
	dst = append(dst, head...)
	dst = appendID(dst, id)
	dst = append(dst, `,"result":`...)
	if len(result) == 0 {
		return append(dst, "{}}"...)
	}
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends a response with an error. No id is written as null; no data, not at all.
func AppendError(dst, id []byte, code int, msg string, data []byte) []byte {
	dst = append(dst, head...)
	dst = appendID(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, msg)
	if len(data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, data...)
	}
	return append(dst, "}}"...)
}

// AppendRequest appends a request or, without an id, a notification. No params are not written at all.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(dst, head...)
	if len(id) > 0 {
		dst = appendID(dst, id)
	}
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
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
