package sse

import "bytes"

// Splitter finds the events in a stream that is written piece by piece. It reads as a Reader does, with two differences: it starts no search
// for a byte order mark, and it returns only events with data. The zero value is ready, and has no limit but Max.
type Splitter struct {
	// Max is the most bytes that one block may have. Not positive: any.
	Max int

	pending []byte // an unfinished block
}

// Write takes the next piece, and calls each with the data of every event that it completes. each may keep the data. ErrTooLarge: a block has more
// than Max bytes. It is lost, and the Splitter must not be used any more.
func (s *Splitter) Write(piece []byte, each func(data []byte)) error {
	from := max(0, len(s.pending)-3) // a blank line may have begun there: the ends of two lines have at most four bytes
	rest := piece
	if len(s.pending) > 0 {
		s.pending = append(s.pending, piece...)
		rest = s.pending
	}
	for {
		end := endOfBlock(rest, from)
		if end < 0 {
			break
		}
		if s.Max > 0 && end > s.Max {
			return ErrTooLarge
		}
		if data, ok := blockData(rest[:end]); ok {
			each(data)
		}
		rest, from = rest[end:], 0
	}
	if s.Max > 0 && len(rest) > s.Max {
		return ErrTooLarge
	}
	s.pending = append(s.pending[:0], rest...) // rest may be a later part of pending
	if len(s.pending) == 0 {
		s.pending = nil // it may be large
	}
	return nil
}

// Rest returns what was written of an event that is not complete. It is valid until the next Write.
func (s *Splitter) Rest() []byte { return s.pending }

// Between reports whether all that was written is whole events and comments.
func (s *Splitter) Between() bool { return len(s.pending) == 0 }

// endOfBlock returns the index after the first blank line of b; -1: there is none. It need not look before from.
func endOfBlock(b []byte, from int) int {
	atStart := from == 0
	for i := from; i < len(b); {
		n := lineBreak(b[i:])
		if n == 0 {
			atStart = false
			next := indexBreak(b[i:])
			if next < 0 {
				return -1
			}
			i += next
			continue
		}
		if i += n; atStart {
			return i
		}
		atStart = true
	}
	return -1
}

// lineBreak returns the length of the line break that b begins with, or 0.
func lineBreak(b []byte) int {
	switch {
	case bytes.HasPrefix(b, []byte("\r\n")):
		return 2
	case len(b) > 0 && (b[0] == '\r' || b[0] == '\n'):
		return 1
	}
	return 0
}

// blockData returns a copy of the data of a whole block; false: it has none.
func blockData(b []byte) ([]byte, bool) {
	limit := len(b)
	event := newBlock(nil)
	for len(b) > 0 {
		line := b
		if i := indexBreak(b); i >= 0 {
			line, b = b[:i], b[i+lineBreak(b[i:]):]
		} else {
			b = nil
		}
		if len(line) > 0 && line[0] != ':' {
			event.field(line, limit)
		}
	}
	ev, _ := event.event()
	return ev.Data, ev.HasData
}
