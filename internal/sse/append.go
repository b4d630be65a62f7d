package sse

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

const (
	// messageName is the event field of what carries data. By the standard it
	// says nothing, as an event without a name is a message too; but deployed
	// clients compare the name, and drop what has none.
	messageName = "event: message\n"
	// primerName is the event field of a primer: none, as measured with real
	// clients. With any other name Python's clients log a warning for each
	// primer; named message, its empty data is a parse error to others. And it
	// needs its data line, without which parsers drop the id as well.
	primerName = ""
)

// AppendEvent appends one event named message to dst. Without an id (nil or
// empty) it has no id line: a client's cursor stays where it was.
//
// Data with line breaks (\n, \r or \r\n) becomes several data lines, which a
// client joins by \n again. In JSON text an unescaped line break is white
// space, so the value is the same.
//
// It panics if id holds a control byte.
func AppendEvent(dst, id, data []byte) []byte {
	dst = appendHead(dst, messageName, id)
	// Almost every message is one line, and IndexByte is many times faster than
	// the search for either byte.
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

// AppendPrimer appends an event with empty data: it gives a client a cursor and
// the time to wait before it reconnects, before there is a message. Without an
// id (nil or empty) it has no id line. The unit of retry is as in AppendRetry.
//
// It panics if id holds a control byte.
func AppendPrimer(dst, id []byte, retry time.Duration) []byte {
	dst = appendHead(dst, primerName, id)
	dst = appendRetryLine(dst, retry)
	return append(dst, "data: \n\n"...)
}

// AppendRetry appends a block that only tells how long a client shall wait
// before it reconnects: in whole milliseconds, rounded up, at least 1.
// It has no data, so by the standard it is no message.
func AppendRetry(dst []byte, retry time.Duration) []byte {
	return append(appendRetryLine(dst, retry), '\n')
}

// AppendComment appends a comment in a block of its own: by the standard, no
// event.
func AppendComment(dst []byte) []byte {
	return append(dst, ": \n\n"...)
}

// appendHead appends the lines of the name, which ends its line, and the id.
func appendHead(dst []byte, name string, id []byte) []byte {
	for _, c := range id {
		if c < 0x20 || c == 0x7f {
			// A copy of id is printed: printing id itself would move the
			// caller's bytes to the heap, on the good path too.
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
	// Rounded down, 0.4 ms would become 0, which lets a client come back in a
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

// cutLine splits data at its first line break; more tells if there was one,
// that is, if rest is another line, possibly an empty one.
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
