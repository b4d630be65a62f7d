package sse

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

const (
	// messageName is the event field of events with data. By the standard it is
	// not needed, since an event without a name is a message too. But some
	// deployed clients compare the name, and drop events without one.
	messageName = "event: message\n"
	// primerName is the event field of a primer: it has none, as tests with real
	// clients showed. With the name message, its empty data is a parse error in
	// some clients; with any other name, Python's clients log a warning for each
	// primer. A primer needs its data line: without one, parsers drop the id too.
	primerName = ""
)

// AppendEvent appends one event named message to dst. If id is nil or empty, it
// writes no id line, and a client's cursor stays where it was.
//
// Data with line breaks (\n, \r or \r\n) becomes several data lines, which a
// client joins with \n. In JSON text an unescaped line break is white space, so
// the value stays the same.
//
// It panics if id holds a control byte.
func AppendEvent(dst, id, data []byte) []byte {
	dst = appendHead(dst, messageName, id)
	// Almost every message is one line, and two calls of IndexByte are many times
	// faster than IndexAny.
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		dst = appendDataLine(dst, data)
		return append(dst, '\n')
	}
	for more := true; more; {
		var line []byte
		line, data, more = cutLine(data)
		dst = appendDataLine(dst, line)
	}
	return append(dst, '\n')
}

// AppendPrimer appends an event with empty data. It gives a client a cursor, and
// the time to wait before it reconnects, before there is a message. If id is nil
// or empty, it writes no id line. retry is written as by AppendRetry.
//
// It panics if id holds a control byte.
func AppendPrimer(dst, id []byte, retry time.Duration) []byte {
	dst = appendHead(dst, primerName, id)
	dst = appendRetryLine(dst, retry)
	return append(dst, "data: \n\n"...)
}

// AppendRetry appends a block that only tells a client how long to wait before
// it reconnects: in whole milliseconds, rounded up, at least 1. It has no data,
// so by the standard it is not a message.
func AppendRetry(dst []byte, retry time.Duration) []byte {
	return append(appendRetryLine(dst, retry), '\n')
}

// AppendComment appends a comment in a block of its own. By the standard it is
// not an event.
func AppendComment(dst []byte) []byte {
	return append(dst, ": \n\n"...)
}

// appendHead appends name, which is a whole line or empty, and the line of the id.
func appendHead(dst []byte, name string, id []byte) []byte {
	for _, c := range id {
		if c < 0x20 || c == 0x7f {
			// Printing id itself instead of a copy would move the caller's
			// bytes to the heap, also if id is valid.
			panic(fmt.Sprintf("sse: control byte 0x%02x in event id %q", c, string(id)))
		}
	}
	dst = append(dst, name...)
	if len(id) == 0 {
		return dst
	}
	dst = append(dst, "id: "...)
	dst = append(dst, id...)
	return append(dst, '\n')
}

func appendRetryLine(dst []byte, retry time.Duration) []byte {
	// Rounded down, 0.4 ms would become 0, and a client would come back in a
	// busy loop. Adding before dividing could overflow.
	ms := int64(retry / time.Millisecond)
	if retry%time.Millisecond > 0 {
		ms++
	}
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, max(ms, 1), 10)
	return append(dst, '\n')
}

func appendDataLine(dst, line []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, line...)
	return append(dst, '\n')
}

// cutLine splits data at its first line break. more reports whether there was
// one: then rest is another line, which may be empty.
func cutLine(data []byte) (line, rest []byte, more bool) {
	i := bytes.IndexAny(data, "\r\n")
	if i < 0 {
		return data, nil, false
	}
	if bytes.HasPrefix(data[i:], []byte("\r\n")) {
		return data[:i], data[i+2:], true
	}
	return data[:i], data[i+1:], true
}
