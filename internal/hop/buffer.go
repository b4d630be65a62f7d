package hop

import (
	"bytes"
	"sync"
)

// pieceSize is how much of a stream is read at once.
const pieceSize = 32 << 10

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// buffer holds what was read of a stream and was not written. Most streams are silent most of the time, so it is small until it was full once.
type buffer struct {
	few   [512]byte
	large *[pieceSize]byte
	buf   []byte // few or large
	have  int
	last  byte // that was taken out
}

func newBuffer() *buffer {
	b := &buffer{}
	b.buf = b.few[:]
	return b
}

func (b *buffer) isLarge() bool { return b.large != nil }

// read reads more. full: there may be more at once.
func (b *buffer) read(a *Answer, mayGo, mayEnd bool) (full bool, err error) {
	n, err := a.read(b.buf[b.have:], mayGo, mayEnd)
	b.have += n
	return b.have == len(b.buf), err
}

// whole returns how much of what was read ends with the end of an event, which is an empty line: a server of rejoin ends lines with a line feed. inside:
// a part of the event was taken out before.
func (b *buffer) whole(inside bool) int {
	if i := bytes.LastIndex(b.buf[:b.have], []byte("\n\n")); i >= 0 {
		return i + 2
	}
	if inside && b.last == '\n' && b.have > 0 && b.buf[0] == '\n' {
		return 1
	}
	return 0
}

// wrote takes out what was written.
func (b *buffer) wrote(n int) {
	b.last = b.buf[n-1]
	b.have = copy(b.buf, b.buf[n:b.have])
}

// fit makes the buffer large where it was full, and small again when there is nothing in it.
func (b *buffer) fit(full bool) {
	switch {
	case full && b.large == nil:
		b.large = pieces.Get().(*[pieceSize]byte) //nolint:forcetypeassert // the pool holds nothing else
		copy(b.large[:], b.buf[:b.have])
		b.buf = b.large[:]
	case !full && b.have == 0:
		b.release()
	}
}

func (b *buffer) release() {
	if b.large != nil {
		pieces.Put(b.large)
		b.large, b.buf = nil, b.few[:]
	}
}
