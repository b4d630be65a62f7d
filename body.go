package rejoin

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// maxUnpaid is how much memory a body is given on its word. Beyond that it doubles with what comes.
const maxUnpaid = 64 << 10

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// replay is a body that is read again.
func replay(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }

// readBody reads a body of at most limit bytes (not positive: any number) into memory that is the caller's alone. What is over the
// limit is not read. The part that was read is returned also with tooLarge and err, since the id of the request may be in it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, tooLarge bool, err error) {
	// A length is a claim: a middleware that decodes bodies may leave that of the encoded one, and a client that sends a byte now and then
	// may claim as much as it likes. It only says how much memory to take at first, up to a bound, and where there is no limit not even that.
	if n := r.ContentLength; n >= 0 && n <= limit {
		body, err = readAll(r.Body, make([]byte, 0, min(n+1, maxUnpaid)), limit) // with room to see the end in
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
	defer bodies.Put(buf)
	buf.Reset()
	_, err = buf.ReadFrom(src)
	return overLimit(bytes.Clone(buf.Bytes()), err)
}

// overLimit tells a limit, which may be a middleware's as well, from other ends of a body.
func overLimit(part []byte, err error) (body []byte, tooLarge bool, _ error) {
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return part, true, nil
	}
	return part, false, err
}

// readAll is io.ReadAll into a slice that may be large enough already. It stops when there is more than limit.
func readAll(r io.Reader, b []byte, limit int64) ([]byte, error) {
	for int64(len(b)) <= limit {
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b)+1)
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
