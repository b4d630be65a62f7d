package sse_test

import (
	"bytes"
	"io"
	"math/big"
	"time"

	"github.com/rejoin-mcp/rejoin/internal/sse"
)

// splitLines splits s by the line ends of the standard; there is one more line
// than there are ends.
func splitLines(s []byte) [][]byte {
	s = bytes.ReplaceAll(s, []byte("\r\n"), []byte("\n"))
	s = bytes.ReplaceAll(s, []byte("\r"), []byte("\n"))
	return bytes.Split(s, []byte("\n"))
}

// reference interprets a whole stream, step by step as the standard's text has
// it, with the deviations that the package documents. It shares no code with
// Reader.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
func reference(stream []byte, max int) outcome {
	var o outcome

	// "The UTF-8 decode algorithm strips one leading UTF-8 Byte Order Mark."
	if bytes.HasPrefix(stream, []byte{0xEF, 0xBB, 0xBF}) {
		stream = stream[3:]
	}

	var (
		dataBuffer, eventType, lastEventID []byte
		sawID, sawData, sawField, inside   bool
		retry                              time.Duration = -1
	)
	process := func(field string, value []byte) {
		switch field {
		case "event":
			eventType, sawField = value, true
		case "data":
			dataBuffer = append(append([]byte{}, dataBuffer...), value...)
			dataBuffer = append(dataBuffer, '\n')
			sawData, sawField = true, true
		case "id":
			if !bytes.Contains(value, []byte{0}) {
				lastEventID, sawID, sawField = value, true, true
			}
		case "retry":
			for _, c := range value {
				if !bytes.Contains([]byte("0123456789"), []byte{c}) {
					return
				}
			}
			n, ok := new(big.Int).SetString(string(value), 10)
			if !ok {
				return // empty
			}
			retry, sawField = sse.MaxRetry, true
			if n.Cmp(big.NewInt(sse.MaxRetry.Milliseconds())) < 0 {
				retry = time.Duration(n.Int64()) * time.Millisecond
			}
		}
	}

	lines := splitLines(stream)
	for i, line := range lines {
		unfinished := i == len(lines)-1
		size := len(eventType) + len(lastEventID) + len(line)
		if sawData {
			size += len(dataBuffer) - 1
		}
		if size > max {
			o.err = sse.ErrTooLarge
			return o
		}
		if unfinished {
			inside = inside || len(line) > 0
			break
		}

		colon := bytes.IndexByte(line, ':')
		switch {
		case len(line) == 0:
			if sawField {
				ev := sse.Event{ID: string(lastEventID), HasID: sawID, Name: string(eventType), HasData: sawData, Retry: retry}
				if sawData {
					// "If the data buffer's last character is a U+000A LINE
					// FEED (LF) character, then remove the last character."
					ev.Data = dataBuffer[:len(dataBuffer)-1]
				}
				o.events = append(o.events, ev)
			}
			dataBuffer, eventType, lastEventID = nil, nil, nil
			sawID, sawData, sawField, inside = false, false, false, false
			retry = -1
			continue
		case colon == 0:
			o.comments++
		case colon > 0:
			value := line[colon+1:]
			if len(value) > 0 && value[0] == ' ' {
				value = value[1:]
			}
			process(string(line[:colon]), value)
		default:
			process(string(line), nil)
		}
		inside = true
	}

	o.err = io.EOF
	if inside {
		o.err = io.ErrUnexpectedEOF
	}
	return o
}
