package rejoin

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// replay is a body that is read again.
func replay(body []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(body)) }

// readBody reads a body of at most limit bytes (not positive: any number) into memory that is the caller's alone. What is over the
// limit is not read; the part that was is returned with tooLarge, since the id of the request may be in it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, tooLarge bool, err error) {
	src := r.Body
	if limit > 0 {
		src = http.MaxBytesReader(w, src, limit)
	}
	// A length is a claim: where there is no limit, memory is taken only for what has come.
	if n := r.ContentLength; n >= 0 && n <= limit {
		body = make([]byte, n)
		_, err = io.ReadFull(src, body)
		return body, false, err
	}
	buf := bodies.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	defer bodies.Put(buf)
	buf.Reset()
	_, err = buf.ReadFrom(src)
	body = bytes.Clone(buf.Bytes())
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return body, true, nil
	}
	return body, false, err
}
