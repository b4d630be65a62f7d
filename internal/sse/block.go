package sse

import (
	"bytes"
	"time"
)

// block is the event that is being read: the lines since the last blank one.
type block struct {
	ev     Event // without Data
	fields bool  // a recognised field was read
	open   bool  // a line was read, be it a comment

	// buf is the data so far, and behind it the part that was read of a line
	// whose end was not. One buffer for both, as its capacity then never
	// exceeds the limit that their sum has.
	buf  []byte
	data int // length of the data in buf
}

// newBlock returns an empty block that uses the memory of buf.
func newBlock(buf []byte) block {
	return block{ev: Event{Retry: -1}, buf: buf[:0]}
}

// size is what the limit applies to.
func (b *block) size() int {
	return len(b.ev.ID) + len(b.ev.Name) + len(b.buf)
}

// begun tells if the end of the stream would cut the block.
func (b *block) begun() bool {
	return b.open || len(b.buf) > b.data
}

// hold keeps a part of a line. The caller has checked that size allows it.
func (b *block) hold(part []byte, limit int) {
	b.reserve(len(part), limit)
	b.buf = append(b.buf, part...)
}

// line returns the line that ends with the bytes of last; if nothing of it was
// held before, that is last itself. The caller has checked that size allows it.
// Whatever takes the line's effect must follow, or newBlock.
func (b *block) line(last []byte, limit int) []byte {
	if len(b.buf) == b.data {
		return last
	}
	b.hold(last, limit)
	return b.buf[b.data:]
}

// reserve makes room for n more bytes. It doubles the buffer, as append does,
// but not beyond the limit: the old and the new buffer, and later the buffer
// and the event made of it, are then together at most twice the limit.
func (b *block) reserve(n, limit int) {
	need := len(b.buf) + n
	if need <= cap(b.buf) {
		return
	}
	size := min(max(need, 2*cap(b.buf)), limit)
	grown := make([]byte, len(b.buf), size)
	copy(grown, b.buf)
	b.buf = grown
}

// comment takes the effect of a comment line.
func (b *block) comment() {
	b.open = true
	b.buf = b.buf[:b.data]
}

// field takes the effect of a line that is neither blank nor a comment.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
func (b *block) field(line []byte, limit int) {
	b.open = true
	b.buf = b.buf[:b.data] // line may be what lies behind; it stays as it is until addData

	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		b.addData(value, limit)
	case "event":
		b.ev.Name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return
		}
		b.ev.ID, b.ev.HasID = string(value), true
	case "retry":
		retry, ok := parseRetry(value)
		if !ok {
			return
		}
		b.ev.Retry = retry
	default:
		return
	}
	b.fields = true
}

// addData appends a data line. value may lie in buf behind the data: it moves
// to the front there, and the separator does not overwrite it, as the field's
// name lies in between.
func (b *block) addData(value []byte, limit int) {
	if b.ev.HasData {
		b.reserve(1+len(value), limit)
		b.buf = append(b.buf, '\n')
	} else {
		b.reserve(len(value), limit)
	}
	b.buf = append(b.buf, value...)
	b.data = len(b.buf)
	b.ev.HasData = true
}

// event returns the block as an event, or false if it held no recognised field.
// The data is copied to a slice of its own size: buf may be far larger.
func (b *block) event() (Event, bool) {
	ev := b.ev
	if ev.HasData {
		ev.Data = make([]byte, b.data)
		copy(ev.Data, b.buf)
	}
	return ev, b.fields
}

// parseRetry reads a number of milliseconds. It saturates: a number that does
// not fit must not wrap to a short wait.
func parseRetry(digits []byte) (time.Duration, bool) {
	const limit = int64(MaxRetry / time.Millisecond)
	var ms int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms = min(ms*10+int64(c-'0'), limit)
	}
	return time.Duration(ms) * time.Millisecond, len(digits) > 0
}
