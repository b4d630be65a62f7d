package rejoin

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// replay is a body that is read again.
func replay(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }

// readBody reads a body of at most limit bytes (not positive: any number) into memory that is the caller's alone. What is over the
// limit is not read. The part that was read is returned also with tooLarge and err, since the id of the request may be in it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, tooLarge bool, err error) {
	src := r.Body
	if limit > 0 {
		src = http.MaxBytesReader(w, src, limit)
	}
	// A length is a claim: a middleware that decodes bodies may leave that of the encoded one. It only says how much memory to
	// take at first, and where there is no limit not even that.
	if n := r.ContentLength; n >= 0 && n <= limit {
		body, err = readAll(src, make([]byte, 0, n+1)) // with room to see the end in
	} else {
		buf := bodies.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
		defer bodies.Put(buf)
		buf.Reset()
		_, err = buf.ReadFrom(src)
		body = bytes.Clone(buf.Bytes())
	}
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return body, true, nil
	}
	return body, false, err
}

// readAll is io.ReadAll into a slice that may be large enough already.
func readAll(r io.Reader, b []byte) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
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
