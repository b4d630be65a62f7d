package door

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
)

const (
	firstBody = 4 << 10  // the buffer that a body gets for its Content-Length alone; it grows with what has come
	maxPooled = 64 << 10 // larger buffers are not kept
)

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Replay is a body to read again.
func Replay(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }

// ReadBody reads a body of at most limit bytes (not positive: any number) into new memory. It does not read more than the limit. It returns what
// it has read even with tooLarge or err, because the id of the request may be in it.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, tooLarge bool, err error) {
	// A Content-Length is only a claim: a middleware that decodes bodies may leave the length of the encoded one, and a slow client may claim any
	// length. It is used only to take less memory than without it, and not at all if there is no limit.
	if n := r.ContentLength; n >= 0 && n <= limit {
		body, err = readAll(r.Body, n, limit)
		if int64(len(body)) <= limit {
			return overLimit(body, err)
		}
		var more [1]byte
		_, _ = http.MaxBytesReader(w, r.Body, 0).Read(more[:]) // it tells net/http not to read on for the next request
		return body[:limit], true, nil
	}
	src := r.Body
	if limit > 0 {
		src = http.MaxBytesReader(w, src, limit)
	}
	buf := bodies.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	_, err = buf.ReadFrom(src)
	body = bytes.Clone(buf.Bytes())
	if buf.Cap() <= maxPooled {
		buf.Reset()
		bodies.Put(buf)
	}
	return overLimit(body, err)
}

// overLimit distinguishes a limit, which may also be a middleware's, from other errors.
func overLimit(part []byte, err error) (body []byte, tooLarge bool, _ error) {
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return part, true, nil
	}
	return part, false, err
}

// readAll is io.ReadAll for a body that claims to have n bytes. It stops when there are more than limit.
func readAll(r io.Reader, n, limit int64) ([]byte, error) {
	claimed := int(min(n, math.MaxInt-1)) + 1 // with room to see the end in
	b := make([]byte, 0, min(claimed, firstBody))
	for int64(len(b)) <= limit {
		if have := len(b); have == cap(b) {
			room := 2*have + 1
			if have < claimed {
				room = min(claimed, 8*have)
			}
			b = append(make([]byte, 0, room), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return b, err
		}
	}
	return b, nil
}

// Encoded reports whether a Content-Encoding names anything but identity.
func Encoded(codings []string) bool {
	for _, c := range codings {
		if c != "" && !strings.EqualFold(c, "identity") {
			return true
		}
	}
	return false
}
