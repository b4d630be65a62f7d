package sse

import (
	"bytes"
	"time"
)

// block is the event that is being read: the lines since the last blank one.
type block struct {
	ev     Event // without Data
	fields bool  // a recognised field was read
	begun  bool  // a line was read, also if it was a comment

	// buf is the data so far, followed by what was read of an unfinished line.
	// One buffer holds both, so its capacity never exceeds the limit of their
	// sum.
	buf  []byte
	data int // length of the data in buf
}

// newBlock returns an empty block that uses the memory of buf.
func newBlock(buf []byte) block {
	return block{ev: Event{Retry: -1}, buf: buf[:0]}
}

// size returns the size that the limit applies to.
func (b *block) size() int {
	return len(b.ev.ID) + len(b.ev.Name) + len(b.buf)
}

// incomplete reports whether the stream would cut the block if it ended here.
func (b *block) incomplete() bool {
	return b.begun || len(b.buf) > b.data
}

// hold keeps a part of an unfinished line. The caller has checked the limit.
func (b *block) hold(part []byte, limit int) {
	b.reserve(len(part), limit)
	b.buf = append(b.buf, part...)
}

// line returns the line whose last part is last. That is last itself if no other
// part is held. The caller has checked the limit. It must call comment, field or
// newBlock next.
func (b *block) line(last []byte, limit int) []byte {
	if len(b.buf) == b.data {
		return last
	}
	b.hold(last, limit)
	return b.buf[b.data:]
}

// reserve makes room for n more bytes. It doubles the buffer, as append does,
// but not beyond the limit. So the old and the new buffer together, and later
// the buffer and the event made of it, take at most twice the limit.
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

// comment processes a comment line.
func (b *block) comment() {
	b.begun = true
	b.buf = b.buf[:b.data]
}

// field processes a line that is neither blank nor a comment.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
func (b *block) field(line []byte, limit int) {
	b.begun = true
	b.buf = b.buf[:b.data] // line may point to the part that is cut off here; addData is the first to overwrite it

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

// addData appends a data line. value may lie in buf after the data. Then it moves
// towards the front. The separator does not overwrite it, because the field's
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

// event returns the block as an event, or false if it has no recognised field.
// The data is copied to a slice of its size, because buf may be far larger.
func (b *block) event() (Event, bool) {
	ev := b.ev
	if ev.HasData {
		ev.Data = make([]byte, b.data)
		copy(ev.Data, b.buf)
	}
	return ev, b.fields
}

// parseRetry reads a number of milliseconds. A number above MaxRetry becomes
// MaxRetry, so that it cannot overflow to a short wait.
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
