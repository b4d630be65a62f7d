package sse

import (
	"bytes"
	"errors"
	"io"
)

const (
	// chunkSize is how much one Read asks of the source.
	chunkSize = 4 << 10

	// maxEmptyReads is how many times in a row a source may return neither bytes
	// nor an error before it counts as broken.
	maxEmptyReads = 100
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// Reader reads events from a stream. The zero value is not usable; see
// NewReader. One goroutine at a time may use it, and it starts none. To
// interrupt Next, make the source fail.
type Reader struct {
	// OnComment, if set, is called by Next, in the goroutine of Next, once for
	// each comment line, which is a sign of life and not an event. Set it before
	// the first Next. It must not call Next.
	OnComment func()

	src   io.Reader
	max   int
	chunk []byte // what src reads into
	rest  []byte // the part of chunk that was read and not processed yet
	err   error  // what Next returns after rest

	started bool // the start of the stream was read, where a byte order mark may be
	skipLF  bool // the last line ended in \r, so a \n that comes next belongs to it
	block   block
}

// NewReader returns a Reader of src. It fails with ErrTooLarge if the id, the name
// and the data of one event and its current line, also a comment, together have
// more than max bytes. It holds at most about twice max, and one read of 4 KiB.
//
// It panics if max is not positive.
func NewReader(src io.Reader, max int) *Reader {
	if max <= 0 {
		panic("sse: NewReader: max must be positive")
	}
	return &Reader{src: src, max: max, chunk: make([]byte, chunkSize), block: newBlock(nil)}
}

// Next returns the next block with a recognised field. It does not call Read again
// once it has seen the blank line of that block.
//
// It returns io.EOF if the source ended after a blank line or was empty,
// io.ErrUnexpectedEOF if it ended after anything else (also after a comment),
// ErrTooLarge, io.ErrNoProgress, or the source's error as it is. Whole blocks that
// were read before an error are returned first. After an error, Next keeps
// returning it.
func (r *Reader) Next() (Event, error) {
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		switch {
		case len(line) == 0:
			if ev, ok := r.endBlock(); ok {
				return ev, nil
			}
		case line[0] == ':':
			r.block.comment()
			if r.OnComment != nil {
				r.OnComment()
			}
		default:
			r.block.field(line, r.max)
		}
	}
}

func (r *Reader) endBlock() (Event, bool) {
	ev, ok := r.block.event()
	r.block = newBlock(r.block.buf)
	return ev, ok
}

// line returns the next line without its end. It is a part of chunk or of the
// block's buffer, and valid only until the next call of a method of either.
func (r *Reader) line() ([]byte, error) {
	for {
		r.dropLF()
		part, ended := r.rest, false
		if i := indexBreak(r.rest); i >= 0 {
			part, ended = r.rest[:i], true
		}
		// A whole line and each part of one have the same limit, so the result
		// does not depend on how the source cuts the stream.
		if r.block.size()+len(part) > r.max {
			r.rest, r.err = nil, ErrTooLarge
			return nil, r.err
		}
		if ended {
			r.skipLF = r.rest[len(part)] == '\r'
			r.rest = r.rest[len(part)+1:]
			return r.block.line(part, r.max), nil
		}
		r.block.hold(part, r.max)
		r.rest = nil
		if errors.Is(r.err, io.EOF) && r.block.incomplete() {
			r.err = io.ErrUnexpectedEOF
		}
		if r.err != nil {
			return nil, r.err
		}
		r.fill()
	}
}

// dropLF drops the second half of a \r\n. The reader does not wait for it when it
// reads the \r: it may never come, and the event is complete without it.
func (r *Reader) dropLF() {
	if !r.skipLF || len(r.rest) == 0 {
		return
	}
	r.skipLF = false
	if r.rest[0] == '\n' {
		r.rest = r.rest[1:]
	}
}

// fill reads from the source into rest, and stores its error in err.
//
// At the start of the stream it reads on while it has only a part of a byte
// order mark. That delays no event, because no event ends in those bytes.
func (r *Reader) fill() {
	n, empty := 0, 0
	for r.err == nil && (n == 0 || !r.started && n < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, r.chunk[:n])) {
		var m int
		m, r.err = r.src.Read(r.chunk[n:])
		n += m
		if m > 0 || r.err != nil {
			continue
		}
		if empty++; empty == maxEmptyReads {
			r.err = io.ErrNoProgress
		}
	}
	r.rest = r.chunk[:n]
	if !r.started {
		r.started = true
		r.rest = bytes.TrimPrefix(r.rest, byteOrderMark)
	}
}

// indexBreak returns where the first line break of b begins, or -1. Two passes
// of IndexByte are faster than IndexAny, since b is at most a chunk.
func indexBreak(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		b = b[:i]
	}
	if j := bytes.IndexByte(b, '\r'); j >= 0 {
		return j
	}
	return i
}
