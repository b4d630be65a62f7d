package rejoin

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
	firstBody = 4 << 10  // what a body is given on its word. From then on it gets a few times as much as has come
	maxPooled = 64 << 10 // buffers that have grown beyond it are not kept
)

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// replay is a body that is read again.
func replay(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }

// readBody reads a body of at most limit bytes (not positive: any number) into memory that is the caller's alone. What is over the
// limit is not read. The part that was read is returned also with tooLarge and err, since the id of the request may be in it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, tooLarge bool, err error) {
	// A length is a claim: a middleware that decodes bodies may leave that of the encoded one, and a client that sends a byte now and then
	// may claim as much as it likes. It is used only to take less memory than would be taken without it, and not at all where there is no limit.
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

// overLimit tells a limit, which may be a middleware's as well, from other ends of a body.
func overLimit(part []byte, err error) (body []byte, tooLarge bool, _ error) {
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return part, true, nil
	}
	return part, false, err
}

// readAll is io.ReadAll for what is said to have n bytes. It stops when there is more than limit.
func readAll(r io.Reader, n, limit int64) ([]byte, error) {
	said := int(min(n, math.MaxInt-1)) + 1 // with room to see the end in
	b := make([]byte, 0, min(said, firstBody))
	for int64(len(b)) <= limit {
		if have := len(b); have == cap(b) {
			room := 2*have + 1
			if have < said {
				room = min(said, 8*have)
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

// encoded reports whether a Content-Encoding names anything but identity.
func encoded(codings []string) bool {
	for _, c := range codings {
		if c != "" && !strings.EqualFold(c, "identity") {
			return true
		}
	}
	return false
}
